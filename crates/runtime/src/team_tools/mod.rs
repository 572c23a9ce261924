//! The tools of the team: tasks, mail and plans. Each parses its input, calls one operation of `team`, and answers in the
//! recorded words.
//!
//! Who may do what is decided by `team`; making and ending teams and agents is the crew's, as only its loop can.

mod plan;
mod tool;

pub(crate) use plan::{exit_plan_mode, plan_of, show_plan};
pub(crate) use tool::{answer, refusal, team_tools};
