//! The loop of one team. The loop tracks the running agents, passes messages to them, and decides
//! when the run is over.
//!
//! [`wake`] lists every event that can wake the loop. [`run_machine`] decides the course of the
//! run, without I/O. The loop in [`team_loop`] carries out the decisions. Agents and the loop
//! exchange messages over channels and share no state.
//!
//! The modules `agent` and `driver` run an agent's turns. The `team` crate decides what a team is
//! allowed to do. The module `solo` runs one agent in its own process and uses parts of this module
//! too.

mod agent_spec;
mod agents;
mod another_team;
mod answers;
mod backends;
mod client_calls;
mod client_start;
mod client_turns;
mod close;
mod control;
mod ends;
mod goes_on;
mod in_process;
mod lead_requests;
mod lead_tools;
mod left;
mod mode;
mod open_work;
mod pane_backend;
mod permissions;
mod plan_questions;
mod questions;
mod recovery;
mod remote;
mod remote_agents;
mod resume_teammate;
mod run_context;
mod run_machine;
mod screen;
mod spawn;
mod spawn_backend;
mod start;
mod start_notices;
mod subagents;
mod take_lead;
mod take_over;
mod team_loop;
mod usage_totals;
mod user_requests;
mod wake;

pub(crate) use agent_spec::{AgentSpec, BuiltAgent};
pub(crate) use answers::{Pending, PersonSaid};
pub(crate) use in_process::InProcess;
pub(crate) use mode::says_mode;
pub(crate) use recovery::{TRY_AFTER, TRY_AT_MOST};
pub(crate) use run_context::RunContext;
pub(crate) use start::{EVENTS_WAITING, start, store_error};
pub(crate) use subagents::{Sending, SubagentAnswer, SubagentRun, SubagentRuns, outcome};
pub(crate) use take_lead::holder_of_ours;
pub(crate) use usage_totals::{Account, UsageTotals};
pub(crate) use wake::{LeadRequest, LoopHandle, REPORTS_WAITING, Request};
