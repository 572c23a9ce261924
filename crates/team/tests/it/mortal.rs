//! A backend whose process dies at a chosen write. The process dies before the write, or after the
//! write but before the caller gets the result.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, Message, MessageId, Rate, Task, TeamConfig, TeamDir};
use pitcrew_store::{
    Appended, ArchiveName, ArchiveStore, ArchivedTeam, Backend, DocumentEdit, JournalEntry,
    JournalOf, JournalStore, JournalSummary, Lease, LeaseHolder, LeaseName, LeaseStore, LogName,
    MailStore, MemoryBackend, NewTeam, Past, RateScope, RateStore, RecordStore, Slot, StoreError,
    StoredMessage, TaskEdit, TaskStore, TeamEdit, TeamStore, UnreadLimit, Watch,
};
use serde_json::Value;

/// A backend in which each write has two points at which the process is able to die. After the
/// process has died, every call fails until a restart.
#[derive(Debug, Default)]
pub(crate) struct MortalBackend {
    kept: MemoryBackend,
    passed: AtomicU64,
    dies_at: AtomicU64,
    refuses_mail: AtomicBool,
}

impl MortalBackend {
    /// Makes the process die at the `n`th point from now, counted from 1. If `n` is 0, the process
    /// does not die.
    pub(crate) fn die_at(&self, n: u64) {
        self.passed.store(0, Ordering::SeqCst);
        self.dies_at.store(n, Ordering::SeqCst);
    }

    /// Sets whether every new message is refused, like on a disk that has room for small records
    /// but not for an inbox.
    pub(crate) fn refuse_mail(&self, refuses: bool) {
        self.refuses_mail.store(refuses, Ordering::SeqCst);
    }

    /// The number of points that the process has passed.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    fn is_dead(&self) -> bool {
        let dies_at = self.dies_at.load(Ordering::SeqCst);
        dies_at != 0 && self.passed() >= dies_at
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.is_dead() {
            let source = io::Error::other("the process is dead");
            return Err(StoreError::Io { action: "reach", path: PathBuf::from("memory"), source });
        }
        Ok(())
    }

    fn pass(&self) -> Result<(), StoreError> {
        self.alive()?;
        self.passed.fetch_add(1, Ordering::SeqCst);
        self.alive()
    }

    async fn write<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.pass()?;
        let done = call.await?;
        self.pass()?;
        Ok(done)
    }

    async fn read<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.alive()?;
        call.await
    }
}

impl Backend for MortalBackend {}

#[async_trait]
impl TeamStore for MortalBackend {
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError> {
        self.read(self.kept.teams()).await
    }

    async fn create_team(&self, config: &TeamConfig, new: &NewTeam) -> Result<(), StoreError> {
        self.write(self.kept.create_team(config, new)).await
    }

    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        self.read(self.kept.team(team)).await
    }

    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError> {
        self.write(self.kept.edit_team(team, edit)).await
    }

    async fn archive_team(&self, team: &TeamDir) -> Result<ArchiveName, StoreError> {
        self.write(self.kept.archive_team(team)).await
    }

    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError> {
        self.write(self.kept.discard_team(team)).await
    }

    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError> {
        self.read(self.kept.watch(team)).await
    }
}

#[async_trait]
impl ArchiveStore for MortalBackend {
    async fn archives(&self) -> Result<Vec<ArchiveName>, StoreError> {
        self.read(self.kept.archives()).await
    }

    async fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError> {
        self.read(self.kept.archived_team(archive)).await
    }

    async fn archived_journal(
        &self,
        archive: &ArchiveName,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        self.read(self.kept.archived_journal(archive)).await
    }

    async fn archived_summary(&self, archive: &ArchiveName) -> Result<JournalSummary, StoreError> {
        self.read(self.kept.archived_summary(archive)).await
    }

    async fn archived_mail(
        &self,
        archive: &ArchiveName,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        self.read(self.kept.archived_mail(archive, inbox)).await
    }

