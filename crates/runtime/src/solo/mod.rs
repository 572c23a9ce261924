//! Runs one member of a team in its own process. A pitcrew lead placed the member in a pane, or the
//! member joined a team by itself.
//!
//! [`options`] holds the start options, [`mod@start`] turns them into a running agent, and
//! [`solo_loop`] runs the agent. One closed enum lists all events that wake the loop, as in a
//! team's run. The agent and its parts are the same as in a team's run. The member observes its
//! lead through the team's files, the lead's lease and the end of the lead's process ([`lead`]).
//! This module does not handle panes.

mod deferred;
mod ends;
mod lead;
mod options;
mod solo_loop;
mod start;
mod subagents;

pub use options::{Entry, SoloOptions};
pub(crate) use start::start;
