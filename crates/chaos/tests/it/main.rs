//! A dozen short runs of the harness with the binary of this build, and what the harness needs of itself.

mod oracle;
mod plans;
mod runs;
