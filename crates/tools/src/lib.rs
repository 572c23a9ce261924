//! The basic tools of an agent: Bash, Read, Write, Edit, Glob, Grep, and TaskStop for background
//! commands.
//!
//! A tool checks its input, does its work, and returns the result. The permission gate decides
//! before that whether the call is allowed to run. The team tools are not in this crate.

mod bash;
mod edit;
mod files;
mod glob;
mod grep;
mod ignored;
mod input;
mod numbered;
mod output;
mod patch;
mod read;
mod read_log;
mod search;
mod shells;
mod task_stop;
mod tool;
mod toolbox;
mod walk;
mod write;

pub use bash::Bash;
pub use edit::Edit;
pub use edit::edited;
pub use glob::Glob;
pub use grep::Grep;
pub use read::Read;
pub use read_log::{PathLocks, ReadLog};
pub use shells::{LeftRunningLog, Shell, ShellError, ShellId, ShellState, Shells};
pub use task_stop::TaskStop;
pub use tool::{Tool, ToolContext, ToolLimits, ToolOutcome};
pub use toolbox::{Toolbox, plain_tools};
pub use write::Write;

#[cfg(test)]
mod offered;
