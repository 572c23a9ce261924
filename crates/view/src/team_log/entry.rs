//! One entry of a team's log.

use std::fmt;

use pitcrew_protocol::TaskId;
use serde::{Deserialize, Serialize};

use super::Used;
use crate::text::{first_line, in_one_line};

/// Maximum number of characters of a message or a reason in the text of an entry.
const SAID_CHARS: usize = 160;

/// The maximum number of bytes of a text that an entry has. Any program of the user can write a longer
/// one into an inbox.
const CONTENT_BYTES: usize = 256 * 1024;

/// Cuts a text that is too long, and says how much is left out.
pub(super) fn cut(text: &mut String) {
    let left_out = text.len() - text.floor_char_boundary(CONTENT_BYTES);
    if left_out > 0 {
        text.truncate(text.len() - left_out);
        text.shrink_to_fit();
        text.push_str(&format!("… ({left_out} more bytes)"));
    }
}

/// The subject of a log entry. Users filter a log by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// The team and its runs.
    Run,
    /// Members that join, change, end and leave.
    Member,
    /// Members that begin a turn or rest.
    State,
    /// Messages.
    Mail,
    /// The ways of messages, and frames that other entries already tell.
    Delivery,
    /// Tasks.
    Task,
    /// Plans and their answers.
    Plan,
    /// Permission requests and their answers.
    Permission,
    /// Model calls.
    Turn,
}

impl LogKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Run,
        Self::Member,
        Self::State,
        Self::Mail,
        Self::Delivery,
        Self::Task,
        Self::Plan,
        Self::Permission,
        Self::Turn,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Member => "member",
            Self::State => "state",
            Self::Mail => "mail",
            Self::Delivery => "delivery",
            Self::Task => "task",
            Self::Plan => "plan",
            Self::Permission => "permission",
            Self::Turn => "turn",
        }
    }

    /// Whether the entries of this kind are details that a person reads only on request.
    #[must_use]
    pub fn is_detail(self) -> bool {
        match self {
            Self::State | Self::Delivery | Self::Turn => true,
            Self::Run | Self::Member | Self::Mail | Self::Task | Self::Plan | Self::Permission => {
                false
            }
        }
    }
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that happened in a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The subject.
    pub kind: LogKind,
    /// The event as a word for programs, such as `spawned` or `message`.
    pub event: String,
    /// The agent or person that did it, or that it happened to. `None` if it concerns the team.
    pub agent: Option<String>,
    /// The other agents that it concerns, such as the receivers of a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// The entry in words, without the time and the agent. It is one line, safe for a terminal.
    pub text: String,
    /// The whole text that came with it, such as the message, the plan or the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The task that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The tokens: of the model call, of the ended agent since its spawn, or of the ended run's
    /// whole team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost in US dollars, of the same as `tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl LogEntry {
    /// Creates an entry. `text` can contain text from outside.
    pub(super) fn new(at_ms: i64, kind: LogKind, event: &str, text: &str) -> Self {
        Self {
            at_ms,
            kind,
            event: event.to_owned(),
            agent: None,
            to: Vec::new(),
            text: in_one_line(text),
            content: None,
            task: None,
            tokens: None,
            cost_usd: None,
        }
    }

    /// Creates an entry about a file of the team that cannot be read. It has no time.
    #[must_use]
    pub fn unread(text: &str) -> Self {
        Self::new(0, LogKind::Run, UNREAD, text)
    }

    /// Whether this entry is about a file of the team that cannot be read.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.event == UNREAD
    }

    pub(super) fn by(self, agent: impl fmt::Display) -> Self {
        Self { agent: Some(agent.to_string()), ..self }
    }

    pub(super) fn to(self, agent: impl fmt::Display) -> Self {
        Self { to: vec![agent.to_string()], ..self }
    }

    pub(super) fn with_task(self, task: TaskId) -> Self {
        Self { task: Some(task), ..self }
    }

    pub(super) fn using(self, used: Used) -> Self {
        Self { tokens: Some(used.tokens), cost_usd: used.cost_usd, ..self }
    }

    /// Adds a text from outside. Its first line is added to the words of the entry.
    pub(super) fn saying(self, content: Option<&str>) -> Self {
        let Some(content) = content.filter(|content| !content.trim().is_empty()) else {
            return self;
        };
        let text = format!("{}: {}", self.text, first_line(content.trim(), SAID_CHARS));
        let mut content = content.to_owned();
        cut(&mut content);
        Self { text, content: Some(content), ..self }
    }

    /// Whether `agent` did this, or it concerns `agent`.
    #[must_use]
    pub fn concerns(&self, agent: &str) -> bool {
        self.agent.as_deref() == Some(agent) || self.to.iter().any(|name| name == agent)
    }

    /// Returns the number of bytes of the texts.
    pub(crate) fn size(&self) -> usize {
        let optional = [&self.agent, &self.content].into_iter().flatten().map(String::len);
        let names = self.to.iter().map(String::len);
        self.event.len() + self.text.len() + optional.chain(names).sum::<usize>()
    }

    /// Whether `copy` is the same message to another receiver.
    pub(super) fn is_broadcast_of(&self, copy: &Self) -> bool {
        self.event == MESSAGE
            && copy.event == MESSAGE
            && self.agent == copy.agent
            && self.content.is_some()
            && self.content == copy.content
            && copy.to.iter().all(|name| !self.to.contains(name))
    }

    /// Adds receivers to a message.
    pub(super) fn add_receivers(&mut self, to: Vec<String>) {
        self.to.extend(to);
        self.text = in_one_line(&format!("writes to {}", self.to.join(", ")));
        *self = Self { content: None, ..self.clone() }.saying(self.content.as_deref());
    }
}

/// The event of an entry about a file that cannot be read.
const UNREAD: &str = "unread";

/// The event of a text message.
pub(super) const MESSAGE: &str = "message";
