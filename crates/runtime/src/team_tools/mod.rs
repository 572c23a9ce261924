//! The team tools: tasks, mail and plans. Each tool parses its input and calls one operation of
//! `team`. Its result text has the same form as the recorded result of the reference client.
//!
//! The `team` crate decides what each agent is allowed to do. The tools that create and end teams
//! and agents are in `team_run`, because only the team's loop can do that.

mod plan;
mod tool;

pub(crate) use plan::{PLAN_CHARS, exit_plan_mode, plan_of, show_plan};
pub(crate) use tool::{answer, refusal, team_tools};
