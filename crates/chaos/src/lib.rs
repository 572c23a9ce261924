//! Crashes teams of pitcrew in every way, and checks what is left of them.
//!
//! A run is determined by its seed as far as processes allow: [`plan::Plan`] says who is killed at which event of the
//! journal, who else writes into the team's files, and what fails. [`run::run`] starts the binary from outside, with a fake
//! model server whose agents are [`brain`], and [`oracle`] reads requests, files, processes and panes when all is over.
//! The harness knows no type of pitcrew: it reads what anybody can read.

#![expect(
    clippy::indexing_slicing,
    reason = "a field of a JSON value that is not there is null, so this never panics; nothing else is indexed"
)]

pub mod brain;
pub mod chance;
pub mod cli;
pub mod error;
pub mod harm;
pub mod journal;
pub mod oracle;
pub mod plan;
pub mod processes;
pub mod run;
pub mod server;
pub mod server_faults;
pub mod stage;
pub mod stale;
pub mod terminal;
pub mod writers;
