//! Where agents live: settings, the gate every tool call passes, hooks, definitions and prompts; the tools agents work
//! with, and the processes and worktrees they are given.

pub mod definitions;
pub mod gate;
pub mod hooks;
pub mod process;
pub mod prompts;
pub mod settings;
pub mod tools;
pub mod worktree;
