//! Tests the crate through its public API: vendors against a fake server, retries, and scripts.
//!
//! The modules have `cfg(test)` because of clippy, which otherwise treats their shared helpers as
//! product code.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod anthropic;
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
