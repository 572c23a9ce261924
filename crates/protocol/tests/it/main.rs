//! Tests the types against the recordings, and against malicious texts.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod answers;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod tools;
