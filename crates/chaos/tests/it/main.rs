//! About a dozen short runs of the harness with the binary of this build, and tests of the harness
//! itself.
//!
//! The modules are marked `cfg(test)`, because clippy would otherwise treat their shared helpers as
//! production code.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod runs;
