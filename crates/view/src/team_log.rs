//! The log of a team: what happened in it, in words and in order. It is computed from the team's
//! journal and mail, so a finished team has the same log as a running one.
//!
//! [`TeamLog`] converts journal entries into [`LogEntry`]s. A caller that follows a running team
//! passes the new journal entries again and again. This module does no I/O.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;

use pitcrew_protocol::{AgentName, Frame, MessageId, Task, TaskId};
use pitcrew_team::store::{Event, JournalEntry};
use pitcrew_team::{Mail, sent_at_ms};

use crate::wording::brief;

mod entry;
mod events;
mod mail;

use entry::cut;
pub use entry::{LogEntry, LogKind};

/// The longest time between the copies of one broadcast, in milliseconds.
const BROADCAST_MS: i64 = 2_000;

/// The largest number of entries between the copies of one broadcast. Other programs can write any
/// number of messages with one time.
const BROADCAST_ENTRIES: usize = 200;

/// Converts journal entries into log entries. It knows the tasks and the mail of the team, and it
/// counts the tokens and the cost of each agent.
#[derive(Clone, Debug, Default)]
pub struct TeamLog {
    subjects: BTreeMap<TaskId, String>,
    /// The copies of one broadcast of another client can have one id in all inboxes.
    mail: HashMap<(AgentName, MessageId), Mail>,
    /// The messages that are in the log.
    told: HashSet<(AgentName, MessageId)>,
    /// The calls for which agents asked, by the agent and the request.
    calls: BTreeMap<(AgentName, String), String>,
    /// What each agent used since it was spawned.
    used: BTreeMap<AgentName, Used>,
    /// What all agents used.
    total: Used,
    runs: u32,
}

/// Tokens and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) tokens: u64,
    /// The cost in US dollars of the model calls with a known price. `None` if no price is known.
    pub(crate) cost_usd: Option<f64>,
}

impl TeamLog {
    /// Stores the subjects of the tasks. Subjects of removed tasks stay known.
    pub fn know_tasks(&mut self, tasks: &[Task]) {
        self.subjects.extend(tasks.iter().map(|task| (task.id.clone(), task.subject.clone())));
    }

    /// Stores the mail of a member, so that the log can show the texts of messages.
    pub fn know_mail(&mut self, to: &AgentName, mail: Vec<Mail>) {
        for mut mail in mail {
            cut(&mut mail.message.text);
            if let Some(Frame::PermissionRequest(it)) = &mail.frame {
                let asked = (AgentName::foreign(&mail.message.from), it.request_id.clone());
                let call = brief(&it.tool_name, it.input.as_ref().unwrap_or_default());
                self.calls.insert(asked, call);
            }
            self.mail.insert((to.clone(), mail.id.clone()), mail);
        }
    }

    /// Returns the subject of a task, if it is known.
    #[must_use]
    pub fn subject(&self, task: &TaskId) -> Option<&str> {
        self.subjects.get(task).map(String::as_str)
    }

    /// Forgets the journal, so that the caller can pass it from its beginning. The mail and the
    /// subjects of the tasks stay known.
    pub fn begin_again(&mut self) {
        let Self { subjects, mail, calls, .. } = mem::take(self);
        *self = Self { subjects, mail, calls, ..Self::default() };
    }

    /// Returns the members that got messages in these entries whose texts are not known yet. The
    /// caller reads their mail and calls [`TeamLog::know_mail`] before [`TeamLog::entries`].
    #[must_use]
    pub fn lacks_mail_of(&self, journal: &[JournalEntry]) -> Vec<AgentName> {
        let mut names = Vec::new();
        for entry in journal {
            if let Event::MessagePersisted { id, to, .. } = &entry.event
                && !self.mail.contains_key(&(to.clone(), id.clone()))
                && !names.contains(to)
            {
                names.push(to.clone());
            }
        }
        names
    }

    /// Returns the log entries for the next entries of the journal, in order. The copies of one
    /// broadcast are one entry with several receivers.
    pub fn entries(&mut self, journal: &[JournalEntry]) -> Vec<LogEntry> {
        let mut entries = Vec::new();
        self.add_entries(&mut entries, journal);
        entries
    }

    /// Adds the log entries for the next entries of the journal to those of the entries before. A copy
    /// of a broadcast is added to the entry of the broadcast.
    pub fn add_entries(&mut self, entries: &mut Vec<LogEntry>, journal: &[JournalEntry]) {
        for entry in journal {
            if let Some(entry) = self.entry(entry) {
                add(entries, entry);
            }
        }
    }

    /// Returns log entries for the known messages that the journal lacks, because another program
    /// sent them. Call this function after the journal was passed to [`TeamLog::entries`]. Each
    /// message is returned once.
    pub fn unrecorded_mail(&mut self) -> Vec<LogEntry> {
        let entries = self.foreign_mail();
        let told: Vec<_> = self.untold().map(|(key, _)| key.clone()).collect();
        self.told.extend(told);
        entries
    }

    /// Returns the same entries as [`TeamLog::unrecorded_mail`], and returns them again the next time.
    /// The journal can still get a message after its inbox.
    #[must_use]
    pub fn foreign_mail(&self) -> Vec<LogEntry> {
        let mut mail: Vec<(&(AgentName, MessageId), &Mail)> = self.untold().collect();
        mail.sort_by_cached_key(|((to, id), mail)| (sent_at_ms(mail), id.0.clone(), to.clone()));
        let mut entries = Vec::new();
        for ((to, _), mail) in mail {
            add(&mut entries, self.sent_by_others(to, mail));
        }
        entries
    }

    fn untold(&self) -> impl Iterator<Item = (&(AgentName, MessageId), &Mail)> {
        self.mail.iter().filter(|(key, _)| !self.told.contains(key))
    }
}

/// Merges two lists of entries in the order of their times. Entries of one time keep their order.
#[must_use]
pub fn merged(mut one: Vec<LogEntry>, other: Vec<LogEntry>) -> Vec<LogEntry> {
    one.extend(other);
    one.sort_by_key(|entry| entry.at_ms);
    one
}

/// Adds an entry to the log. A copy of a broadcast is added to the entry of the broadcast.
fn add(entries: &mut Vec<LogEntry>, entry: LogEntry) {
    let is_copy = |earlier: &&mut LogEntry| earlier.is_broadcast_of(&entry);
    let recent = entries.iter_mut().rev().take(BROADCAST_ENTRIES);
    let mut recent = recent.take_while(|earlier| earlier.at_ms + BROADCAST_MS >= entry.at_ms);
    match recent.find(is_copy) {
        Some(broadcast) => broadcast.add_receivers(entry.to),
        None => entries.push(entry),
    }
}
