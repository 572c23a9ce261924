//! [`FileBackend`]: runs each store operation as one blocking job on files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, Message, MessageId, Rate, Task, TeamConfig, TeamDir};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::disk::{Disk, FileOptions, Stamp, is_absent};
use super::folders::Folders;
use super::group::{Queues, Waiting};
use super::journal;
use super::lease::HeldLeases;
use super::lines::{self, Force};
use super::look::name_of;
use super::overwritten::PutsBack;
use super::paths::Paths;
use super::rates;
use super::tasks::Tables;
use super::teams::{Readers, SeenConfig};
use super::watch::Watchers;
use super::written_log::WrittenLogs;
use crate::{
    Appended, ArchiveName, ArchiveStore, ArchivedTeam, Backend, DocumentEdit, JournalEntry,
    JournalOf, JournalStore, JournalSummary, Lease, LeaseHolder, LeaseName, LeaseStore, LogName,
    MailStore, NewTeam, Overwritten, Past, RateScope, RateStore, RecordStore, Slot, StoreError,
    StoredMessage, TaskEdit, TaskStore, TeamEdit, TeamStore, UnreadLimit, Watch, dialect,
};

/// A [`Backend`] that stores teams as files under a root. Reference clients can use the same files.
/// A clone is a handle to the same store.
#[derive(Clone, Debug)]
pub struct FileBackend {
    files: Arc<Files>,
}

/// The state and the caches of one store. All methods of this type block the thread.
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
    /// Opens the store under `root`. The folder need not exist yet. This function reads and writes
    /// nothing.
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

    /// Returns how many times the store has forced a file or a folder to disk (fsync).
    #[must_use]
    pub fn forced_writes(&self) -> u64 {
        self.files.disk.forced()
    }

    /// Returns how many crash points this store has passed. This is also the number of the last
    /// crash point that was passed.
    #[cfg(feature = "crash-points")]
    #[must_use]
    pub fn crash_points_passed(&self) -> u64 {
        self.files.disk.passed()
    }

    /// Returns the paths of the files of all teams.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.files.paths
    }

    /// Checks whether other programs have overwritten pitcrew's changes to the team's files.
    /// Restores the overwritten changes, records them in the journal and returns them.
    ///
    /// A message counts as overwritten if it is missing in the inbox of a member that pitcrew runs
    /// and is not in the archive of that inbox. Such a message is restored. A message that is
    /// missing in any other inbox is not restored, because other clients remove the messages that
    /// they have read. For the same reason, no message is restored in a team of the session
    /// dialect.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of taking a lock and of the disk.
    pub async fn reapply(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.reapply(&team)).await
    }

    /// Removes those locks of a team that nobody holds, and returns their number. Such locks remain
    /// after a process was killed. If a file is no longer written, nobody else removes its lock.
    ///
    /// A lock of a dead pitcrew process is recognized at once. A lock of another client is removed
    /// if it was not refreshed for 10 s.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`], and the errors of the disk.
    pub async fn break_stale_locks(&self, team: &TeamDir) -> Result<usize, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.break_stale_locks(&team)).await
    }

    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// Runs an operation that concerns the whole root as a blocking job.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Arc<Files>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_on(None, operation).await
    }

    /// Runs an operation that concerns one team as a blocking job.
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
        // If the operation panics, the panic continues in the caller. The only other failure of the
        // job is a runtime that is shutting down, which becomes an error.
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
    /// Converts the error of an operation on a team. The lead's `TeamDelete` can archive the team
    /// at any moment, and then the team's files are missing. In that case the result is
    /// [`StoreError::NoTeam`] instead of a disk error.
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

    /// Clears all caches of a team that no longer exists, and notifies the watchers of the team.
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

impl Backend for FileBackend {
    fn files(&self) -> Option<&FileBackend> {
        Some(self)
    }
}

#[async_trait]
impl TeamStore for FileBackend {
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError> {
        self.run(|files| files.teams()).await
    }

    async fn create_team(&self, config: &TeamConfig, new: &NewTeam) -> Result<(), StoreError> {
        let (config, new) = (config.clone(), new.clone());
        let dir = config.name.dir();
        self.run_in(dir, move |files| files.create_team(&config, &new)).await
    }

    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.team(&team)).await
    }

    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.edit_team(&team, &edit)).await
    }

    async fn archive_team(&self, team: &TeamDir) -> Result<ArchiveName, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| {
            let place = files.archive_team(&team)?;
            Ok(ArchiveName(name_of(&place).to_owned()))
        })
        .await
    }

    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.discard_team(&team)).await
    }

    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.watch(&team)).await
    }
}

#[async_trait]
impl ArchiveStore for FileBackend {
    async fn archives(&self) -> Result<Vec<ArchiveName>, StoreError> {
        self.run(|files| files.archives()).await
    }

