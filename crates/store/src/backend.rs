//! The one trait behind which teams are kept, with the guarantees every medium gives.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use pitcrew_protocol::{
    AgentName, ApiError, InboxFile, Message, MessageId, ProcessRef, Rate, Task, TaskId, TeamConfig,
    TeamDir,
};
use serde::{Deserialize, Serialize};

use crate::{JournalEntry, JournalSummary, Overwritten, StoreError};

/// A change to a team's config. It may be applied more than once, to newer states, and so must be idempotent and pure.
pub type TeamEdit = Arc<dyn Fn(&mut TeamConfig) -> Result<(), ApiError> + Send + Sync>;

/// A change to a team's tasks. It may be made more than once, each time on a newer table; only the last time counts, and
/// nothing changed between its table and its coming into force.
pub type TaskEdit = Box<dyn FnMut(&mut TaskTable) -> Result<(), ApiError> + Send>;

/// A change to one of our own documents; `None` is a document that is not there.
pub type DocumentEdit =
    Box<dyn FnMut(&mut Option<serde_json::Value>) -> Result<(), ApiError> + Send>;

/// What changed in a team, as its watcher is told.
pub type Watch = BoxStream<'static, Change>;

/// Where teams are kept.
///
/// Every method may be called from any number of processes at once. A method that returned `Ok` has made its change
/// durable (as far as the store's durability setting goes); one that returned `Err` has changed nothing.
#[async_trait]
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// The folders of all teams, sorted. Something among them that is no folder of a team is listed too; [`Backend::team`]
    /// says what is wrong with it.
    async fn teams(&self) -> Result<Vec<TeamDir>, StoreError>;

    /// Makes a team. Of several callers with names that fall on one folder, one wins; the others get
    /// [`StoreError::TeamTaken`]. A crash leaves either the whole team or none.
    async fn create_team(&self, config: &TeamConfig) -> Result<(), StoreError>;

    /// As [`Backend::create_team`], of a team that has logs of an archived one from its first moment on; those that the archive
    /// does not have it begins without. [`StoreError::NoTeam`] when there is no such archive.
    async fn create_team_with_logs(
        &self,
        config: &TeamConfig,
        archive: &ArchiveName,
        logs: &[LogName],
    ) -> Result<(), StoreError>;

    /// The team's config; shared, since every step of every agent looks at it.
    async fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError>;

    /// Reads, changes and writes the config, keeping foreign fields. An update lost to a writer that holds no lock is
    /// noticed and applied again.
    async fn edit_team(&self, team: &TeamDir, edit: TeamEdit) -> Result<TeamConfig, StoreError>;

    /// Moves the team's journal, transcripts and unread mail to the archive and removes the team; says where the archive is.
    /// A crash in the middle leaves a team, or the rest of one, that a second call removes.
    async fn archive_team(&self, team: &TeamDir) -> Result<PathBuf, StoreError>;

    /// Removes a team in which nothing happened, as if it had never been made.
    async fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError>;

    /// The archives of teams that were deleted or came to their end, sorted.
    async fn archives(&self) -> Result<Vec<ArchiveName>, StoreError>;

    /// The entries about one message in the journal of a deleted team, and the deletion; empty when it kept none.
    async fn archived_journal(
        &self,
        archive: &ArchiveName,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError>;

    /// A team of the archive; `None` when there is no such archive.
    async fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError>;

    /// Moves a team of the archive back to its place, with everything it had. Its name must be free: else
    /// [`StoreError::TeamTaken`]; [`StoreError::NoTeam`] when there is no such archive. A crash in the middle leaves the team
    /// in the archive, and a second call moves it back.
    async fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError>;

    /// Removes an archive for good; says whether it was there. A crash leaves it whole, or out of every list.
    async fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError>;

    /// Where people find the team's config.
    fn team_file(&self, team: &TeamDir) -> PathBuf;

    /// The folder of the team that is ours alone, for what is no file of the store, such as a socket; `None` where a team
    /// has no folder.
    fn own_folder(&self, team: &TeamDir) -> Option<PathBuf>;

    /// All messages of an inbox, in order; empty for an inbox not made yet. Entries that are no message are passed over.
    async fn inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Messages that have left an inbox, or may have, in the order in which they left or were written: those that were moved
    /// to the archive, and those that processes of ours wrote lately. Another client takes its mail out and keeps nothing.
    /// What is still in the inbox may be among them. With [`Past::Lately`] the older ones of the archive are left out.
    async fn past_mail(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        past: Past,
    ) -> Result<Vec<StoredMessage>, StoreError>;

    /// Appends one message that carries an id. A second append of the same id changes nothing. Messages of one caller
    /// stand in the order of their calls. Calls that meet at one inbox may share a lock and an fsync. A caller that stops
    /// waiting may still have sent.
    async fn append(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
    ) -> Result<Appended, StoreError> {
        self.append_within(team, inbox, message, UnreadLimit::None).await
    }

    /// As [`Backend::append`], unless the inbox holds too much unread mail for the message; then it stays as it is. A message
    /// that is there already is never too much. Callers that meet at one inbox do not exceed a limit together; other
    /// programs know no limit.
    async fn append_within(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        message: Message,
        limit: UnreadLimit,
    ) -> Result<Appended, StoreError>;

    /// Marks messages as read; ids that are not there, or read already, are passed over. In a team of the session dialect
    /// they are taken out of the inbox, as its clients do. Answers which ones this call marked or took; of two callers one
    /// gets each.
    async fn acknowledge(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        ids: &[MessageId],
    ) -> Result<Vec<MessageId>, StoreError>;

    /// Moves the oldest read messages past `keep` to the archive; only ever called for inboxes of our own members.
    async fn trim_inbox(
        &self,
        team: &TeamDir,
        inbox: &InboxFile,
        keep: usize,
    ) -> Result<usize, StoreError>;

    /// All tasks, by id, the reference client's internal ones included. A dependency is seen from both its ends, even
    /// when a crash left it written on one. While nothing changes, callers share one table.
    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError>;

    /// Changes tasks: see [`TaskTable`]. Ids of removed tasks are never given again. A crash leaves a change of one task,
    /// its dependencies included, made or not made; of changes to several tasks it may leave some.
    async fn edit_tasks(&self, team: &TeamDir, edit: TaskEdit) -> Result<(), StoreError>;

    /// Looks whether other programs have undone what we wrote into the team's files, from a reading before it and without
    /// the lock; puts it back, notes it in the journal and tells. A message is missed only in the inbox of a member that
    /// pitcrew runs, and not in a team of the session dialect: elsewhere it was taken.
    async fn reapply(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError>;

    /// Breaks the locks of a team that nobody holds, and says how many: a process that was killed left them, and of what
    /// nobody writes any more nobody would break them. Of our own processes it is known at once that they are dead; another
    /// client's lock must not have been refreshed for 10 s.
    async fn break_stale_locks(&self, team: &TeamDir) -> Result<usize, StoreError>;

    /// Appends to the journal, in order. Survives `kill -9` at once; a power cut may take the last seconds, since the
    /// journal is evidence and not truth. Entries with a dead message are on disk when it returns: nothing else tells of its
    /// end. All of it is forced to disk when the team is archived.
    async fn record(&self, team: &TeamDir, entries: &[JournalEntry]) -> Result<(), StoreError>;

    /// The journal so far; a torn last line is passed over.
    async fn journal(&self, team: &TeamDir) -> Result<Vec<JournalEntry>, StoreError>;

    /// The journal from a position on, and the position after it, to go on from. Positions are 0 and what a call
    /// answered; `u64::MAX` skips what was, and any other past the end is of a journal that somebody removed: what is there
    /// now is read from its beginning. A torn last line is left for the next call.
    async fn journal_since(
        &self,
        team: &TeamDir,
        position: u64,
    ) -> Result<(Vec<JournalEntry>, u64), StoreError>;

    /// The entries of the journal about one message, and the deletion of the team. A long journal is read from its end, no
    /// further back than the message was sent.
    async fn message_journal(
        &self,
        team: &TeamDir,
        id: &MessageId,
    ) -> Result<Vec<JournalEntry>, StoreError>;

    /// The summary of the journal so far, and the position after it, as of [`Backend::journal_since`]. How long it takes
    /// does not depend on the length of the journal, but for the first time after its files were copied or damaged.
    async fn journal_summary(&self, team: &TeamDir) -> Result<(JournalSummary, u64), StoreError>;

    /// Takes one slot of a rate, counted over all processes.
    async fn take_slot(
        &self,
        scope: &RateScope,
        rate: Rate,
        now_ms: i64,
    ) -> Result<Slot, StoreError>;

    /// Reads, changes and writes one of our own documents of a team (JSON; `None` when it is not there yet).
    async fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        edit: DocumentEdit,
    ) -> Result<(), StoreError>;

    /// Where people find one of our own documents.
    fn document_file(&self, team: &TeamDir, name: &'static str) -> PathBuf;

    /// Appends lines to a log. Those of a transcript are on disk when it returns; an output, which nobody goes on from,
    /// outlives the process and not a power cut.
    async fn append_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError>;

    /// The whole lines of a log; a torn last line is passed over, and cut off by the next append.
    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError>;

    /// Puts lines in the place of a log's, which are kept in the log `kept_as`; that one must be nobody's, and is replaced.
    /// A crash leaves the log as it was, or with the new lines and the old ones kept.
    async fn replace_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError>;

    /// Where people find the log.
    fn log_file(&self, team: &TeamDir, log: &LogName) -> PathBuf;

    /// Takes a lease; it ends with the process. `Err(holder)` inside: somebody has it.
    async fn take_lease(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<Result<Lease, LeaseHolder>, StoreError>;

    /// Says anew who holds a lease, which this backend has taken and which is still held. Watchers are told.
    async fn name_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<(), StoreError>;

    /// Who holds a lease now.
    async fn lease_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError>;

    /// Who took a lease last, whether it still holds it or not.
    async fn last_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError>;

    /// Tells what changes in a team from now on, by whomever it is changed. Several changes of one thing may be told once.
    async fn watch(&self, team: &TeamDir) -> Result<Watch, StoreError>;
}

/// A message with the id it goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    /// The id.
    pub id: MessageId,
    /// The message.
    pub message: Message,
}

/// A team in the archive, as it was at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchivedTeam {
    /// The archive.
    pub name: ArchiveName,
    /// The team's config.
    pub config: TeamConfig,
    /// Its tasks, by id. What cannot be read of them is passed over.
    pub tasks: Vec<Task>,
    /// When it came into the archive, in milliseconds since 1970, as far as that is known.
    pub archived_at_ms: Option<i64>,
    /// Where people find it.
    pub place: PathBuf,
}

