//! What our own program does inside of bubblewrap: it gives up its rights and becomes the command.

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

/// Where the terminals of a command's own are.
const TERMINALS: [&str; 1] = ["/dev"];

/// Which rights the program gives up.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum InnerRights {
    /// Those that *work* does not grant.
    Work {
        /// The folders that the command may write.
        writable: Vec<PathBuf>,
        /// How rights are given up on this machine.
        landlock: Landlock,
    },
    /// The right to look into processes outside, and no other.
    OtherProcesses(Landlock),
}

/// Gives up this process's rights as ordered in the first argument, and becomes the program that the others name. For the
/// hidden subcommand that [`super::Machine::inner`] names.
///
/// # Errors
/// It only returns when it could not: then nothing was started.
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
    let readable = Readable { open: [PathBuf::from("/")].into(), ..Readable::default() };
    let mut folders: Vec<_> = writable.iter().map(PathBuf::as_path).collect();
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
