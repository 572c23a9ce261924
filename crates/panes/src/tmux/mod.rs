//! The tmux backend. It uses only tmux commands and formats, and never sends key presses.
//!
//! The module `client` runs commands and reports errors, and `place` chooses the place of a new
//! pane. `stranded` waits for tmux clients whose parent process has died. `backend` combines these
//! modules, and `backend::start` starts a program in a new pane.

mod backend;
mod client;
mod listing;
mod place;
mod stranded;

pub use backend::{Tmux, TmuxOptions};
