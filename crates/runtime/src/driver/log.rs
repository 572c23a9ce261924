//! The two files of an agent: its transcript, from which it is resumed, and its output, for people and for the lead.

use std::sync::Arc;

use pitcrew_protocol::AgentName;
use pitcrew_team::Team;
use pitcrew_team::store::{LogName, StoreError};

use crate::transcript::{Conversation, Entry, Step, TranscriptError, read};

/// Why a transcript could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The store failed.
    #[error("the log of {agent} cannot be used")]
    Store {
        agent: AgentName,
        #[source]
        source: StoreError,
    },
    /// A line is no step.
    #[error("the transcript of {agent} is damaged")]
    Damaged {
        agent: AgentName,
        #[source]
        source: TranscriptError,
    },
    /// A step cannot be written as JSON.
    #[error("a step of {agent} cannot be written")]
    Json {
        agent: AgentName,
        #[source]
        source: serde_json::Error,
    },
}

/// The files of one agent. A subagent has none: it is not resumed.
pub(crate) struct Log {
    team: Team,
    agent: AgentName,
    seq: u64,
    is_kept: bool,
    output: Vec<String>,
}

impl Log {
    /// Opens the files, with what the transcript holds.
    pub(crate) async fn open(team: &Team, agent: &AgentName) -> Result<(Self, Conversation), LogError> {
        let lines = team.backend().log(team.dir(), &LogName::Transcript(agent.clone())).await;
        let lines = lines.map_err(|source| LogError::Store { agent: agent.clone(), source })?;
        let entries = read(&lines).map_err(|source| LogError::Damaged { agent: agent.clone(), source })?;
        let mut conversation = Conversation::default();
        entries.iter().for_each(|entry| conversation.apply(&entry.step));
        let seq = entries.last().map_or(0, |entry| entry.seq);
        let log = Self { team: team.clone(), agent: agent.clone(), seq, is_kept: true, output: Vec::new() };
        Ok((log, conversation))
    }

    /// The log of an agent that nobody resumes.
    pub(crate) fn unkept(team: &Team, agent: &AgentName) -> Self {
        Self { team: team.clone(), agent: agent.clone(), seq: 0, is_kept: false, output: Vec::new() }
    }

    /// Writes steps; when it returns they are on disk.
    pub(crate) async fn append(&mut self, steps: Vec<Step>) -> Result<(), LogError> {
        if !self.is_kept {
            return Ok(());
        }
        let mut lines = Vec::with_capacity(steps.len());
        for step in steps {
            self.seq += 1;
            let line = serde_json::to_string(&Entry { seq: self.seq, step });
            lines.push(line.map_err(|source| LogError::Json { agent: self.agent.clone(), source })?);
        }
        self.write(LogName::Transcript(self.agent.clone()), &lines).await
    }

    /// Notes something for people; it is written with the next flush.
    pub(crate) fn note(&mut self, text: &str) {
        self.output.extend(text.lines().map(str::to_owned));
    }

    /// Writes what was noted.
    pub(crate) async fn flush(&mut self) -> Result<(), LogError> {
        let lines = std::mem::take(&mut self.output);
        if lines.is_empty() || !self.is_kept {
            return Ok(());
        }
        self.write(LogName::Output(self.agent.clone()), &lines).await
    }

    async fn write(&self, log: LogName, lines: &[String]) -> Result<(), LogError> {
        let written = self.team.backend().append_log(self.team.dir(), &log, lines).await;
        written.map_err(|source| LogError::Store { agent: self.agent.clone(), source })
    }
}

/// An error with all its causes, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The output file of an agent, where people find it.
pub(crate) fn output_file(team: &Team, agent: &AgentName) -> Arc<str> {
    team.backend().log_file(team.dir(), &LogName::Output(agent.clone())).to_string_lossy().into()
}
