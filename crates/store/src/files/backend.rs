//! [`FileBackend`]: every operation of a store, as one blocking job on files.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, Message, MessageId, Rate, Task, TeamConfig, TeamDir};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::checkpoint::{CHECKPOINT, Checkpoint};
use super::disk::{Disk, FileOptions, Stamp, is_absent};
use super::folders::Folders;
use super::group::{Queues, Waiting};
use super::lease::HeldLeases;
use super::lines::{self, Force};
use super::overwritten::PutsBack;
use super::paths::Paths;
use super::rates;
use super::tasks::Tables;
use super::teams::Readers;
use super::watch::Watchers;
use super::written_log::WrittenLogs;
use crate::journal::{is_on_way_of, texts_on_way_of};
use crate::{
    Appended, ArchiveName, ArchivedTeam, Backend, DocumentEdit, Event, JournalEntry,
    JournalSummary, Lease, LeaseHolder, LeaseName, LogName, Overwritten, Past, RateScope, Slot,
    StoreError, StoredMessage, TaskEdit, TeamEdit, UnreadLimit, Watch, dialect,
};

/// A [`Backend`] of files under a root, shared with reference clients; clones are one store.
#[derive(Clone, Debug)]
pub struct FileBackend {
    files: Arc<Files>,
}

/// A config as it was read last; with a stamp, when a file of that stamp still holds it.
type SeenConfig = (Option<Stamp>, Arc<TeamConfig>);

/// What one store knows of its files. All of its methods block.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) paths: Paths,
    pub(crate) disk: Disk,
    pub(crate) logs: WrittenLogs,
    pub(crate) puts_back: PutsBack,
    pub(crate) readers: Mutex<HashMap<TeamDir, (Stamp, Arc<Readers>)>>,
    pub(crate) configs: Mutex<HashMap<TeamDir, SeenConfig>>,
    pub(crate) tables: Tables,
    pub(crate) folders: Mutex<Folders>,
    pub(crate) watchers: Watchers,
    pub(crate) leases: HeldLeases,
    queues: Queues,
}

impl FileBackend {
    /// Opens the store under `root`, which need not be there yet; nothing is read or written before it is asked for.
    #[must_use]
    pub fn open(root: &Path, options: FileOptions) -> Self {
        let files = Files {
            paths: Paths::new(root),
            disk: Disk::new(options),
            logs: WrittenLogs::default(),
            puts_back: PutsBack::default(),
            readers: Mutex::default(),
            configs: Mutex::default(),
            tables: Tables::default(),
            folders: Mutex::default(),
            watchers: Watchers::default(),
            leases: HeldLeases::default(),
            queues: Queues::default(),
        };
        Self { files: Arc::new(files) }
    }

    /// How many times a file or a folder was forced to disk.
    #[must_use]
    pub fn forced_writes(&self) -> u64 {
        self.files.disk.forced()
    }

    /// How many crash points were passed; the number of the last one.
    #[cfg(feature = "crash-points")]
    #[must_use]
    pub fn crash_points_passed(&self) -> u64 {
        self.files.disk.passed()
    }

    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// Runs an operation on the root.
    async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Arc<Files>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_on(None, operation).await
    }

    /// Runs an operation on a team.
    async fn run_in<T: Send + 'static>(
        &self,
        team: TeamDir,
        operation: impl FnOnce(&Arc<Files>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_on(Some(team), operation).await
    }

    async fn run_on<T: Send + 'static>(
        &self,
        team: Option<TeamDir>,
        operation: impl FnOnce(&Arc<Files>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let files = Arc::clone(&self.files);
        let checked = move || {
            let done = files.must_have_folders(team.as_ref()).and_then(|()| operation(&files));
            done.map_err(|error| files.as_gone(team.as_ref(), error))
        };
        match spawn_blocking(checked).await {
            Ok(done) => done,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(self.shutting_down()),
            },
        }
    }

    fn shutting_down(&self) -> StoreError {
        let source = std::io::Error::other("the runtime is shutting down");
        StoreError::Io { action: "use", path: self.files.paths.teams(), source }
    }
}

