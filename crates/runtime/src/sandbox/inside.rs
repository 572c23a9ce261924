//! What our own program does inside of bubblewrap: it gives up its rights and becomes the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::ahead::Assignment;
use super::landlock::{Landlock, Network, Writable};
use super::readable::{DEVICES, Readable};
use super::syscalls::{Filters, Signals};
use super::{Profile, capabilities};

/// Where the terminals of a command's own are.
const TERMINALS: [&str; 1] = ["/dev"];

/// What the program is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The folders that the command may write.
    pub(super) writable: Vec<PathBuf>,
    /// How rights are given up on this machine.
    pub(super) landlock: Landlock,
}

/// Gives up this process's rights as ordered in the first argument, and becomes the program that the others name; without
/// others, the one that it is given at its standard input. For the hidden subcommand that [`super::Machine::inner`] names.
///
/// # Errors
/// It only returns when it could not: then nothing was started.
#[must_use]
pub fn run_inside(arguments: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut arguments = arguments.into_iter();
    let Some(order) = arguments.next() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "an order is needed");
    };
    match (give_up(&order), arguments.next()) {
        (Ok(()), Some(program)) => Command::new(program).args(arguments).exec(),
        (Ok(()), None) => become_assigned().unwrap_or_else(|problem| problem),
        (Err(problem), _) => problem,
    }
}

/// Becomes the program that comes by the standard input, which it does not get itself.
fn become_assigned() -> io::Result<io::Error> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let Assignment { program, arguments, variables } = Assignment::receive(UnixStream::from(input))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Ok(command.exec())
}

fn give_up(order: &OsString) -> io::Result<()> {
    let order: Order = serde_json::from_slice(order.as_encoded_bytes())?;
    let signals = if order.landlock.scopes_signals() { Signals::Scoped } else { Signals::OwnGroup };
    let filters = Filters::of(Profile::Work, signals).map_err(io::Error::other)?;
    let readable = Readable { open: [PathBuf::from("/")].into(), ..Readable::default() };
    let mut folders: Vec<_> = order.writable.iter().map(PathBuf::as_path).collect();
    folders.push("/dev/shm".as_ref());
    let writable = Writable { folders: &folders, devices: DEVICES, terminals: &TERMINALS, network: Network::AsIs };
    capabilities::give_up()?;
    order.landlock.only_read(&readable, &writable)?;
    filters.apply()
}
