//! What commands of agents can do, held by the kernel whatever their text was taken for.
//!
//! All agents run as the user, so the rights of files cannot tell them apart, and reading a shell command can be wrong. So
//! each command is started in one of three [`Profile`]s, for it, all it starts, and whatever these leave behind:
//!
//! - *read*: nothing is granted but reading what may be read, and a private temporary folder. Landlock decides about files,
//!   signals and TCP, seccomp about the rest: sockets, namespaces, handles, modes and times. Root gives up its powers.
//! - *work*: *read* and writing below the working folder, in mounts and namespaces of its own.
//! - *free*: everything, but for the team's own files and the user's settings below the root. Reading them stays free;
//!   writing, making, removing, renaming, linking and truncating are refused.
//!
//! Two means, neither of which needs unsafe code of ours:
//!
//! - **Landlock and seccomp**: the command is started from a thread that gave up its rights; the child has the same. Landlock
//!   only knows rights that are granted, and a right granted on a folder holds for all below it. In *free* everything is
//!   granted but the folders on the way to what is kept, which has a price: nothing can be made, renamed or removed
//!   *directly* in these, such as the home folder itself when the root is `~/.claude`.
//! - **bubblewrap**: mounts of the command's own. In *free* the root is mounted read-only, and what is not kept of it
//!   writable again. For anybody but root it needs a user namespace in which all files of others belong to nobody: ssh then
//!   refuses the system's configuration; some systems and most containers forbid it. For root, who needs none, processes outside
//!   would be a way around the mounts: a command of root leaves them by Landlock, applied inside.
//!
//! In *free* Landlock comes first, and bubblewrap where its price is lower: when the working folder is on the way to what is
//! kept or `/tmp` is, and for root, who needs no user namespace. Each command is bounded afresh, because what there is to be
//! granted changes. Where `/tmp` is on the way and Landlock is taken all the same, a command is told another folder for
//! temporary files, below the root.
//!
//! What *free* does not do: it cannot follow a request to a program that runs outside, such as a tmux server, cron, or a
//! daemon with a socket. Landlock knows no right to change the mode, owner, times or locks of a file. Hooks run with all
//! rights: they are the user's. What the gate can see is refused before, in words that help; that is `gate`'s.

mod bubblewrap;
mod capabilities;
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

/// What of a root only the team's own operations write into.
pub const OF_TEAMS: [&str; 2] = ["teams", "tasks"];

/// What of a root only the user writes: what decides what agents may do, and what a client runs with all rights.
/// `settings.local.json` is read where the project is the home folder; `hooks` is where the programs of hooks stand by
/// custom, and `plugins` are the reference client's, which can be a teammate.
pub const OF_THE_USER: [&str; 5] =
    ["settings.json", "settings.local.json", "agents", "hooks", "plugins"];

/// What of a root is our own records.
pub const OF_PITCREW: [&str; 1] = ["pitcrew"];

/// What of it commands work in.
pub const OPEN_OF_PITCREW: [&str; 2] = ["pitcrew/tmp", crate::worktree::BELOW_ROOT];
