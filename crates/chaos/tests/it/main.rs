//! A dozen short runs of the harness with the binary of this build, and what the harness needs of itself.
//!
//! The modules are marked `cfg(test)` for clippy, which else takes their shared helpers for code that ships.

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod runs;