    async fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.archived_team(&archive)).await
    }

    async fn archived_journal(
        &self,
        archive: &ArchiveName,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.archived_journal(&archive)).await
    }

    async fn archived_summary(&self, archive: &ArchiveName) -> Result<JournalSummary, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.archived_summary(&archive)).await
    }

    async fn archived_mail(
        &self,
        archive: &ArchiveName,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let (archive, inbox) = (archive.clone(), inbox.clone());
        self.run(move |files| files.archived_mail(&archive, &inbox)).await
    }

    async fn archived_document(
        &self,
        archive: &ArchiveName,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.archived_document(&archive, name)).await
    }

    async fn archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
    ) -> Result<Vec<String>, StoreError> {
        let (archive, log) = (archive.clone(), log.clone());
        self.run(move |files| files.archived_log(&archive, &log)).await
    }

    async fn record_archived(
        &self,
        archive: &ArchiveName,
        entries: &[JournalEntry],
    ) -> Result<(), StoreError> {
        let (archive, entries) = (archive.clone(), entries.to_vec());
        self.run(move |files| files.record_archived(&archive, &entries)).await
    }

    async fn append_archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        let (archive, log, lines) = (archive.clone(), log.clone(), lines.to_vec());
        self.run(move |files| files.append_archived_log(&archive, &log, &lines)).await
    }

    async fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.restore_team(&archive)).await
    }

    async fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError> {
        let archive = archive.clone();
        self.run(move |files| files.remove_archive(&archive)).await
    }
}

#[async_trait]
impl MailStore for FileBackend {
    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let (team, inbox) = (team.clone(), inbox.clone());
        self.run_in(team.clone(), move |files| files.inbox(&team, &inbox)).await
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

    async fn append(
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
            // The handle of the job is dropped, because nobody waits for the job. The receiver
            // `told` gets the result before the job ends. If the job panics, `told` gets an error.
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

    async fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError> {
        let (team, inbox) = (team.clone(), inbox.clone());
        self.run_in(team.clone(), move |files| files.trim_inbox(&team, &inbox, keep)).await
    }
}

#[async_trait]
impl TaskStore for FileBackend {
    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.tasks(&team)).await
    }

    async fn edit_tasks(&self, team: &TeamDir, edit: TaskEdit) -> Result<(), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.edit_tasks(&team, edit)).await
    }
}

#[async_trait]
impl JournalStore for FileBackend {
    async fn record(&self, team: &TeamDir, entries: &[JournalEntry]) -> Result<(), StoreError> {
        let (team, entries) = (team.clone(), entries.to_vec());
        self.run_in(team.clone(), move |files| files.record(&team, &entries)).await
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
        journal: JournalOf<'_>,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let id = id.clone();
        match journal {
            JournalOf::Team(team) => {
                let team = team.clone();
                self.run_in(team.clone(), move |files| files.message_journal(&team, &id)).await
            }
            JournalOf::Archive(archive) => {
                let path = self.files.paths.archived_journal(archive);
                self.run(move |files| journal::about(&files.disk, &path, &id)).await
            }
        }
    }

    async fn journal_summary(&self, team: &TeamDir) -> Result<(JournalSummary, u64), StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.journal_summary(&team)).await
    }
}

#[async_trait]
impl RecordStore for FileBackend {
    async fn document(
        &self,
        team: &TeamDir,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        let team = team.clone();
        self.run_in(team.clone(), move |files| files.document(&team, name)).await
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
        let (team, path, lines) = (team.clone(), self.files.paths.log(team, log), lines.to_vec());
        let force = Force::of(log);
        self.run_in(team.clone(), move |files| {
            files.append_lines(&team, &path, &lines, force).map(|_| ())
        })
        .await
    }

    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError> {
        let (team, path) = (team.clone(), self.files.paths.log(team, log));
        self.run_in(team.clone(), move |files| {
            files.must_exist(&team).and_then(|_| lines::read(&path))
        })
        .await
    }

    async fn log_end(
        &self,
        team: &TeamDir,
        log: &LogName,
        bytes: u64,
    ) -> Result<Vec<String>, StoreError> {
        let (team, path) = (team.clone(), self.files.paths.log(team, log));
        self.run_in(team.clone(), move |files| {
            files.must_exist(&team).and_then(|_| lines::last_lines(&path, bytes))
        })
        .await
    }

    async fn replace_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError> {
        let (team, lines) = (team.clone(), lines.to_vec());
        let (path, kept) = (self.files.paths.log(&team, log), self.files.paths.log(&team, kept_as));
        self.run_in(team.clone(), move |files| {
            files.must_exist(&team)?;
            lines::replace(&files.disk, &path, &lines, &kept)
        })
        .await
    }
}

#[async_trait]
impl LeaseStore for FileBackend {
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
}

#[async_trait]
impl RateStore for FileBackend {
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
}