impl Files {
    /// The error of an operation on a team: a file that is missing is no fault of the disk when the team itself went away
    /// meanwhile, to the archive for one, which its lead's `TeamDelete` may do at any moment.
    fn as_gone(&self, team: Option<&TeamDir>, error: StoreError) -> StoreError {
        match (team, error) {
            (Some(team), StoreError::Io { source, .. })
                if is_absent(&source) && !self.paths.team(team).exists() =>
            {
                StoreError::NoTeam { team: team.clone() }
            }
            (_, error) => error,
        }
    }

    /// Lets go of what is remembered of a team that is gone.
    pub(crate) fn forget(&self, team: &TeamDir) {
        self.tables.forget(team);
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).forget(team);
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).remove(team);
        self.logs.forget(&self.paths.team(team));
        self.logs.forget(&self.paths.tasks(team));
        self.configs.lock().unwrap_or_else(PoisonError::into_inner).remove(team);
        self.watchers.tell_gone(team);
    }
}

#[async_trait]
impl Backend for FileBackend {
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError> {
        self.run(|files| files.teams()).await
    }

    async fn create_team(&self, config: &TeamConfig) -> Result<(), StoreError> {
        let config = config.clone();
        self.run_in(config.name.dir(), move |files| files.create_team(&config, None)).await
    }

