//! Tests of the store from outside: the conformance suite of every backend, and tests that only
//! files need.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod archived;
#[cfg(test)]
mod crashes;
#[cfg(test)]
mod damages;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod moved;
#[cfg(test)]
mod odd_files;
#[cfg(test)]
mod overwritten;
#[cfg(test)]
mod places;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod stale_writers;
#[cfg(test)]
mod suite;
