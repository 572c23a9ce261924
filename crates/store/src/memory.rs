//! A store that keeps teams in memory, for tests, simulations and dry runs. It gives the same
//! guarantees as the file store, except that the teams are lost when the process ends.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use pitcrew_protocol::{
    InboxFile, Message, MessageId, Rate, Task, TeamConfig, TeamDir, message_ids,
};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::journal::is_on_way_of;
use crate::{
    Appended, ArchiveName, ArchivedLogs, Backend, Change, DocumentEdit, JournalEntry, JournalOf,
    JournalStore, JournalSummary, Lease, LeaseHolder, LeaseName, LeaseStore, LogName, MailStore,
    NewTeam, Past, RateScope, RateStore, RecordStore, Slot, StoreError, StoredMessage, TaskEdit,
    TaskStore, TaskTable, TeamEdit, TeamStore, UnreadLimit, Watch, dialect, table,
};

mod archive;

/// Number of changes that can wait for a watcher. If a watcher falls further behind, it must read
/// everything again. A busy team makes some hundreds of changes per second.
const WATCH_BOUND: usize = 1024;

/// A [`Backend`] in memory. All clones of a store have the same teams.
#[derive(Clone, Debug, Default)]
pub struct MemoryBackend {
    shelf: Arc<Mutex<Shelf>>,
}

#[derive(Debug, Default)]
struct Shelf {
    teams: BTreeMap<TeamDir, Team>,
    slots: HashMap<RateScope, VecDeque<i64>>,
    archived: BTreeMap<ArchiveName, Team>,
    /// How many teams were archived so far.
    archivings: usize,
}

#[derive(Debug)]
struct Team {
    config: TeamConfig,
    inboxes: HashMap<InboxFile, Vec<Message>>,
    /// Messages that have left their inbox.
    past_mail: HashMap<InboxFile, Vec<Message>>,
    tasks: TaskTable,
    listed: Option<Arc<[Task]>>,
    journal: Vec<JournalEntry>,
    documents: HashMap<&'static str, Value>,
    logs: HashMap<LogName, Vec<String>>,
    holders: HashMap<LeaseName, LeaseHolder>,
    last_holders: HashMap<LeaseName, LeaseHolder>,
    changes: broadcast::Sender<Change>,
}

impl MemoryBackend {
    /// Creates a store without teams.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        dir: &TeamDir,
        act: impl FnOnce(&mut Team) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut shelf = self.shelf();
        let team =
            shelf.teams.get_mut(dir).ok_or_else(|| StoreError::NoTeam { team: dir.clone() })?;
        act(team)
    }
}

impl Team {
    fn new(config: TeamConfig) -> Self {
        let (changes, _) = broadcast::channel(WATCH_BOUND);
        Self {
            config,
            inboxes: HashMap::new(),
            past_mail: HashMap::new(),
            tasks: TaskTable { tasks: BTreeMap::new(), next_id: 1 },
            listed: None,
            journal: Vec::new(),
            documents: HashMap::new(),
            logs: HashMap::new(),
            holders: HashMap::new(),
            last_holders: HashMap::new(),
            changes,
        }
    }

    /// Sends a change to the team's watchers. If there are no watchers, this does nothing.
    fn tell(&self, change: Change) {
        let _watchers = self.changes.send(change);
    }

