//! The timeline of a team: the mail, the tasks and the agents' starts and ends, in the order in
//! which they happened. A timeline is bounded. Its oldest entries leave it first.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use pitcrew_protocol::{AgentName, Color, TaskId};
use serde::{Deserialize, Serialize};

use crate::team_log::LogEntry;
use crate::text::in_one_line;

/// Maximum length of a text in an entry, in bytes.
const TEXT_BYTES_MOST: usize = 16 << 10;

/// The number of bytes that an entry counts for beside its texts.
const ENTRY_BYTES: usize = 200;

/// Returns a text, shortened to [`TEXT_BYTES_MOST`].
pub(crate) fn bounded(text: Cow<'_, str>) -> String {
    bounded_to(text, TEXT_BYTES_MOST)
}

/// Returns a text, shortened to `most` bytes.
pub(crate) fn bounded_to(text: Cow<'_, str>, most: usize) -> String {
    if text.len() <= most {
        return text.into_owned();
    }
    let (kept, _) = text.split_at(text.floor_char_boundary(most - '…'.len_utf8()));
    format!("{kept}…")
}

/// The latest entries of a timeline, up to [`Timeline::ENTRIES_MOST`] and [`Timeline::BYTES_MOST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    entries: VecDeque<TimelineEntry>,
    bytes: usize,
    left: u64,
}

/// Something that happened in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineEntry {
    /// The number of the line in the stream that told it, from 1 up. For an entry of a team's log,
    /// its number in the log.
    pub line: u64,
    /// What happened.
    pub what: Happened,
}

/// What happened in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "happened", rename_all = "snake_case")]
pub enum Happened {
    /// A team was created.
    TeamCreated {
        /// The name of the team.
        team: String,
    },
    /// A teammate was started.
    Spawned {
        /// The teammate.
        agent: AgentName,
        /// The teammate's color.
        color: Option<Color>,
        /// The agent definition that the teammate runs.
        agent_type: Option<String>,
        /// The teammate's model.
        model: Option<String>,
    },
    /// An agent wrote a text.
    Said {
        /// The agent.
        agent: AgentName,
        /// The text.
        text: String,
    },
    /// A message was sent.
    Mail(Mail),
    /// A task was created or changed.
    Task {
        /// The id of the task.
        id: TaskId,
        /// The agent that created or changed the task.
        by: AgentName,
        /// The change in words.
        change: String,
    },
    /// The team was cleaned up.
    CleanedUp,
    /// The team was not cleaned up.
    CleanupFailed {
        /// The reason.
        reason: String,
    },
    /// A run of the lead ended.
    SessionEnded {
        /// The outcome: `success`, or the kind of failure.
        outcome: String,
    },
    /// An entry of the log of a team of pitcrew.
    Logged(Box<LogEntry>),
}

/// A message between agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The name of the sender. It is a claim of the message, not always the name of an agent.
    pub from: String,
    /// The receivers.
    pub to: Route,
    /// The kind of the message, such as `message`, `broadcast` or `shutdown_request`.
    pub kind: String,
    /// A short preview of the message.
    pub summary: Option<String>,
    /// The text of the message.
    pub text: String,
}

/// The receivers of a message. A user interface shows the message at the card of the agent, or in
/// the team's banner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// One agent.
    Agent(AgentName),
    /// The whole team, as these agents.
    Team(Vec<AgentName>),
}

impl fmt::Display for Route {
    /// Writes `@name` or `@team`, as in the stream.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "@{name}"),
            Self::Team(_) => f.write_str("@team"),
        }
    }
}

impl Timeline {
    /// Maximum number of entries.
    pub const ENTRIES_MOST: usize = 100_000;
    /// Maximum size of the entries, in bytes.
    pub const BYTES_MOST: usize = 32 << 20;

    /// Returns the entries, the oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &TimelineEntry> + ExactSizeIterator {
        self.entries.iter()
    }

    /// Returns the number of older entries that have left the timeline.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns the number of entries so far, with those that have left the timeline.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.left + self.entries.len() as u64
    }

    /// Returns the entries after the first `count` ones, as far as they are still there.
    pub fn since(&self, count: u64) -> impl Iterator<Item = &TimelineEntry> {
        let seen = usize::try_from(count.saturating_sub(self.left)).unwrap_or(usize::MAX);
        self.entries.iter().skip(seen)
    }

    /// Adds an entry at the end. The oldest entries leave if there is no room.
    pub fn push(&mut self, entry: TimelineEntry) {
        self.bytes += entry.size();
        self.entries.push_back(entry);
        while self.entries.len() > Self::ENTRIES_MOST || self.bytes > Self::BYTES_MOST {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.size());
            self.left += 1;
        }
    }
}

