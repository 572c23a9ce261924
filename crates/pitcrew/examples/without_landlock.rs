//! Runs a program on a kernel that seems to have no Landlock: a filter of system calls answers
//! `landlock_create_ruleset` with `ENOSYS`, for the program and all it starts. For the tests of
//! what holds where the kernel offers less.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// The same number on every architecture.
const LANDLOCK_CREATE_RULESET: i64 = 444;

/// `ENOSYS`, of every architecture that pitcrew has filters for.
const NO_SUCH_CALL: u32 = 38;

fn main() -> ExitCode {
    let problem = run().err().unwrap_or_else(|| io::Error::other("a program is needed"));
    let _written = io::Write::write_all(&mut io::stderr(), format!("{problem}\n").as_bytes());
    ExitCode::FAILURE
}

/// It only returns when it could not become the program.
fn run() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else { return Ok(()) };
    apply_filter(&filter().map_err(io::Error::other)?).map_err(io::Error::other)?;
    Err(Command::new(program).args(arguments).exec())
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    // A call with no conditions is refused whatever its arguments are.
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
