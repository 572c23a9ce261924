//! Storage for teams: the [`Backend`] trait and its implementations.
//!
//! All writes below a team's folders happen in this crate. The crate locks the files, makes the
//! writes durable, watches the files, and reads them while other programs write. It does not decide
//! which actions an agent is allowed to do. The crate `team` decides that.

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
mod summary;
mod table;

pub use backend::{
    Appended, ArchiveName, ArchiveStore, ArchivedLogs, ArchivedTeam, Backend, Change, DocumentEdit,
    JournalOf, JournalStore, Lease, LeaseHolder, LeaseName, LeaseStore, LogName, MailStore,
    NewTeam, Past, RateScope, RateStore, RecordStore, Slot, StoredMessage, TaskEdit, TaskStore,
    TaskTable, TeamEdit, TeamStore, UnreadLimit, Watch,
};
pub use error::StoreError;
pub use files::{
    BadLine, Damage, Durability, FileBackend, FileOptions, FileState, JournalFault, Keep,
    LineCheck, LockWait, LongRead, Looked, Mend, OnLongRead, OnPassedOver, OnUnrecorded, OnWait,
    PassedOver, Paths, WebFile, WebServerRecord, WebToken, WebWatch, WrittenFile,
};
pub use journal::{Event, JournalEntry, Overwritten, Turn};
pub use memory::MemoryBackend;
pub use spelled::{MemberChange, PermissionOutcome, StartedProgram, TaskChangeKind};
pub use summary::{
    EndedRun, JournalSummary, MemberState, MemberSummary, OpenRequest, RunsSummary, Spent,
    TEAM_DELETED,
};
