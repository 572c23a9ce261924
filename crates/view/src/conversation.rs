//! The conversation of an agent as a person reads it: the prompt, the mail, the texts and tool calls
//! of the model, the results, and the summaries.
//!
//! [`Conversation::of_transcript`] reads the transcript of an agent that pitcrew runs.
//! [`Conversation::of_client`] reads the conversation that another client recorded.
//! [`ClientStream`](crate::client_stream::ClientStream) keeps those that a stream tells.
//! [`Conversation::add_answer`] adds an answer that is not in the transcript yet. Only
//! [`recorded()`] and [`recorded_by_client`] do I/O. The texts are as they were written; a user
//! interface must make them safe to show.

use std::collections::{BTreeMap, HashMap, HashSet};

use pitcrew_agent::transcript::{NewerTranscript, Read, read};
use pitcrew_protocol::{
    AgentName, CallEffect, Frame, Injected, MessageId, Status, ToolTraits, counted, parse_injected,
};
use serde::Serialize;
use serde_json::Value;

use crate::client_stream::size_of;

mod client;
mod events;
mod recorded;
mod steps;

pub use events::follows_written_steps;
pub use recorded::{recorded, recorded_by_client};

/// A conversation as a person reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Conversation {
    /// The parts of the conversation, in order. A result is in the part of its call.
    pub parts: Vec<Part>,
    /// The numbers of the lines that cannot be read, starting at 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread_lines: Vec<usize>,
    /// Whether the lines that were read are only the last ones of the transcript.
    #[serde(skip)]
    pub is_cut: bool,
    /// The number of oldest parts that were removed.
    #[serde(skip)]
    pub(crate) forgotten: usize,
    /// The calls without a result, as indexes into `parts`.
    #[serde(skip)]
    open: HashMap<String, usize>,
    /// The mail that the conversation contains.
    #[serde(skip)]
    delivered: HashSet<MessageId>,
}

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Part {
    /// The text with which the conversation began, or a later instruction of the user.
    Prompt {
        /// The text.
        text: String,
    },
    /// A message of another agent or of the user.
    Mail {
        /// The sender, as the message claims.
        from: String,
        /// The sender's short preview.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// The type of the frame that the message carries. `None` for a text.
        #[serde(skip_serializing_if = "Option::is_none")]
        frame: Option<&'static str>,
        /// The text of the message.
        text: String,
    },
    /// A text of the program that runs the agent, for its model.
    Notice {
        /// The text.
        text: String,
    },
    /// A text of the model.
    Text {
        /// The text.
        text: String,
    },
    /// A thought of the model.
    Thinking {
        /// The text of the thought.
        text: String,
    },
    /// A tool call.
    Call(Call),
    /// A summary that replaced all earlier parts for the model.
    Summary {
        /// The summary in the model's own words.
        text: String,
        /// The description of the team and its tasks that pitcrew put before the summary.
        #[serde(skip_serializing_if = "Option::is_none")]
        briefing: Option<String>,
    },
    /// Something that happened to the conversation or to the agent.
    Event {
        /// The event in words.
        text: String,
    },
    /// The end of the agent.
    Ended {
        /// The agent's final status.
        status: Status,
        /// The reason, if the status does not explain itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The input with which the call is judged, asked about and run.
    pub input: Value,
    /// The input that the model wrote, if a hook has replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_input: Option<Value>,
    /// The answer to the permission request about the call, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// The result. `None` while the call runs, and if the agent ended before.
    pub result: Option<CallResult>,
}

/// A permission request about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// The request has no answer yet.
    Asked,
    /// The call was allowed.
    Allowed,
    /// The call was refused, for this reason.
    Denied(String),
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallResult {
    /// The text of the result.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

impl Conversation {
    /// Says how many lines of the conversation of `agent` cannot be read. Returns `None` if all can.
    #[must_use]
    pub fn unread_in_words(&self, agent: &AgentName) -> Option<String> {
        let count = self.unread_lines.len();
        (count > 0).then(|| {
            let lines = counted(count, "line");
            let are = if count == 1 { "is" } else { "are" };
            format!("{lines} of the conversation of {agent} cannot be read, and {are} left out")
        })
    }

    /// Reads the lines of a transcript, or its last lines. Lines that are not valid steps are
    /// skipped.
    ///
    /// # Errors
    /// When a later version of pitcrew wrote a line.
    pub fn of_transcript(lines: &[String]) -> Result<Self, NewerTranscript> {
        let Read { entries, unread } = read(lines)?;
        let is_cut = entries.first().is_some_and(|entry| entry.seq > 1);
        let mut conversation = Self { unread_lines: unread, is_cut, ..Self::default() };
        entries.iter().for_each(|entry| conversation.add_step(&entry.step));
        Ok(conversation)
    }

    /// Reads the file in which the reference client recorded a conversation. The end of the text can
    /// be an incomplete line. Entries of unknown kinds and of subagents are left out.
    #[must_use]
    pub fn of_client(text: &str) -> Self {
        let mut conversation = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            conversation.add_client_line(line, text);
        }
        conversation
    }

    /// Returns the calls that have no result, in order.
    pub fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls().filter(|call| call.result.is_none())
    }

    /// Returns the files that the agent wrote or edited, with the number of such calls. Only the
    /// tools for files count, no shell commands.
    #[must_use]
    pub fn files_changed(&self) -> BTreeMap<String, usize> {
        let mut files = BTreeMap::new();
        for call in self.calls().filter(|call| call.has_succeeded()) {
            match ToolTraits::of(&call.tool).effect {
                CallEffect::WritesFile | CallEffect::EditsFile => {}
                CallEffect::None
                | CallEffect::SubmitsPlan
                | CallEffect::SendsMessage
                | CallEffect::StartsAgent
                | CallEffect::CreatesTask
                | CallEffect::ChangesTask
                | CallEffect::ChecksTasks
                | CallEffect::EndsTeam => continue,
            }
            let path = call.input.get("file_path").or_else(|| call.input.get("notebook_path"));
            if let Some(path) = path.and_then(Value::as_str) {
                *files.entry(path.to_owned()).or_insert(0) += 1;
            }
        }
        files
    }

    fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Prompt { .. }
            | Part::Mail { .. }
            | Part::Notice { .. }
            | Part::Text { .. }
            | Part::Thinking { .. }
            | Part::Summary { .. }
            | Part::Event { .. }
            | Part::Ended { .. } => None,
        })
    }

    /// Adds a text that the program put into the conversation: messages, or a notice.
    pub(crate) fn tell(&mut self, text: &str) {
        // A text that only quotes a message is shown whole.
        let messages = if is_of_messages(text) { parse_injected(text) } else { Vec::new() };
        if messages.is_empty() {
            if !text.trim().is_empty() {
                self.parts.push(self.as_notice(text));
            }
            return;
        }
        self.parts.extend(messages.into_iter().map(mail));
    }

    /// Returns the prompt if the conversation has no parts yet, otherwise a notice.
    fn as_notice(&self, text: &str) -> Part {
        let text = without_reminder_tags(text).to_owned();
        if self.parts.is_empty() { Part::Prompt { text } } else { Part::Notice { text } }
    }

    pub(crate) fn call(&mut self, id: &str, tool: &str, input: &Value) {
        self.open.insert(id.to_owned(), self.parts.len());
        self.parts.push(Part::Call(Call {
            id: id.to_owned(),
            tool: tool.to_owned(),
            input: input.clone(),
            original_input: None,
            permission: None,
            result: None,
        }));
    }

    fn open_call(&mut self, id: &str) -> Option<&mut Call> {
        match self.parts.get_mut(*self.open.get(id)?) {
            Some(Part::Call(call)) => Some(call),
            Some(_) | None => None,
        }
    }

    /// Replaces the input of a call, and keeps the input that the model wrote.
    pub(crate) fn replaced(&mut self, id: &str, input: &Value) {
        if let Some(call) = self.open_call(id) {
            let before = std::mem::replace(&mut call.input, input.clone());
            call.original_input.get_or_insert(before);
        }
    }

    /// Adds a result to its call. A repeated result, and one of an unknown call, is ignored.
    pub(crate) fn result(&mut self, id: &str, text: String, is_error: bool) {
        if let Some(call) = self.open_call(id) {
            call.result = Some(CallResult { text, is_error });
            self.open.remove(id);
        }
    }

    /// Removes the oldest parts.
    pub(crate) fn forget_oldest(&mut self, count: usize) {
        let count = count.min(self.parts.len());
        self.parts.drain(..count);
        self.forgotten += count;
        self.open.retain(|_, at| at.checked_sub(count).map(|left| *at = left).is_some());
        self.is_cut = true;
    }

    fn event(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Event { text: text.into() });
    }
}

