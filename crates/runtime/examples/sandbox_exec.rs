//! The program that runs inside bubblewrap in the tests and benchmarks of this crate. In the
//! product, `pitcrew sandbox-exec` has this role.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let problem = pitcrew_process::sandbox::run_inside(std::env::args_os().skip(1));
    let _written =
        std::io::Write::write_all(&mut std::io::stderr(), format!("{problem}\n").as_bytes());
    ExitCode::FAILURE
}
