//! Implements the permissions of agents: the gate that judges each tool call, the settings that
//! contain the rules, and the user's trust in a project's files.
//!
//! [`gate`] decides about each call by the permission mode and the rules: the call is allowed or
//! denied, or a person must decide. To decide, it parses shell commands. [`settings`] reads the
//! layers of settings files. [`trust`] decides which files of a project are used. [`agent_files`]
//! reads agent definitions. This crate never runs a call and never asks a person itself. The crate
//! `process` limits what a running command can do.

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
