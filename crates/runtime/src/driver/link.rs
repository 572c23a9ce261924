//! The channel that carries events to an agent: its sender and its receiver.

use std::sync::Arc;

use pitcrew_agent::{ContextBound, Event};
use pitcrew_model::Model;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Maximum number of events that wait in an agent's event queue. An agent gets few events, such as
/// answers, notices and a stop, so the queue is rarely full. Each event is stored in a `Box` to
/// save memory: the channel reserves space for many events at once, even for an idle agent.
const EVENTS_WAITING: usize = 64;

/// The sending end of an agent's event channel, used by the team's loop.
#[derive(Clone, Debug)]
pub(crate) struct AgentSender {
    events: mpsc::Sender<Box<ToAgent>>,
    mail: Arc<Notify>,
    cancel: CancellationToken,
}

/// The receiving end of an agent's event channel, used by the agent.
pub(crate) struct AgentReceiver {
    pub(super) events: mpsc::Receiver<Box<ToAgent>>,
    pub(super) mail: Arc<Notify>,
    pub(super) cancel: CancellationToken,
}

/// What the loop of the team sends to an agent.
pub(super) enum ToAgent {
    /// An event for the agent's state machine.
    Event(Event),
    /// The model that the agent calls from its next model call on, and the limits of the model's
    /// context window.
    Model { model: Arc<dyn Model>, context: ContextBound },
}

/// Creates the sender and the receiver of an agent's event channel.
pub(crate) fn link(cancel: CancellationToken) -> (AgentSender, AgentReceiver) {
    let (sender, events) = mpsc::channel(EVENTS_WAITING);
    let mail = Arc::new(Notify::new());
    let link = AgentSender { events: sender, mail: mail.clone(), cancel: cancel.clone() };
    (link, AgentReceiver { events, mail, cancel })
}

impl AgentSender {
    /// Sends an event to the agent without waiting, because the team's loop must never wait for an
    /// agent. If the agent's queue is full, the agent is cancelled.
    pub(crate) fn tell(&self, event: Event) {
        self.send(ToAgent::Event(event));
    }

    /// Gives the agent another model, in the same way as [`AgentSender::tell`].
    pub(crate) fn change_model(&self, model: Arc<dyn Model>, context: ContextBound) {
        self.send(ToAgent::Model { model, context });
    }

    fn send(&self, sent: ToAgent) {
        match self.events.try_send(Box::new(sent)) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.cancel.cancel(),
        }
    }

    /// Tells the agent that there may be new mail. Several calls before the agent reads its inbox
    /// count as one call.
    pub(crate) fn ring(&self) {
        self.mail.notify_one();
    }

    /// Cancels the agent and all its work.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}
