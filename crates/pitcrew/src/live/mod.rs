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
//! - [`signals`] receives Ctrl-C, and [`keys`] receives what the user types.
//! - [`watch`] is the event loop that connects these modules.
//! - [`attached`] is the event loop for a team that another process runs, and [`host_link`] is its
//!   connection to that process.

pub(crate) mod agent_screen;
pub(crate) mod attached;
pub(crate) mod board;
mod host_link;
pub(crate) mod keys;
pub(crate) mod log;
mod panel;
pub(crate) mod signals;
pub(crate) mod stream;
pub(crate) mod trust_prompt;
pub(crate) mod warnings;
pub(crate) mod watch;
