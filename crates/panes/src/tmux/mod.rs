//! The tmux backend. It uses only commands and formats, and never sends keys.
//!
//! `client` runs commands and reports errors, `place` chooses where a pane is placed, `stranded`
//! waits for calls of callers that have died, and `backend` combines them.

mod backend;
mod client;
mod listing;
mod place;
mod stranded;

pub use backend::{Tmux, TmuxOptions};
