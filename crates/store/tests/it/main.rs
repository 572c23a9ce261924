//! Tests that use the store through its public interface: the conformance suite for every backend,
//! and tests that only concern the file store.

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
