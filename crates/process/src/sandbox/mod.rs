//! Limits what agents' commands can do. The kernel enforces the limits, whatever the command's text
//! looks like.
//!
//! All agents run as the user, so file permissions cannot separate the agents, and parsing a shell
//! command can go wrong. So each command is started in one of three [`Profile`]s. The profile
//! applies to the command, to all processes that the command starts, and to those that it leaves
//! running:
//!
//! - *read*: the command may read the readable files and write a private temporary folder. Landlock
//!   controls files, signals and TCP. Seccomp controls the rest: sockets, namespaces, file handles,
//!   modes and times. Root gives up its capabilities.
//! - *work*: like *read*, and the command may write below the working folder. It has its own mounts
//!   and namespaces.
//! - *free*: everything is allowed, except changing the team's own files and the user's settings
//!   below the configuration root. Reading these files is allowed. Writing, creating, removing,
//!   renaming, linking and truncating are refused.
//!
//! There are two mechanisms. Neither needs unsafe code here:
//!
//! - **Landlock and seccomp**: a thread gives up its rights and then starts the command, which
//!   inherits the restriction. Landlock rules can only allow, and a rule for a folder also covers
//!   everything below the folder. So in *free* there are rules for everything except the folders on
//!   the path to protected files. This has a cost: nothing can be created, renamed or removed
//!   *directly* in these folders. An example is the home folder if the configuration root is
//!   `~/.claude`.
//! - **bubblewrap**: the command gets its own mounts. In *free* the configuration root is mounted
//!   read-only, and its unprotected parts are mounted writable again. A normal user needs a user
//!   namespace for this. In a user namespace, other users' files belong to nobody, so ssh refuses
//!   the system's configuration. Some systems and most containers forbid user namespaces. Root
//!   needs no user namespace, but could bypass the mounts through processes outside. So a command
//!   of root also gives up access to these processes, by Landlock inside the sandbox.
//!
//! In *free* Landlock is preferred. Bubblewrap is used in two cases where it costs less: if the
//! working folder or `/tmp` is on the path to protected files, and for root. The restriction is
//! built anew for each command, because the set of files to allow changes. If `/tmp` is on such a
//! path and Landlock is used all the same, the command gets another temporary folder below the
//! configuration root.
//!
//! Limits of *free*: it does not cover requests to programs outside, such as a tmux server, cron or
//! a daemon with a socket. Landlock cannot forbid changes to the mode, owner, times or locks of a
//! file. Hooks run with all rights, because they belong to the user. The gate denies visible
//! violations before the command starts, with a helpful message.

mod bubblewrap;
mod capabilities;
mod confined_thread;
mod denied;
mod denied_reads;
mod environment;
mod git_config;
pub mod git_folder;
mod git_programs;
mod grant;
mod inside;
mod kept;
mod key_files;
mod landlock;
mod machine;
mod places;
mod private;
mod profile;
mod quarantine;
mod readable;
mod shared;
mod sockets;
mod start;
mod starter;
mod syscalls;
mod unfinished;
mod work;

pub use denied_reads::{DeniedReads, NamesPath};
pub use grant::Grant;
pub use inside::run_inside;
pub use machine::{Machine, Options, TOOLCHAIN_VARIABLES, Variable};
pub use pitcrew_protocol::SandboxProfile as Profile;
pub use profile::{Mechanism, Support};
pub use quarantine::Aftermath;
pub use quarantine::Appeared;
pub use start::Sandbox;
pub use unfinished::{Unfinished, put_aside_unfinished};

/// Folders below a configuration root that only the team's own operations may write.
pub const OF_TEAMS: [&str; 2] = ["teams", "tasks"];

/// Files and folders below a configuration root that only the user may write. They control the
/// permissions of agents, or a client runs them with all rights. `settings.local.json` is read if
/// the project is the home folder. `hooks` is the usual folder for hook programs. `plugins` belongs
/// to the reference client, which can be a teammate.
pub const OF_THE_USER: [&str; 5] =
    ["settings.json", "settings.local.json", "agents", "hooks", "plugins"];

/// The folder below a configuration root that contains pitcrew's own records.
pub const OF_PITCREW: [&str; 1] = ["pitcrew"];

/// Folders inside `OF_PITCREW` in which commands may work.
pub const OPEN_OF_PITCREW: [&str; 2] = ["pitcrew/tmp", crate::worktree::BELOW_ROOT];
