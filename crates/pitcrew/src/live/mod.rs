//! Displays a run while it goes on: what its agents do, on a terminal, in a log, or as a stream of
//! JSON lines.
//!
//! `pitcrew_view` computes what is shown. [`board`] and [`log`] display it, and [`stream`] writes
//! it as JSON lines. [`panel`] lays out a question. [`warnings`] passes warnings to the display
//! that uses the terminal. [`trust_prompt`] asks whether a project is trusted, and [`signals`]
//! receives Ctrl-C, [`keys`] what the user types. [`watch`] is the event loop that connects these modules. [`agent_screen`] is
//! the display of one agent on a terminal of its own.

pub(crate) mod agent_screen;
pub(crate) mod board;
mod keys;
pub(crate) mod log;
mod panel;
pub(crate) mod signals;
pub(crate) mod stream;
pub(crate) mod trust_prompt;
pub(crate) mod warnings;
pub(crate) mod watch;
