//! Teams as files under a root, in the layout of the reference client.
//!
//! All writes below a team's folders happen in this module. A crash at any point of a write leaves
//! valid files.

mod archive;
mod array;
mod backend;
mod checkpoint;
mod damage;
mod disk;
mod file_queue;
mod flock;
mod folders;
mod group;
mod inventory;
mod journal;
mod journal_fault;
mod keep;
mod lease;
mod lifecycle;
mod lines;
mod lock;
mod look;
mod lost_updates;
mod mail;
mod ours;
mod overwritten;
mod paths;
mod plain;
mod rates;
mod real;
mod rename;
mod repair;
mod tasks;
mod teams;
mod too_open;
mod unfinished;
mod update;
mod watch;
mod watched;
mod web_file;
mod web_servers;
mod web_token;
mod web_watch;
mod written_log;

pub use backend::FileBackend;
pub use damage::{BadLine, Damage, FileState};
pub use disk::{
    Durability, FileOptions, LongRead, OnLongRead, OnPassedOver, OnUnrecorded, OnWait, PassedOver,
};
pub use inventory::WrittenFile;
pub use journal_fault::{JournalFault, LineCheck};
pub use keep::Keep;
pub use lock::LockWait;
pub use look::Looked;
pub use paths::Paths;
pub use repair::Mend;
pub use web_file::WebFile;
pub use web_servers::WebServerRecord;
pub use web_token::WebToken;
pub use web_watch::WebWatch;
