//! Writes a conversation or a whole run as markdown, for a pull request or for the files of a
//! project. Secrets are masked ([`masking`](crate::masking)), and the end of the document lists what
//! was masked.
//!
//! The texts of agents are quoted, so that no text of theirs can pass for a heading of the document,
//! for another agent's text, or end a block. This module does no I/O.

use pitcrew_protocol::{AgentName, Task, TaskStatus, counted};
use serde_json::Value;

mod blocks;
mod harmless;
mod parts;

use blocks::{bullet, quoted};
use parts::part;

use crate::agent_now::Spending;
use crate::conversation::Conversation;
use crate::masking::{Masked, Masker};
use crate::team_log::LogEntry;
use crate::wording::short;

/// How much of the tool calls is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One line for each call, and the first line of its result.
    #[default]
    Brief,
    /// Whole inputs and results, and the thoughts of the model.
    Whole,
}

/// A conversation and its agent.
#[derive(Clone, Debug)]
pub struct AgentConversation {
    /// The agent.
    pub agent: AgentName,
    /// The conversation.
    pub conversation: Conversation,
}

/// An agent of a run, for the table of the agents.
#[derive(Clone, Debug)]
pub struct AgentRow {
    /// The agent.
    pub agent: AgentName,
    /// The model.
    pub model: Option<String>,
    /// How the agent ended, or its state.
    pub state: String,
    /// What the agent used.
    pub spending: Spending,
}

/// All that is written of a run.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// The name of the team.
    pub team: String,
    /// Facts about the run, each with its name, such as the goal.
    pub facts: Vec<(&'static str, String)>,
    /// The agents.
    pub agents: Vec<AgentRow>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// What happened, each entry with its time.
    pub log: Vec<(String, LogEntry)>,
    /// The conversations.
    pub conversations: Vec<AgentConversation>,
    /// What of the records is missing or cannot be read, as texts for a person.
    pub unread: Vec<String>,
}

/// A document in markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The text of the document.
    pub text: String,
    /// The secrets that were masked in it.
    pub masked: Vec<Masked>,
    /// What is missing or cannot be read, as texts for a person.
    pub unread: Vec<String>,
}

/// Writes the conversation of an agent. The masker masks all of its texts.
#[must_use]
pub fn conversation(
    team: &str,
    of: &AgentConversation,
    detail: Detail,
    masker: Masker,
) -> Exported {
    let mut document = Document::new(detail, masker);
    let (agent, team) = (document.cell(of.agent.as_str()), document.cell(team));
    document.line(&format!("# {agent} of team {team}"));
    document.conversation(of);
    document.end()
}

/// Writes a whole run: its facts, agents, tasks, events and conversations. The masker masks
/// all of its texts.
#[must_use]
pub fn run(record: &RunRecord, detail: Detail, masker: Masker) -> Exported {
    let mut document = Document::new(detail, masker);
    let team = document.cell(&record.team);
    document.line(&format!("# Team {team}"));
    document.facts(&record.facts);
    document.unread(&record.unread);
    document.agents(&record.agents);
    document.tasks(&record.tasks);
    document.log(&record.log);
    for of in &record.conversations {
        let agent = document.cell(of.agent.as_str());
        document.heading(&format!("Conversation of {agent}"));
        document.conversation(of);
    }
    document.end()
}

