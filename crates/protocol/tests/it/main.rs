//! The types against the recordings.

#[cfg(test)]
mod recordings;
