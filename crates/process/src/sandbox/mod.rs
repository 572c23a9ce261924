//! Limits what agents' commands can do. The kernel enforces the limits, whatever the command's text
//! looks like.
//!
//! All agents run as the same user, so file permissions cannot separate the agents. Checking the
//! text of a shell command is not reliable. Therefore each command is started in one of three
//! sandbox [`Profile`]s. The profile applies to the command and to all processes that it starts,
//! also after the command has ended:
//!
//! - *read*: the command is allowed to read the readable files and to write a private temporary
//!   folder. Landlock controls files, signals and TCP. Seccomp controls sockets, namespaces, file
//!   handles, and changes of file modes and times. If the user `root` runs pitcrew, the command
//!   gives up its capabilities.
//! - *work*: like *read*, and the command is also allowed to write below the working folder. It has
//!   its own mounts and namespaces.
//! - *free*: everything is allowed, except changing the team's own files and the user's settings
//!   below the configuration root. Reading these files is allowed. Writing, creating, removing,
//!   renaming, linking and truncating them are refused.
//!
//! There are two mechanisms. Neither needs unsafe code here:
//!
//! - **Landlock and seccomp**: a thread gives up its rights and then starts the command, which
//!   inherits the restriction. Landlock rules can only allow, and a rule for a folder also covers
//!   everything below the folder. Therefore in *free* there are rules for everything except the
//!   folders on the path to protected files. This has a cost: nothing can be created, renamed or
//!   removed *directly* in these folders. An example is the home folder if the configuration root
//!   is `~/.claude`.
//! - **bubblewrap**: the command gets its own mounts. In *free* the configuration root is mounted
//!   read-only, and its unprotected parts are mounted writable again. A normal user needs a user
//!   namespace for the mounts. In a user namespace, other users' files belong to nobody, so ssh
//!   refuses the system's configuration. Some systems and most containers forbid user namespaces.
//!   The user `root` needs no user namespace, but could bypass the mounts through processes outside
//!   the sandbox. Therefore a command of the user `root` also gives up access to these processes,
//!   by Landlock inside the sandbox.
//!
//! In *free*, Landlock is preferred. Bubblewrap is used in three cases: if the user `root` runs
//! pitcrew, if the working folder or `/tmp` is on the path to protected files, and if the kernel
//! has no Landlock that can refuse truncation. The restriction is built anew for each command,
//! because the set of files to allow changes. If `/tmp` is on the path to protected files and
//! Landlock is used nevertheless, the command gets another temporary folder below the configuration
//! root.
//!
//! Limits of *free*: the profile does not cover requests to programs outside the sandbox, such as a
//! tmux server, cron or a daemon with a socket. Landlock cannot forbid changes to the mode, owner,
//! times or locks of a file. The user's hooks run with all rights, because they belong to the user.
//! Pitcrew's permission check denies visible violations before the command starts, with a helpful
//! message.

mod bubblewrap;
mod capabilities;
mod confined_thread;
mod decided;
mod denied;
mod denied_paths;
mod environment;
mod existing;
mod git_config;
mod git_entries;
pub mod git_folder;
mod git_locks;
mod git_programs;
mod grant;
mod inside;
mod kept;
mod key_files;
mod landlock;
mod machine;
mod own;
mod passed;
mod pinned;
mod places;
mod private;
mod profile;
mod quarantine;
mod readable;
mod records;
mod shared;
mod sockets;
mod start;
mod starter;
mod syscalls;
mod uncovered;
mod unfinished;
mod way;
mod work;

pub use denied_paths::{DeniedPaths, NamesPath};
pub use environment::is_secret as is_secret_name;
pub(crate) use git_entries::unfit_in_checkout;
pub use git_entries::{Extent, Unfit};
pub use git_locks::GitLock;
pub(crate) use git_programs::unfit_include;
pub use grant::Grant;
pub use inside::run_inside;
pub use machine::{Machine, Options, TOOLCHAIN_VARIABLES, Variable};
pub(crate) use own::{OwnGrant, Reach};
pub use pitcrew_protocol::SandboxProfile as Profile;
pub(crate) use places::trail;
pub use profile::{Mechanism, Support};
pub use quarantine::Aftermath;
pub use quarantine::Appeared;
pub use start::Sandbox;
pub use unfinished::{Unfinished, put_aside_unfinished};

/// Folders below a configuration root that only pitcrew's own team operations are allowed to write.
pub const OF_TEAMS: [&str; 2] = ["teams", "tasks"];

/// Files and folders below a configuration root that only the user is allowed to write. Some
/// control the permissions of agents, others contain programs that run without a sandbox:
///
/// - `settings.local.json` takes effect if the project is the home folder.
/// - `hooks` is the usual folder for hook programs.
/// - The reference client, which can be a teammate, runs `plugins`.
pub const OF_THE_USER: [&str; 5] =
    ["settings.json", "settings.local.json", "agents", "hooks", "plugins"];

/// The folder below a configuration root that contains pitcrew's own records.
pub const OF_PITCREW: [&str; 1] = ["pitcrew"];

/// Folders inside `OF_PITCREW` in which commands are allowed to write.
pub const OPEN_OF_PITCREW: [&str; 2] = ["pitcrew/tmp", crate::worktree::BELOW_ROOT];
