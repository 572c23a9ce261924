//! `pitcrew`: teams of coding agents, from the command line.
//!
//! This crate connects the other crates. [`cli`] reads the command line, [`context`] reads the
//! environment, and [`output`] and [`failure`] print the result. The other crates do the work. The
//! `team` and `runtime` crates implement the rules about teams.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod archive;
mod blocked;
mod bounds;
mod cli;
mod client_version;
mod commands;
mod completing;
mod context;
mod dead_demos;
mod demo_repo;
mod detached;
mod exporting;
mod failure;
mod first_start;
mod hosting;
mod limits;
mod live;
mod notifier;
mod openable;
mod output;
mod owners;
mod past_runs;
mod qr;
mod reference_client;
mod report;
mod run_options;
mod selection;
mod settle;
mod telemetry;
mod trusting;
mod web_servers;
mod when;

fn main() -> std::process::ExitCode {
    cli::start()
}
