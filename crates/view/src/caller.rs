//! The process that calls a user interface over TCP, as the kernel knows it. A user interface
//! refuses what the control socket of a host refuses: other users, and what a tool started.

pub use pitcrew_process::tcp_peer::{Call, Peer, peers_of};
