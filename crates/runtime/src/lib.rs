//! Where agents live: how they run, the tools they work with, and what they may do.
//!
//! Start reading at `agent`, which decides; `driver` carries out, `crew` keeps the team together, `run` is the face.

pub mod agent;
pub mod definitions;
pub mod gate;
pub mod hooks;
pub mod process;
pub mod prompts;
pub mod settings;
pub mod tools;
pub mod transcript;
pub mod worktree;
