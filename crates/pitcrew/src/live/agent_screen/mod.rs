//! The display of one agent on a terminal of its own. The agent's activity scrolls up, and a footer
//! shows the agent's state and the user's input.
//!
//! [`agent_view`] converts events to lines and builds the footer. [`entry`] is the input line.
//! Neither module does I/O. [`terminal`] draws. [`mod@watch`] is the event loop for events, keys,
//! signals and questions.

mod agent_view;
mod entry;
mod terminal;
mod watch;

pub(super) use agent_view::Footer;
pub(super) use entry::{Entry, Typed};
pub(super) use terminal::Terminal;
pub(crate) use watch::watch;
