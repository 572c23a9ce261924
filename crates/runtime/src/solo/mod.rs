//! Runs one member of a team in its own process. Either a pitcrew lead placed the member in a pane,
//! or the member joined a team by itself.
//!
//! [`options`] holds the start options, [`mod@start`] turns them into a running agent, and
//! [`solo_loop`] runs the agent. One enum lists all events that wake the loop, as in a team's run.
//! The agent and its parts are also the same as in a team's run. The member learns about its lead
//! from the team's files, from the lead's lease and from the end of the lead's process ([`lead`]).
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
