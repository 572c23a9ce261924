//! The pane protocol. It supports any terminal for which there is a pane program: a program that
//! reads requests and writes answers, each as one line of JSON.
//!
//! `docs/pane-protocol.md` describes the protocol for authors of pane programs. The module `wire`
//! defines the lines, and `connection` handles a running pane program. [`PaneProgram`] is the
//! backend that uses a pane program. [`serve`] offers a backend to others as a pane program, and
//! [`conformance`] checks that a pane program follows the rules.

mod client;
pub mod conformance;
mod connection;
mod probe;
mod server;
pub mod wire;

pub use client::PaneProgram;
pub use probe::{ProbeError, Probed, probe};
pub use server::serve;
