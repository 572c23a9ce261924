//! pitcrew
fn main() {}
