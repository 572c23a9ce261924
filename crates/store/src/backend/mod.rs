//! [`Backend`]: the trait that every storage of teams implements. It combines several small traits,
//! one for each kind of data.
//!
//! Every method is allowed to be called from any number of processes at the same time. If a method
//! returns `Ok`, its change is as durable as the durability setting of the store demands. If a
//! method returns `Err`, it has changed nothing. The exception is an edit of several tasks: after
//! an error of the disk, some of these tasks may be changed ([`TaskStore::edit_tasks`]).

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
pub use teams::{ArchivedLogs, Change, NewTeam, TeamEdit, TeamStore, Watch};

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
    /// Returns this store as a [`FileBackend`], or `None` if it does not keep teams in files. Users
    /// can be shown paths only if the store is a file store. Other programs change only the files
    /// of a file store.
    fn files(&self) -> Option<&FileBackend> {
        None
    }
}
