//! What the engine costs: delivery to an idle teammate, and a thousand idle ones.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

mod idle;
mod injection;
mod stage;

fn main() {
    idle::run();
    injection::run();
}
