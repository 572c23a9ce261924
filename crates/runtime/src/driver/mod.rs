//! The loop of one agent: it feeds its state machine with events and carries out the effects, in order.
//!
//! Short effects are awaited one after the other; long ones (the model, tools, hooks) are futures that this loop polls
//! beside its events, so that an agent is one task and dropping it drops all it does. What is to be on disk, steps and
//! marks, is gathered and gets there while the loop waits, or before an effect that must not come first.
//! Nothing is decided here: that is `agent`'s. Who lives, and who is told what, is `crew`'s.

mod agent_context;
mod briefing;
mod calls;
mod compaction;
mod inbox;
mod inspect;
mod link;
mod log;
mod marks;
mod model_call;
mod run;

pub(crate) use agent_context::{
    AgentContext, Announcement, Report, ReportKind, Sink, System, is_offered,
};
pub(crate) use calls::call_name;
pub(crate) use inbox::task_notification;
pub(crate) use link::{AgentSender, link};
pub(crate) use log::{Log, LogError, output_file};
pub(crate) use run::{Driver, Start};
