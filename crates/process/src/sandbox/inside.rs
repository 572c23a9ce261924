//! Runs inside bubblewrap as a part of pitcrew's own program. The code gives up rights and then
//! executes the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::landlock::{Landlock, Network, Writable};
use super::readable::{DEVICES, Readable};
use super::syscalls::{Filters, Signals};
use super::{Profile, capabilities};

/// The folder with the terminal devices inside the sandbox.
const TERMINALS: [&str; 1] = ["/dev"];

/// The rights that pitcrew gives up inside bubblewrap before it executes the command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum InnerRights {
    /// Gives up all rights that the sandbox profile *work* does not include.
    Work {
        /// The folders that the command is allowed to write.
        writable: Vec<PathBuf>,
        /// The Landlock features of this machine.
        landlock: Landlock,
    },
    /// Gives up only the right to inspect processes outside the sandbox.
    OtherProcesses(Landlock),
}

/// Gives up the rights that the first argument lists, and executes the program in the other
/// arguments. [`super::Machine::inner`] names the hidden subcommand that calls this function.
///
/// # Errors
/// This function returns only on failure. In that case no program was executed.
#[must_use]
pub fn run_inside(arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut arguments = arguments.into_iter();
    let (Some(order), Some(program)) = (arguments.next(), arguments.next()) else {
        return io::Error::new(io::ErrorKind::InvalidInput, "an order and a program are needed");
    };
    match give_up(&order) {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(problem) => problem,
    }
}

fn give_up(order: &OsString) -> io::Result<()> {
    match serde_json::from_slice(order.as_encoded_bytes())? {
        InnerRights::Work { writable, landlock } => only_work(&writable, landlock),
        InnerRights::OtherProcesses(landlock) => landlock.leave_other_processes(),
    }
}

fn only_work(writable: &[PathBuf], landlock: Landlock) -> io::Result<()> {
    let signals = if landlock.scopes_signals() { Signals::Scoped } else { Signals::OwnGroup };
    let filters = Filters::of(Profile::Work, signals).map_err(io::Error::other)?;
    // Allow reading everything here, because the mounts already show only readable files.
    let readable = Readable { open: [PathBuf::from("/")].into(), ..Readable::default() };
    let mut folders: Vec<_> = writable.iter().map(PathBuf::as_path).collect();
    // Programs need shared memory. `/dev/shm` belongs to the sandbox alone, because `/dev` is a new
    // mount.
    folders.push("/dev/shm".as_ref());
    let writable = Writable {
        folders: &folders,
        devices: DEVICES,
        terminals: &TERMINALS,
        network: Network::AsIs,
    };
    capabilities::give_up()?;
    landlock.hold_to(&landlock.bounds(&readable, &writable)?)?;
    filters.apply()
}
