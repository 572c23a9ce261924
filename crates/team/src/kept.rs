//! What is kept of a team and needs no decision: its journal, logs, leases and changes, in the
//! words of the store.
//!
//! Unlike the operations, these also work on a team that was deleted through its handle, once
//! another has its name.

use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_protocol::{Task, TeamConfig, TeamDir};
use pitcrew_store::{
    JournalEntry, JournalSummary, Lease, LeaseHolder, LeaseName, LogName, StoreError, Watch,
};
use serde_json::Value;

use crate::{Team, Teams};

impl Teams {
    /// The folders of all teams, sorted; see [`pitcrew_store::TeamStore::teams`].
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn folders(&self) -> Result<Vec<TeamDir>, StoreError> {
        self.backend().teams().await
    }

    /// The config of the team in a folder.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and what keeps it from being read.
    pub async fn config_in(&self, folder: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        self.backend().team(folder).await
    }
}

impl Team {
    /// Whether the team was taken away from the store, by whomever.
    pub async fn is_gone(&self) -> bool {
        matches!(self.backend().team(self.dir()).await, Err(StoreError::NoTeam { .. }))
    }

    /// Tells what changes in the team from now on; see [`pitcrew_store::TeamStore::watch`].
    ///
    /// # Errors
    /// [`StoreError::NoTeam`].
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        self.backend().watch(self.dir()).await
    }

    /// All tasks, the reference client's own bookkeeping included.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and what keeps one from being read.
    pub async fn all_tasks(&self) -> Result<Arc<[Task]>, StoreError> {
        self.backend().tasks(self.dir()).await
    }

    /// The journal from a position on, and the position to go on from; see
    /// [`pitcrew_store::JournalStore::journal_since`].
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn journal_since(
        &self,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError> {
        self.backend().journal_since(self.dir(), position).await
    }

    /// The summary of the journal so far, and the position after it.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn journal_summary(&self) -> Result<(JournalSummary, u64), StoreError> {
        self.backend().journal_summary(self.dir()).await
    }

    /// The whole lines of a log.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn log(&self, log: &LogName) -> Result<Vec<String>, StoreError> {
        self.backend().log(self.dir(), log).await
    }

    /// Appends lines to a log; see [`pitcrew_store::RecordStore::append_log`].
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn append_log(&self, log: &LogName, lines: &[String]) -> Result<(), StoreError> {
        self.backend().append_log(self.dir(), log, lines).await
    }

    /// Puts lines in the place of a log's, which are kept in the log `kept_as`.
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

    /// Puts `document` in the place of one of our own documents, for other processes to read, and
    /// answers its file.
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

    /// Takes a lease; `Err(holder)` inside: somebody has it. See
    /// [`pitcrew_store::LeaseStore::take_lease`].
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

    /// Says anew who holds a lease that this process has taken.
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

    /// Who holds a lease now.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn lease_holder(&self, lease: &LeaseName) -> Result<Option<LeaseHolder>, StoreError> {
        self.backend().lease_holder(self.dir(), lease).await
    }

    /// Who took a lease last, whether it still holds it or not.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the store.
    pub async fn last_holder(&self, lease: &LeaseName) -> Result<Option<LeaseHolder>, StoreError> {
        self.backend().last_holder(self.dir(), lease).await
    }

    /// Breaks the locks that killed processes left in the team's files, and says how many; none
    /// where there are no files.
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
