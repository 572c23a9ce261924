//! The loop of one agent. The loop passes events to the agent's state machine and carries out the
//! effects in order.
//!
//! Short effects are awaited one by one. Long effects (model calls, tools, hooks) are futures that
//! the loop polls together with its event channels. An agent is therefore one task, and dropping
//! the task cancels all its work.
//!
//! The steps for the transcript and the read marks for mail are collected first. They are written
//! to disk while the loop waits for events, and also before an effect that must come after them.
//! This module decides nothing: the crate `agent` decides what an agent does. The team's loop
//! tracks the agents and passes messages to them.

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
