//! `pitcrew-chaos`: makes runs by their seeds and says what was found.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    pitcrew_chaos::cli::Chaos::parse().run()
}
