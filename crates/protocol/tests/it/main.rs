//! Tests of the wire types with the recordings below `fixtures/`, and with malicious texts.

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