impl Part {
    /// The number of bytes that a part counts for beside its texts.
    pub(crate) const OVERHEAD_BYTES: usize = 200;

    /// Returns the number of bytes of the texts.
    pub(crate) fn size(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Prompt { text }
            | Self::Notice { text }
            | Self::Text { text }
            | Self::Thinking { text }
            | Self::Event { text } => text.len(),
            Self::Mail { from, summary, frame: _, text } => {
                from.len() + length(summary) + text.len()
            }
            Self::Summary { text, briefing } => text.len() + length(briefing),
            Self::Ended { status: _, reason } => length(reason),
            Self::Call(call) => {
                let result = call.result.as_ref().map_or(0, |result| result.text.len());
                size_of(&call.input) + call.id.len() + call.tool.len() + result
            }
        }
    }
}

impl Call {
    fn has_succeeded(&self) -> bool {
        self.result.as_ref().is_some_and(|result| !result.is_error)
    }
}

fn mail(message: Injected) -> Part {
    let frame = Frame::detect(&message.text).as_ref().map(Frame::kind);
    Part::Mail { from: message.from, summary: message.summary, frame, text: message.text }
}

/// Whether a text begins with a message of another agent.
fn is_of_messages(text: &str) -> bool {
    MESSAGE_TAGS.iter().any(|tag| text.starts_with(tag))
}

/// The beginnings of a message's tag. The second tag is of older documents.
const MESSAGE_TAGS: [&str; 2] = ["<teammate-message ", "<teammate_message "];

/// Removes the tag around a whole reminder.
fn without_reminder_tags(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix("<system-reminder>")
        .and_then(|text| text.strip_suffix("</system-reminder>"))
        .filter(|inner| !inner.contains("<system-reminder>"))
        .map_or(text, str::trim)
}
