//! The terminal interface.

pub mod panels;
