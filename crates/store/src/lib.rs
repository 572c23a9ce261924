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
mod spelled;
mod table;

pub use backend::{
    Appended, ArchiveName, ArchiveStore, ArchivedLogs, ArchivedTeam, Backend, Change, DocumentEdit,
    JournalOf, JournalStore, Lease, LeaseHolder, LeaseName, LeaseStore, LogName, MailStore, Past,
    RateScope, RateStore, RecordStore, Slot, StoredMessage, TaskEdit, TaskStore, TaskTable,
    TeamEdit, TeamStore, UnreadLimit, Watch,
};
pub use error::StoreError;
pub use files::{
    BadLine, Damage, Durability, FileBackend, FileOptions, FileState, Keep, LockWait, LongRead,
    Looked, Mend, OnLongRead, OnPassedOver, OnUnrecorded, OnWait, PassedOver, Paths, WrittenFile,
};
pub use journal::{
    Event, JournalEntry, JournalSummary, MemberState, MemberSummary, Overwritten, Spent, Turn,
};
pub use memory::MemoryBackend;
pub use spelled::{MemberChange, PermissionOutcome, StartedProgram, TaskChangeKind};
