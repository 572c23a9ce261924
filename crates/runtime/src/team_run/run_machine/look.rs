//! Whether a team in which everybody rests is really quiet: its mail may say otherwise.

use std::time::Duration;

use pitcrew_protocol::{AgentName, InboxFile};

use super::super::client_turns::TurnState;
use super::RunAction;

/// What the team's files say of one teammate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::team_run) struct MateSeen {
    pub(in crate::team_run) name: AgentName,
    /// Its inbox has mail that it has not taken.
    pub(in crate::team_run) has_unread: bool,
    /// It has said goodbye and has not ended.
    pub(in crate::team_run) has_said_goodbye: bool,
    /// More, of a teammate of another client, which does not report its turns.
    pub(in crate::team_run) client: Option<ClientSeen>,
}

/// What the team's files say of a teammate of another client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::team_run) struct ClientSeen {
    /// The time of the last message that was sent to it.
    pub(in crate::team_run) last_sent: Option<String>,
    /// The time of its last notice that it is idle.
    pub(in crate::team_run) last_notice: Option<String>,
    /// Its turns, by the mail that it took and the notices that it gave.
    pub(in crate::team_run) turn: TurnState,
    /// How long ago its lead asked it to shut down, while that has no answer.
    pub(in crate::team_run) asked_to_leave: Option<Duration>,
}

/// Something that keeps the run from being over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The teammate has to take its mail.
    Mail(AgentName),
    /// The teammate's end follows on its goodbye.
    End,
    /// The client owes its lead a notice that it is idle.
    Notice,
    /// There must be time for a turn of the client to show in the config.
    TurnToShow,
    /// The client owes its lead an answer to a request to shut down, and has so long for it.
    Goodbye(Duration),
}

impl MateSeen {
    /// The first thing that the run waits for of this teammate. A client has `grace` to answer a
    /// request to shut down.
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
    /// Whether it has been sent something since it last told that it is idle. It marks mail as read
    /// some time before it says that it is at work, and tells of its idleness once more after all
    /// that it took.
    fn owes_notice(&self) -> bool {
        self.last_sent > self.last_notice
    }

    /// How long it still has to answer its lead's request to shut down; none when it owes no
    /// answer. It takes the request, and may then say that it is idle before it begins to answer.
    fn owes_goodbye(&self, grace: Duration) -> Option<Duration> {
        grace.checked_sub(self.asked_to_leave?).filter(|left| !left.is_zero())
    }
}

impl Wait {
    /// What is to be done meanwhile.
    pub(super) fn actions(&self) -> Vec<RunAction> {
        match self {
            Self::Mail(name) => vec![RunAction::Ring(name.clone())],
            Self::TurnToShow => vec![RunAction::AwaitTurn],
            Self::Goodbye(left) => vec![RunAction::AwaitGoodbye(*left)],
            Self::End | Self::Notice => Vec::new(),
        }
    }

    /// The inbox whose next change may end the wait. Nothing else tells of it: a teammate marks
    /// mail that is no work for it as read without a word to us, and a notice alone does not wake
    /// the lead.
    pub(super) fn inbox(&self) -> Option<InboxFile> {
        match self {
            Self::Mail(name) => Some(name.inbox_file()),
            Self::Notice => Some(AgentName::lead().inbox_file()),
            Self::End | Self::TurnToShow | Self::Goodbye(_) => None,
        }
    }
}
