//! The types against the recordings.

mod recordings;
