//! Tests of the crate through its public face: vendors against a fake server, retries, and scripts.
//!
//! The modules are marked `cfg(test)` for clippy, which else takes their shared helpers for code that ships.

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
