//! Crashes teams of pitcrew in many ways, and checks the state in which they are left.
//!
//! A seed determines a run, as far as this is possible with real processes. The plan
//! ([`plan::Plan`]) says which process is killed at which journal event, which other programs write
//! into the team's files, and what else fails. [`run::run`] starts the pitcrew binary with a fake
//! model server. The module [`brain`] decides what the agents do. At the end, [`oracle`] checks
//! requests, files, processes and panes. The harness uses no Rust type of pitcrew, and reads only
//! data that any program is able to read.

#![expect(
    clippy::indexing_slicing,
    reason = "a field of a JSON value that is not there is null, so this never panics; nothing else is indexed"
)]

pub mod brain;
pub mod chance;
pub mod cli;
pub mod error;
pub mod faces;
pub mod harm;
pub mod journal;
pub mod lead;
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
