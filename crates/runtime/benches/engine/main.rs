//! Measures the engine: a command in the sandbox, the spawn of a teammate, the delivery of a
//! message to an idle teammate, and a thousand idle teammates.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

mod confined;
mod idle;
mod injection;
mod spawn;
mod stage;

fn main() {
    let which = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parts: [(&str, fn()); 4] = [
        ("confined", confined::run),
        ("spawn", spawn::run),
        ("idle", idle::run),
        ("injection", injection::run),
    ];
    for (name, run) in parts {
        if which.as_deref().is_none_or(|which| which == name) {
            run();
        }
    }
}
