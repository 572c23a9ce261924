//! What agents may do: the gate that judges each call, the settings that hold the rules, and trust
//! in a project's files.
//!
//! [`gate`] allows, asks or denies a call, by its mode and by rules; it reads shell commands for
//! that. [`settings`] reads the layers of settings files, [`trust`] tells which of a project's
//! files count, [`agent_files`] reads agent definitions. *permission never runs a call and never
//! asks anybody; what a command can do is bounded by `process`.*

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

pub mod agent_files;
pub mod gate;
pub mod settings;
mod split_pattern;
pub mod trust;

pub use split_pattern::split_pattern;
