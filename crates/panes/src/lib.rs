//! Panes: where a teammate that has a process of its own can be seen.
//!
//! [`Panes`] is the trait, its guarantees stand on its methods. Behind it are [`Tmux`], [`ITerm2`] and
//! [`PaneProgram`]: any other terminal by way of a script that speaks the pane protocol (`docs/pane-protocol.md`). [`serve`] turns a backend of ours
//! into such a program, and [`conformance`] is what every one of them must do.
//!
//! What runs in a pane, when it is started and how its process is ended are the callers' to say; here a pane is an argv,
//! a folder and an environment.

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
