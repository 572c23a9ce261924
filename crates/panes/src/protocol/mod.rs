//! The pane protocol: any terminal by way of a program that reads requests and writes answers, a JSON line each.
//!
//! `docs/pane-protocol.md` describes it for those who write such a program. `wire` is what the lines hold, `link` a program
//! at work, [`PaneProgram`] the backend over it, [`serve`] the other side for a backend of ours, and [`conformance`] what
//! every program must do.

mod client;
pub mod conformance;
mod connection;
mod probe;
mod server;
pub mod wire;

pub use client::PaneProgram;
pub use probe::{ProbeError, Probed, probe};
pub use server::serve;
