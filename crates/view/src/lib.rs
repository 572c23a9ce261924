//! The data about a team that every user interface shows: the terminal, a web page, an editor or
//! another program.
//!
//! - [`fold`](mod@fold) computes the [`state`] of a team from events.
//! - [`client_stream`] reads the stream-json of another client into the same state.
//! - [`remark`] selects the events that a person sees, and turns each of them into a line of text.
//! - [`stream`] and [`result`] write a run as JSON, and [`outcome`] writes the end of a run.
//! - [`running`] and [`member_status`] find the processes that run a team and its members.
//! - [`lead`] sends requests to the process that leads a team.
//! - [`orphans`] stops the processes and panes of a team whose lead's process has ended.
//! - [`team_log`] tells what happened in a team, from its journal and mail.
//! - [`mod@conversation`] reads the conversation of an agent, for a person who reads it.
//! - [`agent_now`] tells the present state, the tokens and the cost of each agent.
//! - [`recorded`] computes the state of a finished or stopped team from its records;
//!   [`missing_records`] finds records that should be there.
//! - [`replay`] tells a run as timed events, so that a user interface shows it as it was.
//! - [`host`] numbers the events of a run and sends them to every user interface that follows it.
//! - [`client`] follows the host of a team from another process.
//! - [`asking`] shows the permission requests that wait for a person's answer.
//! - [`caller`] finds the process that calls a user interface over TCP.
//! - [`markdown_export`] writes a conversation or a run as markdown; [`masking`] masks secrets.
//! - [`permissions`] tells the rules of a run, what was granted, and what was refused.
//! - [`changes`] tells what each member has changed, for a person who reviews it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

pub mod agent_now;
pub mod asking;
pub mod caller;
pub mod changes;
pub mod client;
mod client_mail;
pub mod client_stream;
pub mod conversation;
mod error;
pub mod fold;
pub mod host;
pub mod lead;
pub mod markdown_export;
pub mod masking;
pub mod member_status;
pub mod missing_records;
pub mod notification;
pub mod orphans;
pub mod outcome;
pub mod permissions;
pub mod recorded;
pub mod remark;
pub mod replay;
pub mod result;
pub mod running;
pub mod state;
pub mod stream;
pub mod team_log;
pub mod text;
pub mod wording;

pub use error::ViewError;
pub use fold::{ViewEvent, fold};
pub use state::{AgentState, Counts, TeamState};
