//! Where agents live: the tools they work with, the processes and worktrees they are given.

pub mod process;
pub mod tools;
pub mod worktree;
