<<<<<<< HEAD
//! Where agents live: how they run, the tools they work with, and what they may do.
//!
//! Start reading at `run`, which is the face; `crew` keeps a team together, `agent` decides for one agent and `driver`
//! carries that out.
=======
//! Where agents live: settings, the gate every tool call passes, hooks, definitions and prompts; the tools agents work
//! with, and the processes and worktrees they are given.
>>>>>>> main

pub mod agent;
mod crew;
pub mod definitions;
mod driver;
pub mod events;
pub mod gate;
pub mod hooks;
pub mod process;
pub mod prompts;
<<<<<<< HEAD
pub mod run;
pub mod settings;
mod team_tools;
=======
pub mod settings;
>>>>>>> main
pub mod tools;
pub mod transcript;
pub mod worktree;
