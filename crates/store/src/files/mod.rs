//! Teams as files under a root, the way the reference client lays them out.
//!
//! All that is ever written below a team's folders is written here, and all of it survives a crash at any point.

mod archive;
mod array;
mod backend;
mod checkpoint;
mod disk;
mod flock;
mod folders;
mod group;
mod keep;
mod lease;
mod leaving;
mod lifecycle;
mod lines;
mod lock;
mod look;
mod mail;
mod mend;
mod ours;
mod overwritten;
mod paths;
mod plain;
mod rates;
mod real;
mod reapply;
mod rename;
mod tasks;
mod teams;
mod too_open;
mod turn;
mod unfinished;
mod update;
mod watch;
mod watched;
mod written;
mod written_log;

pub use backend::FileBackend;
pub use disk::{Durability, FileOptions, LongRead, OnLongRead, OnPassedOver, OnUnrecorded, OnWait, PassedOver};
pub use keep::Keep;
pub use leaving::{BadLine, Leaving, Seen};
pub use lock::LockWait;
pub use look::Looked;
pub use mend::Mend;
pub use written::WrittenFile;
