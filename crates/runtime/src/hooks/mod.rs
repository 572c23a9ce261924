//! Hooks: the user's own commands, run at fixed points of an agent's life. Source: the wire format
//! document, section "Hooks of the reference".
//!
//! `event` defines the payloads, `config` finds the matching commands, `process` runs one command,
//! and `outcome` interprets the command's answer. The code of the agent acts on the outcome.

mod config;
mod event;
mod outcome;
mod process;

pub use config::Hooks;
pub use event::{HookEvent, HookKind, HookSession, TaskFields};
pub use outcome::{Decision, HookOutcome, reminder};
