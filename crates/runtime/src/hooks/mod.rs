//! Runs hooks: commands of the user that pitcrew runs when certain events happen, for example
//! before a tool call. Source: the wire format document, section "Hooks of the reference", and what
//! the client of today does (`known`).
//!
//! `known` is the table of all events and fields. `event` defines the payloads. `config` reads the
//! settings, `matcher` and `program` their parts. `run` runs the hooks that match an event, and
//! `answer` and `outcome` interpret their answers. The agent's own code then acts on the outcome.

mod answer;
mod config;
mod event;
mod known;
mod matcher;
mod outcome;
mod program;
mod run;

pub use event::{HookEvent, HookKind, HookSession, TaskFields};
pub use known::{CLIENT_VERSION, KNOWN, Known, Place, Treatment, names};
pub use outcome::{Decision, HookOutcome, reminder};
pub use run::{BackgroundHooks, HookScope, Hooks};
