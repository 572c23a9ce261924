//! The pane protocol. It supports any terminal through a program that reads requests and writes
//! answers, one JSON line each.
//!
//! `docs/pane-protocol.md` describes the protocol for authors of such programs. `wire` defines the
//! lines, `link` handles a running program, and [`PaneProgram`] is the backend that uses it.
//! [`serve`] offers a backend to others through the protocol, and [`conformance`] tests the rules
//! for every program.

mod client;
pub mod conformance;
mod connection;
mod probe;
mod server;
pub mod wire;

pub use client::PaneProgram;
pub use probe::{ProbeError, Probed, probe};
pub use server::serve;
