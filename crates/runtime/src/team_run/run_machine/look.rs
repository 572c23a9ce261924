//! Checks whether a team in which every agent is idle is really quiet. The team's mail may show
//! that it is not.

use std::time::Duration;

use pitcrew_protocol::{AgentName, InboxFile};

use super::super::client_turns::TurnState;
use super::RunAction;

/// The observations about one teammate in the team's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::team_run) struct MateSeen {
    pub(in crate::team_run) name: AgentName,
    /// Whether the teammate's inbox contains unread mail.
    pub(in crate::team_run) has_unread: bool,
    /// Whether the teammate has sent its goodbye message but has not ended.
    pub(in crate::team_run) has_said_goodbye: bool,
    /// More observations if another client runs the teammate, because such a client does not report
    /// its turns.
    pub(in crate::team_run) client: Option<ClientSeen>,
}

/// The observations in the team's files about a teammate that another client runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::team_run) struct ClientSeen {
    /// The time of the last message that was sent to the teammate.
    pub(in crate::team_run) last_sent: Option<String>,
    /// The time of the teammate's last idle notice.
    pub(in crate::team_run) last_notice: Option<String>,
    /// The state of the teammate's turns, derived from the mail that it took and the notices that
    /// it sent.
    pub(in crate::team_run) turn: TurnState,
    /// Time since the lead asked the teammate to shut down. `None` if no such request is
    /// unanswered.
    pub(in crate::team_run) asked_to_leave: Option<Duration>,
}

/// An event that the run waits for before it can be over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The teammate must read its mail.
    Mail(AgentName),
    /// The teammate has sent its goodbye message and must end.
    End,
    /// The client must send an idle notice to its lead.
    Notice,
    /// The client may have begun a turn, which needs time to show in the config.
    TurnToShow,
    /// The client must answer its lead's shutdown request. Contains the time that is left for that.
    Goodbye(Duration),
}

impl MateSeen {
    /// Returns the first event that the run waits for from this teammate. A client has the time
    /// `grace` to answer a shutdown request.
    pub(super) fn waits(&self, grace: Duration) -> Option<Wait> {
        if self.has_unread {
            return Some(Wait::Mail(self.name.clone()));
        }
        if self.has_said_goodbye {
            return Some(Wait::End);
        }
        let client = self.client.as_ref()?;
        if client.owes_notice() {
            return Some(Wait::Notice);
        }
        match client.turn {
            TurnState::Turn => Some(Wait::Notice),
            TurnState::Unclear => Some(Wait::TurnToShow),
            TurnState::Idle => client.owes_goodbye(grace).map(Wait::Goodbye),
        }
    }
}

impl ClientSeen {
    /// Whether the client was sent a message after its last idle notice. A client marks mail as
    /// read some time before it reports that it works. It sends another idle notice after it has
    /// handled all mail that it took.
    fn owes_notice(&self) -> bool {
        self.last_sent > self.last_notice
    }

    /// Returns the time that the client still has to answer its lead's shutdown request, or `None`
    /// if it owes no answer. A client may take the request and send an idle notice before it begins
    /// to answer.
    fn owes_goodbye(&self, grace: Duration) -> Option<Duration> {
        grace.checked_sub(self.asked_to_leave?).filter(|left| !left.is_zero())
    }
}

impl Wait {
    /// Returns the actions to carry out during the wait.
    pub(super) fn actions(&self) -> Vec<RunAction> {
        match self {
            Self::Mail(name) => vec![RunAction::Ring(name.clone())],
            Self::TurnToShow => vec![RunAction::AwaitTurn],
            Self::Goodbye(left) => vec![RunAction::AwaitGoodbye(*left)],
            Self::End | Self::Notice => Vec::new(),
        }
    }

    /// Returns the inbox whose next change may end the wait. No other event shows this end. A
    /// teammate marks mail that needs no work as read without a report, and an idle notice alone
    /// does not wake the lead.
    pub(super) fn inbox(&self) -> Option<InboxFile> {
        match self {
            Self::Mail(name) => Some(name.inbox_file()),
            Self::Notice => Some(AgentName::lead().inbox_file()),
            Self::End | Self::TurnToShow | Self::Goodbye(_) => None,
        }
    }
}
