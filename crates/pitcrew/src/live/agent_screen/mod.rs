//! One agent on a terminal of its own: what it does scrolls by, and a foot below shows how it stands and takes what is
//! typed.
//!
//! [`agent_view`] turns events into lines and the foot, [`entry`] is the line being typed; both are pure. [`terminal`] draws, and
//! [`mod@watch`] is the loop in which events, keys, signals and questions meet.

mod agent_view;
mod entry;
mod terminal;
mod watch;

pub(super) use agent_view::Footer;
pub(super) use entry::{Entry, Typed};
pub(super) use terminal::Terminal;
pub(crate) use watch::watch;
