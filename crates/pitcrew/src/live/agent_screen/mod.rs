//! The display of one agent on a terminal of its own: its activity scrolls up, and a footer shows
//! its state and the user's input.
//!
//! [`agent_view`] turns events into lines and the footer, and [`entry`] is the input line; both do
//! no I/O. [`terminal`] draws, and [`mod@watch`] is the event loop for events, keys, signals and
//! questions.

mod agent_view;
mod entry;
mod terminal;
mod watch;

pub(super) use agent_view::Footer;
pub(super) use entry::{Entry, Typed};
pub(super) use terminal::Terminal;
pub(crate) use watch::watch;
