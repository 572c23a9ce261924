//! The terminal interface.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

pub mod question;
pub mod render;
pub mod review;
pub mod theme;
