//! Processes: how they are started, known, bounded and stopped, and the folders that are made for
//! them.
//!
//! [`job`] runs one command with a deadline and stops all that it started, [`identity`] tells one
//! process from another, [`sandbox`] bounds what commands can do by the kernel, [`worktree`] makes
//! and removes git worktrees, [`strays`] ends processes that dropped their marks. [`given_file`]
//! and [`handle`] open files that somebody else may have prepared. Which call needs which bounds is
//! decided elsewhere. *process never reads a rule, and never touches a team's folders.*

pub mod checkout;
pub mod given_file;
pub mod handle;
pub mod identity;
pub mod job;
pub mod own_mode;
mod pane_tag;
mod pieces;
pub mod protected;
pub mod sandbox;
pub mod strays;
pub mod worktree;

pub use pane_tag::{PaneTag, TagError};
pub use pieces::pieces;
