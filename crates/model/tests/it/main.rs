//! Tests the crate through its public API: the vendors against a fake server, repeated calls, and
//! scripts.
//!
//! The modules have `cfg(test)`, because clippy would otherwise apply the rules for product code to
//! their shared helpers.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod anthropic;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod openai;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod script;
#[cfg(test)]
mod script_docs;
#[cfg(test)]
mod script_resume;