/// The archive of a team that was deleted or came to its end, as a backend names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArchiveName(pub(crate) String);

impl ArchiveName {
    /// The archive at the place that [`Backend::archive_team`] answered.
    #[must_use]
    pub fn of_place(place: &Path) -> Option<Self> {
        Some(Self(place.file_name()?.to_str()?.to_owned()))
    }
}

impl std::fmt::Display for ArchiveName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far back mail is looked for that has left its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// As far as a resume needs it: the last 256 KiB of the archive.
    Lately,
    /// All that is kept.
    All,
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The message is there now.
    New,
    /// It was there already.
    AlreadyThere,
    /// It is not there: the inbox holds so many unread messages that count.
    Full {
        /// How many.
        unread: usize,
        /// How many there may be.
        most: usize,
    },
}

/// How many unread messages an inbox may hold, the new one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadLimit {
    /// Any number.
    None,
    /// So many, whoever sent them.
    OfAll(usize),
    /// So many of the new message's sender; those of others do not count.
    OfSender(usize),
}

impl UnreadLimit {
    /// [`Appended::Full`] when there is no room for one more message of `sender`. `unread` are the senders of the unread
    /// messages.
    pub(crate) fn reached<'a>(
        self,
        sender: &str,
        unread: impl Iterator<Item = &'a str>,
    ) -> Option<Appended> {
        let (most, unread) = match self {
            Self::None => return None,
            Self::OfAll(most) => (most, unread.count()),
            Self::OfSender(most) => (most, unread.filter(|from| *from == sender).count()),
        };
        (unread >= most).then_some(Appended::Full { unread, most })
    }

    /// The number.
    pub(crate) fn most(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::OfAll(most) | Self::OfSender(most) => Some(most),
        }
    }
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The config.
    Config,
    /// An inbox.
    Inbox(InboxFile),
    /// Some task.
    Tasks,
    /// The journal: there is more of it.
    Journal,
    /// A lease was taken, or has ended.
    Lease(LeaseName),
    /// The team is gone; the last change told.
    Gone,
    /// Changes may have been missed: look at everything.
    Unsure,
    /// From now on changes are looked for every second, and told as [`Change::Unsure`]: nothing tells them by itself.
    Unwatched {
        /// Why.
        reason: String,
    },
}

