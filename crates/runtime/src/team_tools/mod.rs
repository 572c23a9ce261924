//! The team tools: tasks, mail and plans. Each tool parses its input, calls one operation of
//! `team`, and returns the result text recorded from the reference client.
//!
//! The `team` crate decides who may do what. The team's run creates and ends teams and agents,
//! because only its loop can do that.

mod plan;
mod tool;

pub(crate) use plan::{exit_plan_mode, plan_of, show_plan};
pub(crate) use tool::{answer, refusal, team_tools};
