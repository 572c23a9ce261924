//! The answers of the team tools, each with its text for the model.
//!
//! The texts are copied from recordings of the reference client. The documentation of the module
//! `results` names the recordings. The task tools answer with prose. All other team tools answer
//! with their data as indented JSON.

use serde::{Serialize, Serializer};

use crate::TaskId;
use crate::results::{
    BroadcastSent, MessageSent, RequestSent, Responded, Spawned, TaskCreated, TaskListed,
    TaskShown, TaskUpdated, TeamCreated, TeamDeleted,
};

macro_rules! answers {
    ($($variant:ident,)*) => {
        /// The answer of a team tool.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant is named after the type that documents it")]
        pub enum ToolAnswer {
            $($variant($variant),)*
        }

        $(impl From<$variant> for ToolAnswer {
            fn from(answer: $variant) -> Self {
                Self::$variant(answer)
            }
        })*

        impl Serialize for ToolAnswer {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(answer) => answer.serialize(serializer),)*
                }
            }
        }
    };
}

answers! {
    TeamCreated,
    TeamDeleted,
    TaskCreated,
    TaskUpdated,
    TaskListed,
    TaskShown,
    Spawned,
    MessageSent,
    BroadcastSent,
    RequestSent,
    Responded,
}

impl ToolAnswer {
    /// Returns the text of the answer that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::TeamCreated(answer) => answer.text(),
            Self::TeamDeleted(answer) => answer.text(),
            Self::TaskCreated(answer) => answer.text(),
            Self::TaskUpdated(answer) => answer.text(),
            Self::TaskListed(answer) => answer.text(),
            Self::TaskShown(answer) => answer.text(),
            Self::Spawned(answer) => answer.text(),
            Self::MessageSent(answer) => answer.text(),
            Self::BroadcastSent(answer) => answer.text(),
            Self::RequestSent(answer) => answer.text(),
            Self::Responded(answer) => answer.text(),
        }
    }

    /// Returns true if the answer's text is sent in a block of the result's `content`. As in the
    /// reference client, this is the case for all team tools except the task tools.
    #[must_use]
    pub fn is_blocks(&self) -> bool {
        match self {
            Self::TaskCreated(_)
            | Self::TaskUpdated(_)
            | Self::TaskListed(_)
            | Self::TaskShown(_) => false,
            Self::TeamCreated(_)
            | Self::TeamDeleted(_)
            | Self::Spawned(_)
            | Self::MessageSent(_)
            | Self::BroadcastSent(_)
            | Self::RequestSent(_)
            | Self::Responded(_) => true,
        }
    }
}

macro_rules! text_is_data {
    ($($answer:ident,)*) => {
        $(impl $answer {
            /// Returns the text that the model reads: the answer's data as indented JSON.
            #[must_use]
            pub fn text(&self) -> String {
                indented(self)
            }
        })*
    };
}

text_is_data! { TeamCreated, TeamDeleted, MessageSent, BroadcastSent, RequestSent, Responded, }

impl TaskCreated {
    /// Returns the text of the answer that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        format!("Task #{} created successfully: {}", self.task.id, one_line(&self.task.subject))
    }
}

impl TaskUpdated {
    /// Returns the text of the answer that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        format!("Updated task #{} {}", self.task_id, self.updated_fields.join(", "))
    }
}

impl TaskListed {
    /// Returns the text of the answer that the model reads, with one line for each task.
    #[must_use]
    pub fn text(&self) -> String {
        if self.tasks.is_empty() {
            return "No tasks found".to_owned();
        }
        let lines = self.tasks.iter().map(|task| {
            let owner = task
                .owner
                .as_deref()
                .map(|name| format!(" ({})", one_line(name)))
                .unwrap_or_default();
            let blocked = if task.blocked_by.is_empty() {
                String::new()
            } else {
                format!(" [blocked by {}]", hashed(&task.blocked_by))
            };
            format!(
                "#{} [{}] {}{owner}{blocked}",
                task.id,
                task.status.as_str(),
                one_line(&task.subject)
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl TaskShown {
    /// Returns the text of the answer that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        let task = &self.task;
        let mut text = format!(
            "Task #{}: {}\nStatus: {}",
            task.id,
            one_line(&task.subject),
            task.status.as_str()
        );
        let facts = &task.facts;
        // The owner and the active form are written before the description. The description can
        // contain lines that look like an owner or an active form.
        for (label, value) in [("Owner", &facts.owner), ("Active form", &facts.active_form)] {
            if let Some(value) = value {
                text.push_str(&format!("\n{label}: {}", one_line(value)));
            }
        }
        for (key, value) in facts.metadata.iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!("\nMetadata {}: {}", one_line(key), one_line(&value)));
        }
        for (label, value) in
            [("Created", &facts.times.created_at), ("Updated", &facts.times.updated_at)]
        {
            if let Some(value) = value {
                text.push_str(&format!("\n{label}: {}", one_line(value)));
            }
        }
        text.push_str(&format!("\nDescription: {}", task.description));
        for (label, ids) in [("Blocked by", &task.blocked_by), ("Blocks", &task.blocks)] {
            if !ids.is_empty() {
                text.push_str(&format!("\n{label}: {}", hashed(ids)));
            }
        }
        text
    }
}

impl Spawned {
    /// Returns the text of the answer that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "Spawned successfully.\nagent_id: {}\nname: {}\nteam_name: {}\nThe agent is now running and will receive \
             instructions via mailbox.",
            self.agent_id, self.name, self.team_name
        )
    }
}

fn indented(data: &impl Serialize) -> String {
    serde_json::to_string_pretty(data).unwrap_or_default()
}

fn hashed(ids: &[TaskId]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
}

/// Returns the text without line breaks. With a line break, a task's title could look like another
/// row of the list.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}