impl TimelineEntry {
    /// Returns the agent whose card shows the entry. `None` means that the entry concerns the team.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentName> {
        match &self.what {
            Happened::Spawned { agent, .. }
            | Happened::Said { agent, .. }
            | Happened::Mail(Mail { to: Route::Agent(agent), .. })
            | Happened::Task { by: agent, .. } => Some(agent),
            Happened::Mail(Mail { to: Route::Team(_), .. })
            | Happened::TeamCreated { .. }
            | Happened::CleanedUp
            | Happened::CleanupFailed { .. }
            | Happened::SessionEnded { .. }
            // The log names agents that are no members too, such as a person.
            | Happened::Logged(_) => None,
        }
    }

    /// Returns the entry as one line of text that is safe for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        in_one_line(&match &self.what {
            Happened::TeamCreated { team } => format!("team {team} created"),
            Happened::Spawned { agent, color, agent_type, model } => {
                let color = color.map(Color::as_str);
                let known = [agent_type.as_deref(), model.as_deref(), color];
                let known: Vec<&str> = known.into_iter().flatten().collect();
                format!("{agent} started ({})", known.join(", "))
            }
            Happened::Said { agent, text } => format!("{agent}: {text}"),
            Happened::Mail(mail) => mail.in_words(),
            Happened::Task { id, by, change } => format!("{by}: task #{id} {change}"),
            Happened::CleanedUp => "team cleaned up".to_owned(),
            Happened::CleanupFailed { reason } => format!("team not cleaned up: {reason}"),
            Happened::SessionEnded { outcome } => format!("session ended: {outcome}"),
            Happened::Logged(entry) => match &entry.agent {
                Some(agent) => format!("{agent} {}", entry.text),
                None => entry.text.clone(),
            },
        })
    }

    fn size(&self) -> usize {
        ENTRY_BYTES
            + match &self.what {
                Happened::TeamCreated { team: text }
                | Happened::Said { text, .. }
                | Happened::Task { change: text, .. }
                | Happened::CleanupFailed { reason: text }
                | Happened::SessionEnded { outcome: text } => text.len(),
                Happened::Spawned { agent_type, model, .. } => {
                    [agent_type, model].into_iter().flatten().map(String::len).sum()
                }
                Happened::Mail(mail) => mail.size(),
                Happened::CleanedUp => 0,
                Happened::Logged(entry) => entry.size(),
            }
    }
}

impl Mail {
    pub(crate) fn in_words(&self) -> String {
        let said = self.summary.as_ref().unwrap_or(&self.text);
        let to = match &self.to {
            Route::Agent(_) => self.to.to_string(),
            Route::Team(names) => {
                let names: Vec<&str> = names.iter().map(AgentName::as_str).collect();
                format!("{} ({})", self.to, names.join(", "))
            }
        };
        let kind = match self.kind.as_str() {
            "message" | "broadcast" => String::new(),
            kind => format!(", {}", kind.replace('_', " ")),
        };
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        format!("{} to {to}{kind}{said}", self.from)
    }

    fn size(&self) -> usize {
        let names = match &self.to {
            Route::Agent(name) => name.as_str().len(),
            Route::Team(names) => names.iter().map(|name| name.as_str().len() + ENTRY_BYTES).sum(),
        };
        let summary = self.summary.as_ref().map_or(0, String::len);
        names + summary + self.from.len() + self.kind.len() + self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: u64, bytes: usize) -> TimelineEntry {
        TimelineEntry {
            line,
            what: Happened::Said { agent: AgentName::lead(), text: "x".repeat(bytes) },
        }
    }

    #[test]
    fn a_timeline_keeps_the_latest_entries_up_to_its_number() {
        let mut timeline = Timeline::default();
        for line in 0..=Timeline::ENTRIES_MOST as u64 {
            timeline.push(said(line, 1));
        }
        assert_eq!(timeline.entries().len(), Timeline::ENTRIES_MOST);
        assert_eq!((timeline.left(), timeline.entries().next().unwrap().line), (1, 1));
    }

    #[test]
    fn a_timeline_keeps_the_latest_entries_up_to_its_size() {
        let mut timeline = Timeline::default();
        let fit = Timeline::BYTES_MOST / (TEXT_BYTES_MOST + ENTRY_BYTES);
        for line in 0..fit as u64 + 5 {
            timeline.push(said(line, TEXT_BYTES_MOST));
        }
        assert_eq!((timeline.entries().len(), timeline.left()), (fit, 5));
    }
}