/// All tasks of a team while they are edited.
///
/// A dependency may be added at either end; to take one out, take it out at both. What mentions a removed task is
/// mended by the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTable {
    /// The tasks by id. Change, insert (under [`TaskTable::next_id`]) or remove them here.
    pub tasks: BTreeMap<TaskId, Task>,
    /// The id the next new task gets.
    pub next_id: u64,
}

/// One of our own append-only files of a team.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogName {
    /// An agent's conversation, a JSON line a step.
    Transcript(AgentName),
    /// What an agent said and did, for people.
    Output(AgentName),
    /// The conversation an agent had until another one took its place.
    Former {
        /// Whose it was.
        agent: AgentName,
        /// Until when, in milliseconds since 1970.
        until_ms: i64,
    },
}

impl LogName {
    /// Where the log stands below the team's own folder.
    pub(crate) fn relative_path(&self) -> String {
        match self {
            Self::Transcript(agent) => format!("transcripts/{}.ndjson", agent.inbox_file()),
            Self::Output(agent) => format!("output/{}.log", agent.inbox_file()),
            Self::Former { agent, until_ms } => {
                format!("transcripts/{}.until-{until_ms}.ndjson", agent.inbox_file())
            }
        }
    }
}

/// What a rate is counted over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RateScope {
    /// Teams made under the root.
    TeamCreation,
    /// Calls under the root.
    Calls,
    /// Spawns into a team.
    Spawns(TeamDir),
    /// Tasks made in a team.
    TaskCreation(TeamDir),
    /// Broadcasts in a team.
    Broadcasts(TeamDir),
}

