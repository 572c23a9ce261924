//! About a dozen short runs of the harness with the pitcrew binary of this build, and tests of the
//! harness itself.
//!
//! The modules have `cfg(test)`, because clippy would otherwise apply the rules for product code to
//! their shared helpers.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod faces;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod runs;
