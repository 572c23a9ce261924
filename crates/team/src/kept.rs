//! Direct access to a team's stored data: its journal, logs, leases and file changes. The methods
//! of this module apply no rules, and their types come from the store.
//!
//! After a deletion of the team through its handle, the operations of the handle find no team. The
//! methods of this module still use the folder of the team, even if the folder belongs to another
//! team with the same name by now.

use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_protocol::{Task, TeamConfig, TeamDir};
use pitcrew_store::{
    ArchiveName, JournalEntry, JournalSummary, Lease, LeaseHolder, LeaseName, LogName, StoreError,
    Watch,
};
use serde_json::Value;

use crate::{Team, Teams};

impl Teams {
    /// Returns the folders of all teams, sorted. See [`pitcrew_store::TeamStore::teams`].
    ///
    /// # Errors
    /// The error of the store when it cannot be read.
    pub async fn folders(&self) -> Result<Vec<TeamDir>, StoreError> {
        self.backend().teams().await
    }

    /// Returns the names of all archives, sorted, without reading them.
    ///
    /// # Errors
    /// The error of the store when it cannot be read.
    pub async fn archive_names(&self) -> Result<Vec<ArchiveName>, StoreError> {
        self.backend().archives().await
    }

    /// Returns the config of the team in `folder`.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], or the error of the store when the config cannot be read.
    pub async fn config_in(&self, folder: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        self.backend().team(folder).await
    }
}

impl Team {
    /// Whether the team is no longer in the store. This is true whichever program removed the team.
    pub async fn is_gone(&self) -> bool {
        matches!(self.backend().team(self.dir()).await, Err(StoreError::NoTeam { .. }))
    }

    /// Watches the team for changes from now on. See [`pitcrew_store::TeamStore::watch`].
    ///
    /// # Errors
    /// [`StoreError::NoTeam`].
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        self.backend().watch(self.dir()).await
    }

    /// Returns all tasks, including the internal tasks of the reference client.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], or the error of the store when a task cannot be read.
    pub async fn all_tasks(&self) -> Result<Arc<[Task]>, StoreError> {
        self.backend().tasks(self.dir()).await
    }

    /// Returns the journal entries from the given position on, and the position for the next call.
    /// See [`pitcrew_store::JournalStore::journal_since`].
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn journal_since(
        &self,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError> {
        self.backend().journal_since(self.dir(), position).await
    }

    /// Returns the summary of the journal so far, and the journal position after the last
    /// summarized entry.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn journal_summary(&self) -> Result<(JournalSummary, u64), StoreError> {
        self.backend().journal_summary(self.dir()).await
    }

    /// Returns the complete lines of a log.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn log(&self, log: &LogName) -> Result<Vec<String>, StoreError> {
        self.backend().log(self.dir(), log).await
    }

    /// Returns the complete lines within about the last `bytes` bytes of a log.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn log_end(&self, log: &LogName, bytes: u64) -> Result<Vec<String>, StoreError> {
        self.backend().log_end(self.dir(), log, bytes).await
    }

    /// Appends lines to a log; see [`pitcrew_store::RecordStore::append_log`].
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn append_log(&self, log: &LogName, lines: &[String]) -> Result<(), StoreError> {
        self.backend().append_log(self.dir(), log, lines).await
    }

    /// Replaces all lines of a log. The old lines are moved to the log `kept_as`.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn replace_log(
        &self,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError> {
        self.backend().replace_log(self.dir(), log, lines, kept_as).await
    }

    /// Replaces one of pitcrew's documents with `document`, so that other processes are able to
    /// read the new content. Returns the path of the document's file.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn write_document(
        &self,
        name: &'static str,
        document: Value,
    ) -> Result<PathBuf, StoreError> {
        let write = Box::new(move |stored: &mut Option<Value>| {
            *stored = Some(document.clone());
            Ok(())
        });
        self.backend().edit_document(self.dir(), name, write).await?;
        Ok(self.document_file(name))
    }

    /// Takes a lease. If another process already holds the lease, returns that holder in the inner
    /// `Err`. See [`pitcrew_store::LeaseStore::take_lease`].
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn take_lease(
        &self,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<Result<Lease, LeaseHolder>, StoreError> {
        self.backend().take_lease(self.dir(), lease, holder).await
    }

    /// Replaces the recorded data about the holder, in a lease that this process holds.
    ///
    /// # Errors
    /// [`StoreError::NotHeld`], and the errors of the store.
    pub async fn name_holder(
        &self,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<(), StoreError> {
        self.backend().name_holder(self.dir(), lease, holder).await
    }

    /// Returns the present holder of a lease.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn lease_holder(&self, lease: &LeaseName) -> Result<Option<LeaseHolder>, StoreError> {
        self.backend().lease_holder(self.dir(), lease).await
    }

    /// Returns the last holder of a lease, even if nobody holds the lease now.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn last_holder(&self, lease: &LeaseName) -> Result<Option<LeaseHolder>, StoreError> {
        self.backend().last_holder(self.dir(), lease).await
    }

    /// Removes the locks that killed processes left in the team's files. Returns the number of
    /// removed locks. The number is 0 if the store has no files.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the disk.
    pub async fn break_stale_locks(&self) -> Result<usize, StoreError> {
        match self.backend().files() {
            Some(files) => files.break_stale_locks(self.dir()).await,
            None => Ok(0),
        }
    }
}