/// The answer to [`Backend::take_slot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Slot {
    /// Taken.
    Taken,
    /// None is free for that long.
    Full {
        /// When the next one comes free.
        retry_after: Duration,
    },
}

/// What a process can hold alone for as long as it lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseName {
    /// Running the team.
    Run,
    /// Being the member whose mail is in this inbox, in a process of its own.
    Member(InboxFile),
}

impl std::fmt::Display for LeaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run => f.write_str("the lease of the run"),
            Self::Member(inbox) => write!(f, "the lease of {inbox}"),
        }
    }
}

impl LeaseName {
    /// The lease of a member.
    #[must_use]
    pub fn of_member(name: &AgentName) -> Self {
        Self::Member(name.inbox_file())
    }
}

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    /// Its process id.
    pub pid: u32,
    /// The start of that process in clock ticks since boot, to tell it from a later one with the same id.
    pub start_ticks: u64,
    /// When it took the lease, in milliseconds since 1970.
    pub since_ms: i64,
    /// The public key by which the frames of the team's lead are told from forged ones; absent when it signs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_key: Option<String>,
    /// The holder of the run's lease still writes what is to bound the members: nobody leads them yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepares: bool,
}

impl LeaseHolder {
    /// The process that holds the lease.
    #[must_use]
    pub fn process(&self) -> ProcessRef {
        ProcessRef { pid: self.pid, start_ticks: self.start_ticks }
    }
}

/// A lease; given up when dropped.
pub struct Lease(
    #[expect(dead_code, reason = "held for its drop")]
    pub(crate)  Box<dyn std::any::Any + Send + Sync>,
);

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lease")
    }
}
