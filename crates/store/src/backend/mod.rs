//! [`Backend`]: the trait that every storage of teams implements. It combines several small traits,
//! one for each subject.
//!
//! Every method may be called from any number of processes at the same time. A method that returns
//! `Ok` has made its change durable, as far as the durability setting of the store demands. A
//! method that returns `Err` has changed nothing.

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

/// A storage of teams.
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
    /// Returns the file store, or `None` if this store does not consist of files. Only a file store
    /// has paths to show to people, and only its files are written by other programs.
    fn files(&self) -> Option<&FileBackend> {
        None
    }
}
