//! tmux, by plain commands and formats; no key is ever sent.
//!
//! `client` runs commands and tells what went wrong, `place` decides where a pane goes, `stranded`
//! knows of calls whose caller died, and `backend` puts all together.

mod backend;
mod client;
mod listing;
mod place;
mod stranded;

pub use backend::{Tmux, TmuxOptions};
