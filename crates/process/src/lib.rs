//! Starts, identifies, restricts and stops processes, and creates the folders that they work in.
//!
//! - [`job`] runs one command with a deadline and stops all processes that the command started.
//! - [`identity`] identifies a process by its process id and its start time.
//! - [`sandbox`] uses the kernel to limit what commands can do.
//! - [`our_git`] runs git for pitcrew itself, confined and without programs of the repository.
//! - [`worktree`] creates and removes git worktrees.
//! - [`strays`] stops processes that removed pitcrew's tags from their environment.
//! - [`file_lock`] waits for the lock on a file, with a limit, and reports who holds it.
//! - [`given_file`] reads files that may come from other people, such as the files of a cloned
//!   repository.
//! - [`given_stream`] reads a file, a FIFO or a pipe while another program writes it.
//! - [`tcp_peer`] finds the process at the other end of a TCP connection.
//! - [`unix_socket`] finds the process at the other end of a unix socket.
//! - [`handle`] opens files by their resolved paths and never follows a symbolic link.
//!
//! Other crates decide which limits a command needs. *This crate never reads a permission rule, and
//! never changes a team's folders.*

pub mod checkout;
pub mod file_lock;
pub mod given_file;
pub mod given_stream;
pub mod handle;
pub mod identity;
pub mod job;
pub mod our_git;
pub mod own_mode;
mod pane_tag;
mod pieces;
pub mod protected;
pub mod sandbox;
pub mod strays;
mod stuck_git;
pub mod tcp_peer;
pub mod unix_socket;
pub mod worktree;

pub use pane_tag::{PaneTag, TagError};
pub use pieces::pieces;