    fn append(
        &mut self,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError> {
        let id = dialect::id_of(&message)?;
        let session = self.config.is_session_dialect();
        let messages = self.inboxes.entry(inbox.clone()).or_default();
        if messages.iter().any(|m| m.id().as_ref() == Some(&id)) {
            return Ok(Appended::AlreadyThere);
        }
        let unread = messages.iter().filter(|m| !m.is_read()).map(|m| m.from.as_str());
        if let Some(full) = limit.reached(&message.from, unread) {
            return Ok(full);
        }
        messages.push(if session { dialect::in_session_form(message) } else { message });
        self.tell(Change::Inbox(inbox.clone()));
        Ok(Appended::New)
    }

    fn acknowledge(&mut self, inbox: &InboxFile, ids: &[MessageId]) -> Vec<MessageId> {
        let Some(messages) = self.inboxes.get_mut(inbox) else { return Vec::new() };
        let there = message_ids(messages.iter());
        let is_due = |(message, id): (&Message, &MessageId)| !message.is_read() && ids.contains(id);
        let due: Vec<bool> = messages.iter().zip(&there).map(is_due).collect();
        let marked: Vec<MessageId> =
            there.into_iter().zip(&due).filter(|(_, is_due)| **is_due).map(|(id, _)| id).collect();
        let mut due = due.into_iter();
        if self.config.is_session_dialect() {
            let past = self.past_mail.entry(inbox.clone()).or_default();
            past.extend(messages.extract_if(.., |_| due.next() == Some(true)));
        } else {
            for message in messages.iter_mut().filter(|_| due.next() == Some(true)) {
                message.read = Some(true);
            }
        }
        if !marked.is_empty() {
            self.tell(Change::Inbox(inbox.clone()));
        }
        marked
    }
}

impl Backend for MemoryBackend {}

#[async_trait]
impl TeamStore for MemoryBackend {
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError> {
        Ok(self.shelf().teams.keys().cloned().collect())
    }

    async fn create_team(&self, config: &TeamConfig, new: &NewTeam) -> Result<(), StoreError> {
        let dir = config.name.dir();
        let mut shelf = self.shelf();
        if let Some(taken) = shelf.teams.get(&dir) {
            return Err(StoreError::TeamTaken { team: dir, name: taken.config.name.to_string() });
        }
        let mut team = Team::new(config.clone());
        team.documents = new.documents.iter().cloned().collect();
        if let Some(ArchivedLogs { archive, logs }) = &new.logs {
            let no_team = || StoreError::NoTeam { team: TeamDir::of(&archive.0) };
            let kept = &shelf.archived.get(archive).ok_or_else(no_team)?.logs;
            let found = |log: &LogName| Some((log.clone(), kept.get(log)?.clone()));
            team.logs = logs.iter().filter_map(found).collect();
        }
        shelf.teams.insert(dir, team);
        Ok(())
    }

    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        self.with(team, |t| Ok(Arc::new(t.config.clone())))
    }

    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError> {
        self.with(team, |t| {
            let mut config = t.config.clone();
            edit(&mut config)?;
            if config != t.config {
                t.config = config;
                t.tell(Change::Config);
            }
            Ok(t.config.clone())
        })
    }

    async fn archive_team(&self, team: &TeamDir) -> Result<ArchiveName, StoreError> {
        let mut shelf = self.shelf();
        let gone =
            shelf.teams.remove(team).ok_or_else(|| StoreError::NoTeam { team: team.clone() })?;
        gone.tell(Change::Gone);
        shelf.archivings += 1;
        let name = ArchiveName(format!("{team}-{:06}", shelf.archivings));
        shelf.archived.insert(name.clone(), gone);
        Ok(name)
    }

    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError> {
        let gone = self
            .shelf()
            .teams
            .remove(team)
            .ok_or_else(|| StoreError::NoTeam { team: team.clone() })?;
        gone.tell(Change::Gone);
        Ok(())
    }

    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError> {
        let changes = self.with(team, |t| Ok(t.changes.subscribe()))?;
        let told = stream::unfold(Some(changes), |changes| async {
            let mut changes = changes?;
            match changes.recv().await {
                Ok(Change::Gone) => Some((Change::Gone, None)),
                Ok(change) => Some((change, Some(changes))),
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    Some((Change::Unsure, Some(changes)))
                }
                Err(broadcast::error::RecvError::Closed) => None,
            }
        });
        Ok(told.boxed())
    }
}

