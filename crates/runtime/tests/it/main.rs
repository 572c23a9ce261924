//! Integration tests of the runtime: real processes, real folders.

mod gate_modes;
mod gate_rules;
mod hooks;
