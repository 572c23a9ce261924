//! Crashes teams of pitcrew in every way, and checks the state that they leave.
//!
//! The seed determines a run, as far as processes allow. [`plan::Plan`] says which process is
//! killed at which event of the journal, which other programs write into the team's files, and what
//! fails. [`run::run`] starts the binary from outside with a fake model server, whose agents are in
//! [`brain`]. At the end, [`oracle`] checks requests, files, processes and panes. The harness uses
//! no type of pitcrew. It reads only data that any program can read.

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
