//! Tests the permission gate with random shell text that is generated from a seed. Every command
//! that the gate allows is really run. Such a command must change nothing, and must not read a file
//! that a rule protects. If the gate knows that a command only reads, the command runs without a
//! sandbox. If the gate is not sure, the command runs in the sandbox profile `read`, where the
//! kernel prevents changes.
//!
//! Run it with `cargo bench -p pitcrew-runtime --bench gate -- --cases 100000 [--seed N] [--show]`.
//! With `--file FILE`, it runs the commands of a file instead: one command in each line, as plain
//! text or as a JSON string.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a check that prints, and stops where it cannot go on"
)]

mod held;
mod language;
mod stage;
mod words;

use std::time::Instant;

use language::Language;
use stage::{Stage, Unasked};

/// Maximum number of forbidden effects to print.
const SHOWN: usize = 40;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(otherwise)
    };
    let (cases, seed) = (number("--cases", 2_000), number("--seed", 8));
    let begin = Instant::now();
    let stage = Stage::new();
    let mut language = Language::new(seed, &stage.base().to_string_lossy());
    let file = arguments
        .iter()
        .position(|argument| argument == "--file")
        .and_then(|at| arguments.get(at + 1));
    let commands: Vec<String> = match file {
        Some(file) => listed(&std::fs::read_to_string(file).expect("the file of commands")),
        None => (0..cases).map(|_| language.command()).collect(),
    };
    let cases = commands.len();
    let mut unasked = Vec::new();
    let mut held = Vec::new();
    for command in commands {
        match stage.lets_through(&command) {
            Some(Unasked::Proven) => unasked.push(command),
            Some(Unasked::Held) => held.push(command),
            None => {}
        }
    }
    if arguments.iter().any(|argument| argument == "--show") {
        unasked.iter().chain(&held).for_each(|command| println!("{command:?}"));
    }
    let mut found = stage.play(&unasked);
    found.extend(stage.play_held(&held).unwrap_or_default());
    let taken = begin.elapsed();
    println!(
        "seed {seed}: {cases} commands, {} ran unasked, {} more in *read* alone, {} faults, {taken:.1?}",
        unasked.len(),
        held.len(),
        found.len()
    );
    for fault in found.iter().take(SHOWN) {
        println!("  {}: {:?}", fault.fault, fault.command);
    }
    assert!(found.is_empty(), "commands that ran unasked did what they may not");
    assert!(
        file.is_some() || unasked.len() > cases / 50,
        "hardly anything was let through: the generator says nothing"
    );
}

fn listed(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.to_owned()))
        .collect()
}