    async fn create_team_with_logs(
        &self,
        config: &TeamConfig,
        archive: &ArchiveName,
        logs: &[LogName],
    ) -> Result<(), StoreError> {
        let (config, archive, logs) = (config.clone(), archive.clone(), logs.to_vec());
        self.run_in(config.name.dir(), move |files| {
            files.create_team(&config, Some((&archive, &logs)))
        })
        .await
    }

    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.team(&team)).await
    }

    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.edit_team(&team, &edit)).await
    }

    async fn archive_team(&self, team: &TeamDir) -> Result<PathBuf, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.archive_team(&team)).await
    }

    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.discard_team(&team)).await
    }

    async fn reapply(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.reapply(&team)).await
    }

    async fn break_stale_locks(&self, team: &TeamDir) -> Result<usize, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.break_stale_locks(&team)).await
    }

    async fn archives(&self) -> Result<Vec<ArchiveName>, StoreError> {
        self.run(|files| files.archives()).await
    }

    async fn archived_journal(
        &self,
        archive: &ArchiveName,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let (path, id) = (self.files.paths.archived_journal(archive), id.clone());
        self.run(move |files| message_journal(&files.disk, &path, &id)).await
    }

    async fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.archived_team(&archive)).await
    }

    async fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.restore_team(&archive)).await
    }

    async fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.remove_archive(&archive)).await
    }

    fn team_file(&self, team: &TeamDir) -> PathBuf {
        self.files.paths.config(team)
    }

    fn own_folder(&self, team: &TeamDir) -> Option<PathBuf> {
        Some(self.files.paths.ours(team))
    }

    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let (team, inbox) = (team.clone(), inbox.clone());
        self.run_in(team.clone(), move |files| files.inbox(&team, &inbox)).await
    }

    async fn append_within(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError> {
        dialect::id_of(&message)?;
        let (done, told) = oneshot::channel();
        let path = self.files.paths.inbox(team, inbox);
        if self.files.queues.join(&path, Waiting { letter: (message, limit), done }) {
            let (files, team, inbox) = (Arc::clone(&self.files), team.clone(), inbox.clone());
            // Joined through `told`: it is answered before the job ends, and dropped should the job panic.
            spawn_blocking(move || {
                files.queues.lead(&path, |messages| {
                    let done = files.must_have_folders(Some(&team));
                    let done = done.and_then(|()| files.append(&team, &inbox, messages));
                    done.map_err(|error| files.as_gone(Some(&team), error))
                });
            });
        }
        told.await.unwrap_or_else(|_| Err(self.shutting_down()))
    }

    async fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError> {
        let (team, inbox, ids) = (team.clone(), inbox.clone(), ids.to_vec());
        self.run_in(team.clone(), move |files| files.acknowledge(&team, &inbox, &ids)).await
    }

    async fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        past: Past,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let (team, inbox) = (team.clone(), inbox.clone());
        self.run_in(team.clone(), move |files| files.past_mail(&team, &inbox, past)).await
    }

    async fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError> {
        let (team, inbox) = (team.clone(), inbox.clone());
        self.run_in(team.clone(), move |files| files.trim_inbox(&team, &inbox, keep)).await
    }

    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.tasks(&team)).await
    }

    async fn edit_tasks(&self, team: &TeamDir, edit: TaskEdit) -> Result<(), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.edit_tasks(&team, edit)).await
    }

    async fn record(&self, team: &TeamDir, entries: &[JournalEntry]) -> Result<(), StoreError> {
        let (team, entries) = (team.clone(), entries.to_vec());
        self.run_in(team.clone(), move |files| files.record(&team, &entries)).await
    }

    async fn journal(&self, team: &TeamDir) -> Result<Vec<JournalEntry>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.journal(&team)).await
    }

    async fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.journal_since(&team, position)).await
    }

    async fn message_journal(
        &self,
        team: &TeamDir,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let (team, id) = (team.clone(), id.clone());
        self.run_in(team.clone(), move |files| {
            files.must_exist(&team)?;
            message_journal(&files.disk, &files.paths.journal(&team), &id)
        })
        .await
    }

    async fn journal_summary(&self, team: &TeamDir) -> Result<(JournalSummary, u64), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| {
            files.must_exist(&team)?;
            files.checkpoint(&team).summary()
        })
        .await
    }

    async fn take_slot(
        &self,
        scope: &RateScope,
        rate: Rate,
        now_ms: i64,
    ) -> Result<Slot, StoreError> {
        let path = self.files.paths.rate(scope);
        self.run(move |files| {
            let slot = rates::take_slot(&files.disk, &path, rate, now_ms)?;
            files.disk.crash_point("slot taken");
            Ok(slot)
        })
        .await
    }

    async fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        edit: DocumentEdit,
    ) -> Result<(), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.edit_document(&team, name, edit)).await
    }

    async fn append_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        let (team, path, lines) = (team.clone(), self.log_file(team, log), lines.to_vec());
        let force = match log {
            LogName::Transcript(_) | LogName::Former { .. } => Force::Now,
            LogName::Output(_) => Force::Later,
        };
        self.run_in(team.clone(), move |files| {
            files.append_lines(&team, &path, &lines, force).map(|_| ())
        })
        .await
    }

    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError> {
        let (team, path) = (team.clone(), self.log_file(team, log));
        self.run_in(team.clone(), move |files| {
            files.must_exist(&team).and_then(|_| lines::read(&path))
        })
        .await
    }

    fn document_file(&self, team: &TeamDir, name: &'static str) -> PathBuf {
        self.files.paths.document(team, name)
    }

    async fn replace_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError> {
        let (team, lines) = (team.clone(), lines.to_vec());
        let (path, kept) = (self.log_file(&team, log), self.log_file(&team, kept_as));
        self.run_in(team.clone(), move |files| {
            files.must_exist(&team)?;
            lines::replace(&files.disk, &path, &lines, &kept)
        })
        .await
    }

    fn log_file(&self, team: &TeamDir, log: &LogName) -> PathBuf {
        self.files.paths.ours(team).join(log.relative_path())
    }

    async fn take_lease(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<Result<Lease, LeaseHolder>, StoreError> {
        let (team, lease, holder) = (team.clone(), lease.clone(), holder.clone());
        self.run_in(team.clone(), move |files| files.take_lease(&team, &lease, &holder)).await
    }

    async fn name_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<(), StoreError> {
        let (team, lease, holder) = (team.clone(), lease.clone(), holder.clone());
        self.run_in(team.clone(), move |files| files.name_holder(&team, &lease, &holder)).await
    }

    async fn lease_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        let (team, lease) = (team.clone(), lease.clone());
        self.run_in(team.clone(), move |files| files.lease_holder(&team, &lease)).await
    }

    async fn last_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        let (team, lease) = (team.clone(), lease.clone());
        self.run_in(team.clone(), move |files| files.last_holder(&team, &lease)).await
    }

    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.watch(&team)).await
    }
}

