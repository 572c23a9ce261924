//! Gives the gate shell text made by a seed, and really runs what it lets through: nothing may be changed, and nothing read
//! that a rule keeps.
//!
//! `cargo bench -p pitcrew-runtime --bench gate -- --cases 100000 [--seed N] [--show]`

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a check that prints, and stops where it cannot go on")]

mod language;
mod stage;

use std::time::Instant;

use language::Language;
use stage::Stage;

/// How many faults are shown at most.
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
    let commands: Vec<String> = (0..cases).map(|_| language.command()).collect();
    let unasked: Vec<String> = commands.into_iter().filter(|command| stage.lets_through(command)).collect();
    if arguments.iter().any(|argument| argument == "--show") {
        unasked.iter().for_each(|command| println!("{command:?}"));
    }
    let found = stage.play(&unasked);
    let taken = begin.elapsed();
    println!("seed {seed}: {cases} commands, {} ran unasked, {} faults, {taken:.1?}", unasked.len(), found.len());
    for fault in found.iter().take(SHOWN) {
        println!("  {}: {:?}", fault.fault, fault.command);
    }
    assert!(found.is_empty(), "commands that ran unasked did what they may not");
    assert!(unasked.len() as u64 > cases / 50, "hardly anything was let through: the generator says nothing");
}
