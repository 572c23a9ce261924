//! Where teams are kept: one [`Backend`] trait, and its media.
//!
//! This room holds all that is ever written below a team's folders: how a file is locked, made durable, read while
//! others write it, and watched. It decides nothing about who may do what; that is `team`'s.

mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
mod dialect;
mod error;
mod files;
mod journal;
mod memory;
pub mod own_mode;
mod table;

pub use backend::{
    Appended, ArchiveName, ArchivedTeam, Backend, Change, DocumentEdit, Lease, LeaseHolder,
    LeaseName, LogName, Past, RateScope, Slot, StoredMessage, TaskEdit, TaskTable, TeamEdit,
    UnreadLimit, Watch,
};
pub use error::StoreError;
pub use files::{
    BadLine, Damage, Durability, FileBackend, FileOptions, FileState, Keep, LockWait, LongRead,
    Looked, Mend, OnLongRead, OnPassedOver, OnUnrecorded, OnWait, PassedOver, WrittenFile,
};
pub use journal::{
    Event, JournalEntry, JournalSummary, MemberState, MemberSummary, Overwritten, Spent, Turn,
};
pub use memory::MemoryBackend;