#[async_trait]
impl MailStore for MemoryBackend {
    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        self.with(team, |t| Ok(t.inboxes.get(inbox).map(|it| with_ids(it)).unwrap_or_default()))
    }

    async fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        _all: Past,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        self.with(team, |t| Ok(t.past_mail.get(inbox).map(|it| with_ids(it)).unwrap_or_default()))
    }

    async fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError> {
        self.with(team, |t| t.append(inbox, message, limit))
    }

    async fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError> {
        self.with(team, |t| Ok(t.acknowledge(inbox, ids)))
    }

    async fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError> {
        self.with(team, |t| {
            let Some(messages) = t.inboxes.get_mut(inbox) else { return Ok(0) };
            let mut surplus = messages.iter().filter(|m| m.is_read()).count().saturating_sub(keep);
            let trimmed = surplus;
            let gone = messages.extract_if(.., |m| {
                let goes = surplus > 0 && m.is_read();
                surplus -= usize::from(goes);
                goes
            });
            t.past_mail.entry(inbox.clone()).or_default().extend(gone);
            Ok(trimmed)
        })
    }
}

#[async_trait]
impl TaskStore for MemoryBackend {
    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError> {
        self.with(team, |t| {
            let listed = t.listed.get_or_insert_with(|| t.tasks.tasks.values().cloned().collect());
            Ok(Arc::clone(listed))
        })
    }

    async fn edit_tasks(&self, team: &TeamDir, mut edit: TaskEdit) -> Result<(), StoreError> {
        self.with(team, |t| {
            let mut edited = t.tasks.clone();
            edit(&mut edited)?;
            table::settle(&t.tasks, &mut edited)?;
            if edited != t.tasks {
                t.tasks = edited;
                t.listed = None;
                t.tell(Change::Tasks);
            }
            Ok(())
        })
    }
}

#[async_trait]
impl JournalStore for MemoryBackend {
    async fn record(&self, team: &TeamDir, entries: &[JournalEntry]) -> Result<(), StoreError> {
        self.with(team, |t| {
            t.journal.extend_from_slice(entries);
            if !entries.is_empty() {
                t.tell(Change::Journal);
            }
            Ok(())
        })
    }

    async fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError> {
        self.with(team, |t| {
            let from = usize::try_from(position).unwrap_or(usize::MAX).min(t.journal.len());
            let entries = t.journal.get(from..).unwrap_or_default().to_vec();
            Ok((entries, u64::try_from(t.journal.len()).unwrap_or(u64::MAX)))
        })
    }

    async fn message_journal(
        &self,
        journal: JournalOf<'_>,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let mut entries = match journal {
            JournalOf::Team(team) => self.with(team, |t| Ok(t.journal.clone()))?,
            JournalOf::Archive(archive) => {
                let kept = self.shelf().archived.get(archive).map(|team| team.journal.clone());
                kept.unwrap_or_default()
            }
        };
        entries.retain(|entry| is_on_way_of(id, &entry.event));
        Ok(entries)
    }

    async fn journal_summary(&self, team: &TeamDir) -> Result<(JournalSummary, u64), StoreError> {
        let (entries, end) = self.journal_since(team, 0).await?;
        Ok((JournalSummary::of(entries), end))
    }
}

#[async_trait]
impl RecordStore for MemoryBackend {
    async fn document(
        &self,
        team: &TeamDir,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        self.with(team, |t| Ok(t.documents.get(name).cloned()))
    }

