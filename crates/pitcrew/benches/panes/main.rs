//! Measures the cost of a teammate in a pane: the time from the lead's spawn call to the first
//! model request of the teammate, and the memory and wake-ups of the teammate while it waits.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

mod idle;
mod model;
mod process;
mod spawn;
mod stage;

fn main() {
    let which = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parts: [(&str, fn()); 2] = [("spawn", spawn::run), ("idle", idle::run)];
    for (name, run) in parts {
        if which.as_deref().is_none_or(|which| which == name) {
            run();
        }
    }
}
