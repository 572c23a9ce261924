//! Checks whether a team in which every agent is idle has really nothing to do. The team's mail may
//! show that somebody still has work.

use std::time::Duration;

use pitcrew_protocol::{AgentName, InboxFile};

use super::super::client_turns::TurnState;
use super::RunAction;

/// What the team's files show about one teammate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::team_run) struct MateSeen {
    pub(in crate::team_run) name: AgentName,
    /// Whether the teammate's inbox contains unread mail.
    pub(in crate::team_run) has_unread: bool,
    /// Whether the teammate has sent its goodbye message (the approval of its shutdown) but has not
    /// ended.
    pub(in crate::team_run) has_said_goodbye: bool,
    /// If another client runs the teammate: further observations. They are needed because such a
    /// client does not report its turns.
    pub(in crate::team_run) client: Option<ClientSeen>,
}

/// What the team's files show about a teammate that another client runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::team_run) struct ClientSeen {
    /// The time of the last message that was sent to the teammate.
    pub(in crate::team_run) last_sent: Option<String>,
    /// The time of the teammate's last idle notice.
    pub(in crate::team_run) last_notice: Option<String>,
    /// Whether the teammate is in a turn, as the mail that it took and the notices that it sent
    /// show.
    pub(in crate::team_run) turn: TurnState,
    /// Time since the lead asked the teammate to shut down. `None` if the lead did not ask, or if
    /// the teammate has already answered.
    pub(in crate::team_run) asked_to_leave: Option<Duration>,
}

/// What the run waits for before it can be over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// This teammate must read its mail.
    Mail(AgentName),
    /// The teammate has sent its goodbye message (the approval of its shutdown) and must end.
    End,
    /// The client must send an idle notice to its lead.
    Notice,
    /// The client may have begun a turn, and the config shows a turn only after some time.
    TurnToShow,
    /// The client must answer its lead's shutdown request. Contains the time that is left for the
    /// answer.
    Goodbye(Duration),
}

impl MateSeen {
    /// Returns what the run must wait for from this teammate. If there are several things, returns
    /// the first. A client has the time `grace` to answer a shutdown request.
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
    /// Returns true if the client has received a message after it sent its last idle notice. A
    /// client marks mail as read some time before it reports that it works. After it has handled
    /// all mail that it took, it sends another idle notice.
    fn owes_notice(&self) -> bool {
        self.last_sent > self.last_notice
    }

    /// Returns the time that the client still has to answer its lead's shutdown request. Returns
    /// `None` if there is no such request or the time is over. A client may take the request and
    /// send an idle notice before it begins to answer.
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

    /// Returns the inbox whose next change can end the wait. No report shows the end of this wait:
    /// a teammate sends no report if the mail that it marks as read needs no work, and an idle
    /// notice alone does not wake the lead.
    pub(super) fn inbox(&self) -> Option<InboxFile> {
        match self {
            Self::Mail(name) => Some(name.inbox_file()),
            Self::Notice => Some(AgentName::lead().inbox_file()),
            Self::End | Self::TurnToShow | Self::Goodbye(_) => None,
        }
    }
}
