//! Tests what user interfaces show after scripts of events.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod fold;
#[cfg(test)]
mod from_files;
#[cfg(test)]
mod remark;
#[cfg(test)]
mod script;
#[cfg(test)]
mod stream;
