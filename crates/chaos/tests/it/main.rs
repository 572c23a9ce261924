//! About a dozen short runs of the harness with the binary of this build, and tests of the harness
//! itself.
//!
//! The modules are marked `cfg(test)`, because clippy would otherwise treat their shared helpers as
//! production code.

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod runs;
