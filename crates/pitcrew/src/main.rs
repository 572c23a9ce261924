//! `pitcrew`: teams of coding agents, from the command line.
//!
//! The composition root: reads what the user asked for ([`cli`]) and where ([`context`]), calls the rooms, and shows what
//! they answered ([`output`], [`failure`]). It decides nothing about teams; that is `team`'s and `runtime`'s.

mod archive;
mod bounds;
mod cli;
mod client_version;
mod commands;
mod completing;
mod context;
mod dead_demos;
mod demo_repo;
mod failure;
mod hosting;
mod limits;
mod live;
mod openable;
mod output;
mod owners;
mod reference_client;
mod report;
mod run_options;
mod selection;
mod settle;
mod trusting;

fn main() -> std::process::ExitCode {
    cli::start()
}
