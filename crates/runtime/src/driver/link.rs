//! The two ends over which an agent is told what happens to it.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::agent::Event;

/// Events the crew may have sent that an agent has not taken yet. They are few: answers, notices, a stop. They are boxed,
/// since a channel sets room aside for many, and an idle agent gets none.
const EVENTS_WAITING: usize = 64;

/// The crew's end of an agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentSender {
    events: mpsc::Sender<Box<Event>>,
    mail: Arc<Notify>,
    cancel: CancellationToken,
}

/// The agent's end.
pub(crate) struct AgentReceiver {
    pub(super) events: mpsc::Receiver<Box<Event>>,
    pub(super) mail: Arc<Notify>,
    pub(super) cancel: CancellationToken,
}

/// Makes both ends.
pub(crate) fn link(cancel: CancellationToken) -> (AgentSender, AgentReceiver) {
    let (sender, events) = mpsc::channel(EVENTS_WAITING);
    let mail = Arc::new(Notify::new());
    let link = AgentSender { events: sender, mail: mail.clone(), cancel: cancel.clone() };
    (link, AgentReceiver { events, mail, cancel })
}

impl AgentSender {
    /// Tells the agent something, without waiting: the crew must never wait for an agent. An agent that does not take its
    /// events any more is stopped.
    pub(crate) fn tell(&self, event: Event) {
        match self.events.try_send(Box::new(event)) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.cancel.cancel(),
        }
    }

    /// Tells the agent that there may be mail. Many times is as good as once.
    pub(crate) fn ring(&self) {
        self.mail.notify_one();
    }

    /// Drops the agent and all it does.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}
