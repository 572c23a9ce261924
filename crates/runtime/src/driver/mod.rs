//! The loop of one agent. It passes events to the agent's state machine and carries out the effects
//! in order.
//!
//! Short effects are awaited one by one. Long ones (model calls, tools, hooks) are futures that the
//! loop polls together with its event channels. So an agent is one task, and dropping it cancels
//! all its work. Steps and read marks are collected. They reach the disk while the loop waits, or
//! before an effect that must come after them. This module decides nothing. `agent` decides what an
//! agent does, and the team's loop tracks the agents and passes messages to them.

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
