//! Runs a program as if the kernel had no Landlock. For the program and all processes that it
//! starts, a filter of system calls lets `landlock_create_ruleset` fail with `ENOSYS`. Tests use
//! this example to check what pitcrew does on such a kernel.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// The number of the system call `landlock_create_ruleset`. It is the same on every architecture.
const LANDLOCK_CREATE_RULESET: i64 = 444;

/// The error number `ENOSYS`. It is the same on every architecture for which pitcrew has filters.
const NO_SUCH_CALL: u32 = 38;

fn main() -> ExitCode {
    let problem = run().err().unwrap_or_else(|| io::Error::other("a program is needed"));
    let _written = io::Write::write_all(&mut io::stderr(), format!("{problem}\n").as_bytes());
    ExitCode::FAILURE
}

/// Replaces this process with the program. This function returns only if no program was given or if
/// the program could not be started.
fn run() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else { return Ok(()) };
    apply_filter(&filter().map_err(io::Error::other)?).map_err(io::Error::other)?;
    Err(Command::new(program).args(arguments).exec())
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    // The empty list means that there is no condition: the call fails, whatever its arguments are.
    let refused = BTreeMap::from([(LANDLOCK_CREATE_RULESET, Vec::new())]);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(
        refused,
        SeccompAction::Allow,
        SeccompAction::Errno(NO_SUCH_CALL),
        architecture,
    )?
    .try_into()
}
