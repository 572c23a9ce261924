//! Runs a team in a process that no terminal owns: the host process of `pitcrew run --detach`.
//!
//! - [`starter`] is the half in the command that the user types. It starts the host process and
//!   waits until the team runs.
//! - [`host_process`] is the half in the host process itself.
//! - [`order`] contains the messages between the two: an order on the host process's standard input,
//!   and a report on its standard output.
//! - [`host_log`] is the file that gets the host process's output once the team runs.

mod host_log;
pub(crate) mod host_process;
mod order;
pub(crate) mod starter;
