//! A run as it is seen while it goes on: what its agents do now, on a terminal, in a log, or as a
//! stream of JSON.
//!
//! What is shown comes from `pitcrew_view`. [`board`] and [`log`] show it, [`stream`] writes it as
//! lines of JSON, and [`panel`] lays a question out; [`warnings`] are drawn by the view that has
//! the terminal; [`trust_prompt`] asks whether a project is trusted; [`signals`] hears Ctrl-C;
//! [`watch`] is the one loop that all of it meets in. [`agent_screen`] is the view of one agent in
//! a terminal of its own.

pub(crate) mod agent_screen;
pub(crate) mod board;
pub(crate) mod log;
mod panel;
pub(crate) mod signals;
pub(crate) mod stream;
pub(crate) mod trust_prompt;
pub(crate) mod warnings;
pub(crate) mod watch;
