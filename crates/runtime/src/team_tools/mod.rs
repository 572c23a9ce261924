//! The team tools: tasks, mail and plans. Each one parses its input, calls one operation of `team`,
//! and answers with the recorded text.
//!
//! The `team` crate decides who may do what. The team's run creates and ends teams and agents,
//! because only its loop can.

mod plan;
mod tool;

pub(crate) use plan::{exit_plan_mode, plan_of, show_plan};
pub(crate) use tool::{answer, refusal, team_tools};
