//! The agent runtime: how agents run, which tools they have, and what they are allowed to do.
//!
//! Start reading at `run`, the entry point. `team_run` runs a team, and `solo` runs a single
//! member. The crate `agent` makes the decisions of one agent, and the module `driver` executes
//! these decisions.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod client_conversation;
pub mod client_socket;
mod client_usage;
pub mod control_socket;
pub mod definitions;
mod driver;
mod dropped;
pub mod events;
pub mod hooks;
pub mod hosting;
mod member_conversation;
pub mod member_pane;
pub mod prompts;
pub mod question;
mod refused_entries;
pub mod run;
mod solo;
pub mod supervision;
mod team_run;
mod team_tools;
pub mod user_program;

pub use client_conversation::client_conversation;
pub use member_conversation::member_conversation;
