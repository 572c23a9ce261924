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
    /// Returns what the run must wait for from this teammate, or `None` if nothing. If there are
    /// several such things, returns only one, and unread mail comes first. A client has the time
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
    /// Returns true if the client has received a message after it sent its last idle notice. Such a
    /// client will send another idle notice after it has handled the message. Read mail alone does
    /// not show that the client is idle, because a client marks mail as read before it reports that
    /// it works.
    fn owes_notice(&self) -> bool {
        self.last_sent > self.last_notice
    }

    /// Returns the time that the client still has to answer its lead's shutdown request. Returns
    /// `None` if no such request is open or the time is over.
    ///
    /// The idle notice of a client is no answer: the client may read the request and send an idle
    /// notice before it begins to answer.
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

    /// Returns the inbox whose next change can end the wait. Returns `None` if no inbox shows the
    /// end of the wait.
    ///
    /// An inbox is needed for two kinds of wait, because no report shows their end. A teammate that
    /// marks mail as read sends no report if the mail needs no work. An idle notice of a client
    /// does not wake the lead.
    pub(super) fn inbox(&self) -> Option<InboxFile> {
        match self {
            Self::Mail(name) => Some(name.inbox_file()),
            Self::Notice => Some(AgentName::lead().inbox_file()),
            Self::End | Self::TurnToShow | Self::Goodbye(_) => None,
        }
    }
}
