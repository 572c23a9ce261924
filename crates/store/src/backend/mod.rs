//! [`Backend`]: the trait that every storage of teams implements. It combines several small traits,
//! one for each kind of data.
//!
//! Every method is allowed to be called from any number of processes at the same time. If a method
//! returns `Ok`, its change is as durable as the durability setting of the store demands. If a
//! method returns `Err`, it has changed nothing.

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
    /// has paths that can be shown to users. Only the files of a file store are written by other
    /// programs.
    fn files(&self) -> Option<&FileBackend> {
        None
    }
}
