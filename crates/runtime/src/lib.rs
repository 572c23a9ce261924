//! Where agents live: settings, the gate every tool call passes, hooks, agent definitions and prompts.

pub mod definitions;
pub mod gate;
pub mod hooks;
pub mod prompts;
pub mod settings;
