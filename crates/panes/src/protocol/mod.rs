//! The pane protocol. It supports any terminal through a pane program that reads requests and
//! writes answers, each as one line of JSON.
//!
//! `docs/pane-protocol.md` describes the protocol for authors of such programs. The module `wire`
//! defines the lines, and `connection` handles a running program. [`PaneProgram`] is the backend
//! that uses the program. [`serve`] offers a backend to others through the protocol, and
//! [`conformance`] tests the rules for every pane program.

mod client;
pub mod conformance;
mod connection;
mod probe;
mod server;
pub mod wire;

pub use client::PaneProgram;
pub use probe::{ProbeError, Probed, probe};
pub use server::serve;
