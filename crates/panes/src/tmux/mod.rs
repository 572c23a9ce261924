//! The tmux backend. It uses only tmux commands and formats, and never sends keys.
//!
//! The module `client` runs commands and reports errors, and `place` chooses where a new pane is
//! placed. `stranded` waits for tmux clients whose calling process has died. `backend` combines
//! these modules.

mod backend;
mod client;
mod listing;
mod place;
mod stranded;

pub use backend::{Tmux, TmuxOptions};
