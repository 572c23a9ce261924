//! The one trait behind which teams are kept: [`Backend`], made of one small trait a concern.
//!
//! Every method may be called from any number of processes at once. A method that returned `Ok` has
//! made its change durable (as far as the store's durability setting goes); one that returned `Err`
//! has changed nothing.

mod archive;
mod journal;
mod leases;
mod mail;
mod rates;
mod records;
mod tasks;
mod teams;

pub use archive::{ArchiveName, ArchiveStore, ArchivedTeam};
pub use journal::{JournalOf, JournalStore};
pub use leases::{Lease, LeaseHolder, LeaseName, LeaseStore};
pub use mail::{Appended, MailStore, Past, StoredMessage, UnreadLimit};
pub use rates::{RateScope, RateStore, Slot};
pub use records::{DocumentEdit, LogName, RecordStore};
pub use tasks::{TaskEdit, TaskStore, TaskTable};
pub use teams::{ArchivedLogs, Change, TeamEdit, TeamStore, Watch};

use crate::FileBackend;

/// Where teams are kept.
pub trait Backend:
    TeamStore
    + ArchiveStore
    + MailStore
    + TaskStore
    + JournalStore
    + RecordStore
    + LeaseStore
    + RateStore
    + std::fmt::Debug
{
    /// The store as files, where it is that: only files have paths for people, and other programs
    /// that write into them.
    fn files(&self) -> Option<&FileBackend> {
        None
    }
}
