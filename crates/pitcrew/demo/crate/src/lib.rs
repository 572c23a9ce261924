//! Small text tools. The tests in `tests/` say what each of them should do.

pub mod slug;
pub mod stats;
pub mod wrap;
