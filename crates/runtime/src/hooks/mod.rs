//! Hooks: a user's own commands, run at fixed points of an agent's life (wire format, "Hooks of the
//! reference").
//!
//! `event` holds the payloads, `config` finds the commands that match, `process` runs one, `outcome`
//! makes sense of its answer. What follows from an outcome is the agent's business.

mod config;
mod event;
mod outcome;
mod process;

pub use config::Hooks;
pub use event::{HookEvent, HookKind, HookSession, TaskFields};
pub use outcome::{Decision, HookOutcome, reminder};