    async fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        mut edit: DocumentEdit,
    ) -> Result<(), StoreError> {
        self.with(team, |t| {
            let mut document = t.documents.get(name).cloned();
            edit(&mut document)?;
            match document {
                Some(document) => t.documents.insert(name, document),
                None => t.documents.remove(name),
            };
            Ok(())
        })
    }

    async fn append_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        self.with(team, |t| {
            t.logs.entry(log.clone()).or_default().extend_from_slice(lines);
            Ok(())
        })
    }

    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError> {
        self.with(team, |t| Ok(t.logs.get(log).cloned().unwrap_or_default()))
    }

    async fn log_end(
        &self,
        team: &TeamDir,
        log: &LogName,
        bytes: u64,
    ) -> Result<Vec<String>, StoreError> {
        let mut lines = self.log(team, log).await?;
        let mut room = usize::try_from(bytes).unwrap_or(usize::MAX);
        let fits = |line: &&String| {
            let left = room.checked_sub(line.len() + 1);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let kept = lines.iter().rev().take_while(fits).count();
        Ok(lines.split_off(lines.len() - kept))
    }

    async fn replace_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError> {
        self.with(team, |t| {
            let before = t.logs.insert(log.clone(), lines.to_vec()).unwrap_or_default();
            t.logs.insert(kept_as.clone(), before);
            Ok(())
        })
    }
}

#[async_trait]
impl LeaseStore for MemoryBackend {
    async fn take_lease(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<Result<Lease, LeaseHolder>, StoreError> {
        self.with(team, |t| {
            if let Some(other) = t.holders.get(lease) {
                return Ok(Err(other.clone()));
            }
            t.holders.insert(lease.clone(), holder.clone());
            t.last_holders.insert(lease.clone(), holder.clone());
            t.tell(Change::Lease(lease.clone()));
            let release =
                Release { backend: self.clone(), team: team.clone(), lease: lease.clone() };
            Ok(Ok(Lease(Box::new(release))))
        })
    }

    async fn name_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<(), StoreError> {
        self.with(team, |t| {
            let Some(held) = t.holders.get_mut(lease) else {
                return Err(StoreError::NotHeld { lease: lease.clone() });
            };
            held.clone_from(holder);
            t.last_holders.insert(lease.clone(), holder.clone());
            t.tell(Change::Lease(lease.clone()));
            Ok(())
        })
    }

    async fn lease_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        self.with(team, |t| Ok(t.holders.get(lease).cloned()))
    }

    async fn last_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        self.with(team, |t| Ok(t.last_holders.get(lease).cloned()))
    }
}

#[async_trait]
impl RateStore for MemoryBackend {
    async fn take_slot(
        &self,
        scope: &RateScope,
        rate: Rate,
        now_ms: i64,
    ) -> Result<Slot, StoreError> {
        let mut shelf = self.shelf();
        let taken = shelf.slots.entry(scope.clone()).or_default();
        let window_ms = i64::from(rate.seconds) * 1000;
        while taken.front().is_some_and(|at| *at <= now_ms - window_ms) {
            taken.pop_front();
        }
        let count = usize::try_from(rate.count).unwrap_or(usize::MAX);
        if taken.len() < count {
            taken.push_back(now_ms);
            return Ok(Slot::Taken);
        }
        // `taken` can have more elements than `count`, because the allowed rate may have become
        // lower. The caller can take a slot when fewer than `count` elements are left in the
        // window. Therefore the wait is computed from the element at position `count`, counted from
        // the newest.
        let oldest = count.checked_sub(1).and_then(|back| taken.iter().rev().nth(back)).copied();
        let wait_ms = oldest.map_or(window_ms, |at| at + window_ms - now_ms);
        Ok(Slot::Full { retry_after: Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0)) })
    }
}

/// Adds the id of each message.
fn with_ids(messages: &[Message]) -> Vec<StoredMessage> {
    let ids = message_ids(messages);
    let stored = |(message, id)| StoredMessage { id, message };
    messages.iter().cloned().zip(ids).map(stored).collect()
}

struct Release {
    backend: MemoryBackend,
    team: TeamDir,
    lease: LeaseName,
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(team) = self.backend.shelf().teams.get_mut(&self.team) {
            team.holders.remove(&self.lease);
            team.tell(Change::Lease(self.lease.clone()));
        }
    }
}
