//! The API reference's shapes, where they differ from what files and tools hold.
//!
//! A task there has `taskId`, `created_at` and `updated_at`; the file knows `id` and no times, the journal has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use pitcrew_protocol::{AgentName, Task, TaskId};
use pitcrew_store::{Event, JournalEntry};
use pitcrew_team::{Receipt, Sent, Team};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::output::{FAINT, STRONG, printable};

/// A task as TaskCreate, TaskUpdate and TaskGet answer it.
#[derive(Debug, Serialize)]
pub(crate) struct TaskShape {
    #[serde(rename = "taskId")]
    pub(crate) task_id: TaskId,
    pub(crate) subject: String,
    pub(crate) description: String,
    #[serde(rename = "activeForm", skip_serializing_if = "Option::is_none")]
    active_form: Option<String>,
    pub(crate) status: &'static str,
    pub(crate) owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(rename = "blockedBy")]
    pub(crate) blocked_by: Vec<TaskId>,
    pub(crate) blocks: Vec<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Map<String, Value>>,
}

/// When tasks were made and last changed, as far as the journal tells.
#[derive(Debug, Default)]
pub(crate) struct TaskTimes(BTreeMap<TaskId, (Option<i64>, i64)>);

impl TaskTimes {
    /// Reads them off the journal. Ids are never used again, so one id is one task.
    pub(crate) fn of(journal: &[JournalEntry]) -> Self {
        let mut times = BTreeMap::<TaskId, (Option<i64>, i64)>::new();
        for entry in journal {
            if let Event::TaskChanged { task, change, .. } = &entry.event {
                let made = (change == "created").then_some(entry.at_ms);
                let known = times.entry(task.clone()).or_insert((made, entry.at_ms));
                known.1 = entry.at_ms;
            }
        }
        Self(times)
    }
}

impl TaskShape {
    /// The task with its times, as the team's journal tells them.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) async fn read(team: &Team, task: &Task) -> Result<Self, Failure> {
        let journal = team.backend().journal(team.dir()).await.map_err(Failure::internal)?;
        Ok(Self::new(task, &TaskTimes::of(&journal)))
    }

    fn new(task: &Task, times: &TaskTimes) -> Self {
        let known = times.0.get(&task.id);
        Self {
            task_id: task.id.clone(),
            subject: task.subject.clone(),
            description: task.description.clone(),
            active_form: task.active_form.clone(),
            status: task.status.as_str(),
            owner: task.owner.clone(),
            created_at: known.and_then(|(made, _)| *made).and_then(iso),
            updated_at: known.and_then(|(_, changed)| iso(*changed)),
            blocked_by: task.blocked_by.clone(),
            blocks: task.blocks.clone(),
            metadata: task.metadata.clone(),
        }
    }

    /// The task for people.
    pub(crate) fn text(&self) -> String {
        let ids = |ids: &[TaskId]| ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(" ");
        let mut text = format!("{STRONG}#{} {}{STRONG:#}\n", self.task_id, printable(&self.subject));
        let mut row = |name: &str, value: &str| {
            if !value.is_empty() {
                let _ = writeln!(text, "{FAINT}{name:<11}{FAINT:#} {}", printable(value));
            }
        };
        row("status", &self.status.replace('_', " "));
        row("owner", self.owner.as_deref().unwrap_or("nobody"));
        row("waits for", &ids(&self.blocked_by));
        row("holds up", &ids(&self.blocks));
        row("made", self.created_at.as_deref().unwrap_or_default());
        row("changed", self.updated_at.as_deref().unwrap_or_default());
        for (key, value) in self.metadata.iter().flatten() {
            row(key, &value.to_string());
        }
        if self.description != self.subject {
            let _ = write!(text, "\n{}", printable(&self.description));
        }
        text
    }
}

/// What became of a message that was sent, as SendMessage of the API reference answers it, with our receipts.
#[derive(Debug, Serialize)]
pub(crate) struct SentShape {
    #[serde(flatten)]
    answer: Map<String, Value>,
    recipients: Vec<AgentName>,
    receipts: Vec<Receipt>,
}

impl SentShape {
    /// The shape of an answer.
    ///
    /// # Errors
    /// When the answer is no JSON object, which none is.
    pub(crate) fn new(sent: &Sent) -> Result<Self, Failure> {
        let mut answer: Map<String, Value> =
            serde_json::to_value(&sent.answer).and_then(serde_json::from_value).map_err(Failure::internal)?;
        answer.remove("recipients");
        let recipients = sent.receipts.iter().map(|receipt| receipt.to.clone()).collect();
        Ok(Self { answer, recipients, receipts: sent.receipts.clone() })
    }

    /// The answer for people: a line a receiver, with the message's id.
    pub(crate) fn text(&self) -> String {
        let mut text = self.answer.get("message").and_then(Value::as_str).map(printable).unwrap_or_default().into_owned();
        for receipt in &self.receipts {
            let _ = write!(text, "\n{FAINT}{} {:?} for {}{FAINT:#}", receipt.id, receipt.state, receipt.to);
        }
        text
    }
}

/// Reads `KEY=VALUE`, where VALUE is JSON or else plain text.
///
/// # Errors
/// When there is no `=`, or nothing before it.
pub(crate) fn metadata_entry(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            Ok((key.to_owned(), value))
        }
        Some(_) | None => Err("write KEY=VALUE".to_owned()),
    }
}

/// A time of the wire: ISO 8601, UTC, milliseconds, `Z`.
pub(crate) fn iso(at_ms: i64) -> Option<String> {
    Timestamp::from_millisecond(at_ms).ok().map(|at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_from_the_journal() {
        let change = |at_ms, change: &str| JournalEntry {
            at_ms,
            event: Event::TaskChanged {
                task: TaskId::from_number(1),
                by: "user".into(),
                change: change.into(),
                fields: vec![],
            },
        };
        let times = TaskTimes::of(&[change(0, "created"), change(1500, "updated")]);
        let known = times.0[&TaskId::from_number(1)];
        assert_eq!(known, (Some(0), 1500));
        assert_eq!(iso(1500).unwrap(), "1970-01-01T00:00:01.500Z");
    }
}