/// Says in one line what was masked. Returns `None` if nothing was.
#[must_use]
pub fn masked_in_words(masked: &[Masked]) -> Option<String> {
    let kinds: Vec<String> = masked.iter().map(|it| format!("{} {}", it.count, it.kind)).collect();
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

/// A document that is being written.
struct Document {
    text: String,
    masker: Masker,
    detail: Detail,
    unread: Vec<String>,
}

impl Document {
    fn new(detail: Detail, masker: Masker) -> Self {
        Self { text: String::new(), masker, detail, unread: Vec::new() }
    }

    fn cell(&mut self, text: &str) -> String {
        cell(&mut self.masker, text)
    }

    /// Adds a line, and an empty line after it.
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push_str("\n\n");
    }

    fn heading(&mut self, text: &str) {
        self.line(&format!("## {text}"));
    }

    /// Adds lines that belong together, and an empty line after them.
    fn lines(&mut self, lines: &[String]) {
        for line in lines {
            self.text.push_str(line);
            self.text.push('\n');
        }
        self.text.push('\n');
    }

    fn facts(&mut self, facts: &[(&'static str, String)]) {
        for (name, fact) in facts {
            // A goal can have several lines.
            match fact.trim().contains('\n') {
                true => {
                    self.line(&format!("**{name}**"));
                    let fact = self.masker.text(fact).into_owned();
                    self.text.push_str(&quoted(&fact));
                    self.text.push('\n');
                }
                false => {
                    let fact = self.cell(fact.trim());
                    self.line(&format!("**{name}**: {fact}"));
                }
            }
        }
    }

    /// Says what is missing in the document. The texts have names and paths.
    fn unread(&mut self, unread: &[String]) {
        for text in unread {
            let said = self.cell(text);
            self.line(&format!("*{said}*"));
        }
        self.unread.extend_from_slice(unread);
    }

    fn agents(&mut self, agents: &[AgentRow]) {
        if agents.is_empty() {
            return;
        }
        self.heading("Agents");
        let mut rows = vec![
            "| agent | model | state | model calls | tool calls | tokens | cost |".to_owned(),
            "| --- | --- | --- | ---: | ---: | ---: | ---: |".to_owned(),
        ];
        rows.extend(agents.iter().map(|row| {
            let AgentRow { agent, model, state, spending } = row;
            format!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                self.cell(agent.as_str()),
                self.cell(model.as_deref().unwrap_or("-")),
                self.cell(state),
                spending.turns,
                spending.tool_calls,
                short(spending.tokens),
                spending.cost_in_words()
            )
        }));
        self.lines(&rows);
    }

    fn tasks(&mut self, tasks: &[Task]) {
        let shown = tasks.iter().filter(|task| !task.is_internal());
        let shown: Vec<String> = shown.map(|task| self.task(task)).collect();
        if !shown.is_empty() {
            self.heading("Tasks");
            self.lines(&shown);
        }
    }

    fn task(&mut self, task: &Task) -> String {
        let mark = if task.status == TaskStatus::Completed { "x" } else { " " };
        let mut about = self.cell(&task.subject);
        if task.status == TaskStatus::InProgress {
            about.push_str(", in progress");
        }
        if let Some(owner) = task.owner.as_deref().filter(|owner| !owner.is_empty()) {
            about.push_str(&format!(", {}", self.cell(owner)));
        }
        format!("- [{mark}] #{} {about}", self.cell(task.id.as_str()))
    }

    fn log(&mut self, log: &[(String, LogEntry)]) {
        if log.is_empty() {
            return;
        }
        self.heading("Events");
        let mut line = |(time, entry): &(String, LogEntry)| {
            let agent = entry.agent.as_deref().map(|agent| format!("**{}** ", self.cell(agent)));
            let text = self.cell(&entry.text);
            bullet(&format!("{time} {}{text}", agent.unwrap_or_default()))
        };
        let entries: Vec<String> = log.iter().map(&mut line).collect();
        self.lines(&entries);
    }

    fn conversation(&mut self, AgentConversation { agent, conversation }: &AgentConversation) {
        if let Some(unread) = conversation.unread_in_words(agent) {
            let said = self.cell(&unread);
            self.line(&format!("*{said}*"));
            self.unread.push(unread);
        }
        if conversation.is_cut {
            self.line("Earlier parts are left out.");
        }
        if conversation.parts.is_empty() && conversation.unread_lines.is_empty() {
            self.line("Nothing was said.");
        }
        for one in &conversation.parts {
            let text = part(one, self.detail, &mut self.masker);
            self.text.push_str(&text);
        }
    }

    /// Adds the list of what was masked.
    fn end(mut self) -> Exported {
        let masked = self.masker.masked();
        if !masked.is_empty() {
            self.heading("Masked");
            self.line("These were masked, because they are secrets or look like secrets:");
            let rows: Vec<String> = masked
                .iter()
                .map(|it| bullet(&format!("{}: {}", it.kind, counted(it.count, "place"))))
                .collect();
            self.lines(&rows);
        }
        let text = format!("{}\n", self.text.trim_end());
        Exported { text, masked, unread: self.unread }
    }
}

/// Returns a text as a part of a line, without secrets. Secrets are masked first, because they are
/// not found among escaped characters. A name can be a secret too.
fn cell(masker: &mut Masker, text: &str) -> String {
    blocks::cell(&masker.text(text))
}

/// Writes a JSON value as text for a block of code: a text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests;
