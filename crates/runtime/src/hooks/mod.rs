//! Runs hooks: commands of the user that pitcrew runs when certain events happen, for example
//! before a tool call. Source: the wire format document, section "Hooks of the reference".
//!
//! `event` defines the payloads, `config` finds the commands that match an event and runs them, and
//! `outcome` interprets a command's answer. The agent's own code then acts on the outcome.

mod config;
mod event;
mod outcome;

pub use config::Hooks;
pub use event::{HookEvent, HookKind, HookSession, TaskFields};
pub use outcome::{Decision, HookOutcome, reminder};