impl Files {
    /// The checkpoint of a team's journal.
    fn checkpoint(&self, team: &TeamDir) -> Checkpoint<'_> {
        Checkpoint::new(&self.disk, self.paths.journal(team), self.paths.document(team, CHECKPOINT))
    }

    pub(crate) fn record(
        &self,
        team: &TeamDir,
        entries: &[JournalEntry],
    ) -> Result<(), StoreError> {
        let path = self.paths.journal(team);
        let lines = entries.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(|e| super::disk::failed("write", &path)(e.into()))?;
        // A dead message is marked as read next, and then nothing else tells of it.
        let is_last_word =
            entries.iter().any(|entry| matches!(entry.event, Event::MessageDead { .. }));
        let force = if is_last_word { Force::Now } else { Force::Later };
        let appended = self.append_lines(team, &path, &lines, force);
        let appended = appended.inspect_err(|error| {
            // A team that is gone took its journal with it.
            if !matches!(error, StoreError::NoTeam { .. }) {
                self.disk.tell_unrecorded(error);
            }
        })?;
        self.checkpoint(team).follow(&appended);
        Ok(())
    }

    fn journal(&self, team: &TeamDir) -> Result<Vec<JournalEntry>, StoreError> {
        self.must_exist(team)?;
        Ok(entries(&lines::read(&self.paths.journal(team))?))
    }

    fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError> {
        self.must_exist(team)?;
        let (lines, end) = lines::read_since(&self.disk, &self.paths.journal(team), position)?;
        Ok((entries(&lines), end))
    }

    fn append_lines(
        &self,
        team: &TeamDir,
        path: &Path,
        lines: &[String],
        force: Force,
    ) -> Result<Range<u64>, StoreError> {
        match lines::append(&self.disk, path, lines, force) {
            Err(StoreError::Io { source, .. }) if super::disk::is_absent(&source) => {
                self.must_exist(team)?;
                self.make_ours(team)?;
                lines::append(&self.disk, path, lines, force)
            }
            other => other,
        }
    }
}

/// The entries on the way of a message.
fn message_journal(
    disk: &Disk,
    path: &Path,
    id: &MessageId,
) -> Result<Vec<JournalEntry>, StoreError> {
    let mut found = Vec::new();
    let mut is_sent = false;
    lines::search_back(disk, path, &texts_on_way_of(id), |step| {
        for line in step {
            let Some(entry) = entry_of(line) else { continue };
            if is_on_way_of(id, &entry.event) {
                is_sent |= matches!(entry.event, Event::MessagePersisted { .. });
                found.push(entry);
            }
        }
        // A receiver may note that it has a message a moment before its sender notes that it sent it; never steps before.
        if is_sent { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    found.reverse();
    Ok(found)
}

/// The entries of a journal. A line of a later version is passed over like a torn one: the journal is evidence, not truth.
fn entries(lines: &[String]) -> Vec<JournalEntry> {
    lines.iter().filter_map(|line| entry_of(line)).collect()
}

/// Reads an entry's two parts one after the other: to take them apart in one go, serde keeps every field of a line aside.
pub(super) fn entry_of(line: &str) -> Option<JournalEntry> {
    #[derive(serde::Deserialize)]
    struct At {
        at_ms: i64,
    }
    let At { at_ms } = serde_json::from_str(line).ok()?;
    Some(JournalEntry { at_ms, event: serde_json::from_str(line).ok()? })
}
