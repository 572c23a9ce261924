//! `pitcrew-chaos`: makes runs from seeds, and prints the faults that it finds.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    pitcrew_chaos::cli::Chaos::parse().run()
}
