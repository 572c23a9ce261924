//! The terminal interface.

pub mod choose;
pub mod panels;