    async fn archived_document(
        &self,
        archive: &ArchiveName,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        self.read(self.kept.archived_document(archive, name)).await
    }

    async fn archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
    ) -> Result<Vec<String>, StoreError> {
        self.read(self.kept.archived_log(archive, log)).await
    }

    async fn record_archived(
        &self,
        archive: &ArchiveName,
        entries: &[JournalEntry],
    ) -> Result<(), StoreError> {
        self.write(self.kept.record_archived(archive, entries)).await
    }

    async fn append_archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        self.write(self.kept.append_archived_log(archive, log, lines)).await
    }

    async fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError> {
        self.write(self.kept.restore_team(archive)).await
    }

    async fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError> {
        self.write(self.kept.remove_archive(archive)).await
    }
}

#[async_trait]
impl MailStore for MortalBackend {
    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        self.read(self.kept.inbox(team, inbox)).await
    }

    async fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        past: Past,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        self.read(self.kept.past_mail(team, inbox, past)).await
    }

    async fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError> {
        if self.refuses_mail.load(Ordering::SeqCst) {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            return Err(StoreError::Io { action: "write", path: PathBuf::from("memory"), source });
        }
        self.write(self.kept.append(team, inbox, message, limit)).await
    }

    async fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError> {
        self.write(self.kept.acknowledge(team, inbox, ids)).await
    }

    async fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError> {
        self.write(self.kept.trim_inbox(team, inbox, keep)).await
    }
}

#[async_trait]
impl TaskStore for MortalBackend {
    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError> {
        self.read(self.kept.tasks(team)).await
    }

    async fn edit_tasks(&self, team: &TeamDir, edit: TaskEdit) -> Result<(), StoreError> {
        self.write(self.kept.edit_tasks(team, edit)).await
    }
}

#[async_trait]
impl JournalStore for MortalBackend {
    async fn record(&self, team: &TeamDir, entries: &[JournalEntry]) -> Result<(), StoreError> {
        self.write(self.kept.record(team, entries)).await
    }

    async fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError> {
        self.read(self.kept.journal_since(team, position)).await
    }

    async fn message_journal(
        &self,
        journal: JournalOf<'_>,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        self.read(self.kept.message_journal(journal, id)).await
    }

    async fn journal_summary(&self, team: &TeamDir) -> Result<(JournalSummary, u64), StoreError> {
        self.read(self.kept.journal_summary(team)).await
    }
}

#[async_trait]
impl RecordStore for MortalBackend {
    async fn document(
        &self,
        team: &TeamDir,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        self.read(self.kept.document(team, name)).await
    }

    async fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        edit: DocumentEdit,
    ) -> Result<(), StoreError> {
        self.write(self.kept.edit_document(team, name, edit)).await
    }

    async fn append_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        self.write(self.kept.append_log(team, log, lines)).await
    }

    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError> {
        self.read(self.kept.log(team, log)).await
    }

    async fn log_end(
        &self,
        team: &TeamDir,
        log: &LogName,
        bytes: u64,
    ) -> Result<Vec<String>, StoreError> {
        self.read(self.kept.log_end(team, log, bytes)).await
    }

    async fn replace_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError> {
        self.write(self.kept.replace_log(team, log, lines, kept_as)).await
    }
}

#[async_trait]
impl LeaseStore for MortalBackend {
    async fn take_lease(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<Result<Lease, LeaseHolder>, StoreError> {
        self.read(self.kept.take_lease(team, lease, holder)).await
    }

    async fn name_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<(), StoreError> {
        self.write(self.kept.name_holder(team, lease, holder)).await
    }

    async fn lease_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        self.read(self.kept.lease_holder(team, lease)).await
    }

    async fn last_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        self.read(self.kept.last_holder(team, lease)).await
    }
}

#[async_trait]
impl RateStore for MortalBackend {
    async fn take_slot(
        &self,
        scope: &RateScope,
        rate: Rate,
        now_ms: i64,
    ) -> Result<Slot, StoreError> {
        self.write(self.kept.take_slot(scope, rate, now_ms)).await
    }
}
