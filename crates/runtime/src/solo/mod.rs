//! One member of a team in a process of its own: placed in a pane by our lead, or come by itself into any team.
//!
//! [`options`] is what it is started with, [`mod@start`] takes it from there to a running agent, [`solo_loop`] keeps that: what
//! wakes it is one closed enum, as in a crew. The agent and all it works with are a crew's own; the lead is met in the
//! team's files, in its lease, and as a process that can end ([`lead`]). Panes are none of this room's business.

mod deferred;
mod ends;
mod lead;
mod options;
mod solo_loop;
mod start;
mod subagents;

pub use options::{Entry, SoloOptions};
pub(crate) use start::start;
