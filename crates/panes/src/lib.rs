//! Panes: places in a terminal in which the user can watch teammates. Each of these teammates runs
//! in its own process.
//!
//! The trait is [`Panes`]. The documentation of its methods says what they guarantee. [`Tmux`],
//! [`ITerm2`] and [`PaneProgram`] implement it. [`PaneProgram`] supports any other terminal through
//! an external program that uses the pane protocol (`docs/pane-protocol.md`). [`serve`] turns a
//! backend into such a pane program, and [`conformance`] tests the rules that all pane programs
//! must follow.
//!
//! The callers decide which program runs in a pane, when the program starts and how it ends. For
//! this crate, a pane is only a list of arguments, a folder and an environment.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod iterm2;
pub mod launch;
mod pane;
mod protocol;
mod tmux;

pub use iterm2::{ITerm2, ITerm2Options};
pub use pane::{NewPane, PaneError, PaneId, PaneState, PaneView, Panes, StartedPane};
pub use pitcrew_process::{PaneTag, TagError};
pub use protocol::{PaneProgram, ProbeError, Probed, conformance, probe, serve, wire};
pub use tmux::{Tmux, TmuxOptions};
