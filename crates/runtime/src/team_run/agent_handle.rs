//! How the loop reaches an agent, wherever it lives.
//!
//! One that lives here is a driver behind a [`AgentSender`]. One that lives elsewhere reads its mail, the config and its lead's
//! word by itself; what the loop has to tell is for the one who minds its process and its pane ([`Remote`]).

use pitcrew_protocol::{AgentName, PermissionMode, Program};

use super::remote::{Remote, RemoteCommand};
use crate::agent::Event;
use crate::driver::AgentSender;
use crate::events::RunEvent;

/// Where an agent lives, and how it is told something.
pub(super) enum AgentHandle {
    /// A task of this process.
    Here(AgentSender),
    /// A process of its own.
    Elsewhere(Remote),
}

impl AgentHandle {
    /// Lets the agent know that its inbox changed.
    pub(super) fn ring(&self) {
        match self {
            Self::Here(link) => link.ring(),
            Self::Elsewhere(remote) => remote.look(),
        }
    }

    /// Ends the agent for good; it is not to be resumed.
    pub(super) fn end(&self, reason: &str) {
        match self {
            Self::Here(link) => link.tell(Event::Killed { reason: reason.to_owned() }),
            Self::Elsewhere(remote) => {
                remote.tell(RemoteCommand::End { reason: reason.to_owned() })
            }
        }
    }

    /// Drops the agent where it stands, so that it can be resumed.
    pub(super) fn cancel(&self) {
        match self {
            Self::Here(link) => link.cancel(),
            Self::Elsewhere(remote) => remote.cancel(),
        }
    }

    /// Lets the agent work in another mode. One that lives elsewhere reads that in the config, where the loop has it from, and one
    /// of another client takes no mode from there while it runs. Answers with what is to be told of it.
    pub(super) fn switch(&self, name: &AgentName, mode: PermissionMode) -> RunEvent {
        let agent = name.clone();
        match self {
            Self::Here(link) => {
                link.tell(Event::ModeChanged(mode));
                RunEvent::ModeChanged { agent, mode }
            }
            Self::Elsewhere(_) if self.is_foreign() => RunEvent::ModeRecorded { agent, mode },
            Self::Elsewhere(_) => RunEvent::ModeChanged { agent, mode },
        }
    }

    /// Lets it be known that the agent approved its shutdown: it is to be gone soon.
    pub(super) fn said_goodbye(&self) {
        match self {
            Self::Here(_) => {}
            Self::Elsewhere(remote) => remote.tell(RemoteCommand::SaidGoodbye),
        }
    }

    /// Lets it be known that the config changed: there it may say whether it is in a turn.
    pub(super) fn heed_config(&self) {
        match self {
            Self::Here(_) => {}
            Self::Elsewhere(remote) => remote.look(),
        }
    }

    /// Lets it be known that the agent was seen at work.
    pub(super) fn was_seen_at_work(&self) {
        match self {
            Self::Here(_) => {}
            Self::Elsewhere(remote) => remote.tell(RemoteCommand::Works),
        }
    }

    /// The link to an agent that lives here.
    pub(super) fn link(&self) -> Option<&AgentSender> {
        match self {
            Self::Here(link) => Some(link),
            Self::Elsewhere(_) => None,
        }
    }

    /// Whether the agent is another client's.
    pub(super) fn is_foreign(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Elsewhere(remote) => remote.program != Program::Pitcrew,
        }
    }

    /// Whether the agent has a process of its own.
    pub(super) fn is_elsewhere(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Elsewhere(_) => true,
        }
    }

    /// Whether the agent is one of ours elsewhere, so that what it does is read in the journal.
    pub(super) fn keeps_journal(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Elsewhere(remote) => remote.program == Program::Pitcrew,
        }
    }
}
