//! Displays the activity of the agents while a run is in progress. The display is a terminal, a
//! log, or a stream of JSON lines. The crate `pitcrew_view` computes the content of the display.
//!
//! The modules of this folder have these tasks:
//!
//! - [`board`] shows a run on a terminal, and [`log`] shows it as plain lines.
//! - [`stream`] writes a run as JSON lines.
//! - [`agent_screen`] shows one agent on a terminal of its own.
//! - [`panel`] lays out a question.
//! - [`trust_prompt`] asks whether a project is trusted.
//! - [`warnings`] passes warnings to the display that uses the terminal.
//! - [`signals`] receives Ctrl-C.
//! - [`watch`] is the event loop that connects these modules.
//! - [`face`] opens the terminal interface, which is the crate `pitcrew_tui`.
//! - [`viewed`] opens its display that takes no part in a run.
//! - [`attached`] is the plain event loop for a team that another process runs.

pub(crate) mod agent_screen;
pub(crate) mod attached;
pub(crate) mod board;
pub(crate) mod face;
pub(crate) mod log;
mod panel;
pub(crate) mod signals;
pub(crate) mod stream;
pub(crate) mod trust_prompt;
pub(crate) mod viewed;
pub(crate) mod warnings;
pub(crate) mod watch;
