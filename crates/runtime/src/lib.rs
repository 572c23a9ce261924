//! Where agents live: how they run, the tools they work with, and what they may do.
//!
//! Start reading at `run`, which is the face; `crew` keeps a team together, `solo` runs one member alone, `agent` decides for one agent and `driver`
//! carries that out.

mod client_conversation;
pub mod client_socket;
mod client_usage;
pub mod control_socket;
pub mod definitions;
mod driver;
mod dropped;
pub mod events;
pub mod hooks;
pub mod hosting;
pub mod prompts;
pub mod question;
pub mod run;
mod solo;
pub mod supervision;
mod team_run;
mod team_tools;

pub use pitcrew_agent::{self as agent, transcript};
pub use pitcrew_panes as panes;
pub use pitcrew_permission::{gate, settings, trust};
pub use pitcrew_process::{
    given_file, handle, identity, job as process, protected, sandbox, worktree,
};
pub use pitcrew_tools as tools;
