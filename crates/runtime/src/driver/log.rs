//! The two files of an agent: its transcript, from which it is resumed, and its output, for people and for the lead.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use pitcrew_protocol::AgentName;
use pitcrew_team::Team;
use pitcrew_team::store::{LogName, StoreError};

use crate::transcript::{Conversation, Entry, NewerTranscript, Read, Step, read};

/// Why a transcript could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The store failed.
    #[error("the log of {agent} cannot be used")]
    Store {
        agent: AgentName,
        #[source]
        source: Box<StoreError>,
    },
    /// A line is of a later version.
    #[error("the transcript {} cannot be used", path.display())]
    Newer {
        path: PathBuf,
        #[source]
        source: NewerTranscript,
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
    /// Lines that are to be written, of the transcript and of the output.
    steps: Vec<String>,
    output: Vec<String>,
    /// The write of the lines before those.
    writing: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

impl Log {
    /// Opens the files, with what the transcript holds, and which lines of it were passed over.
    pub(crate) async fn open(team: &Team, agent: &AgentName) -> Result<(Self, Conversation, Vec<usize>), LogError> {
        let name = LogName::Transcript(agent.clone());
        let lines = team.backend().log(team.dir(), &name).await;
        let lines = lines.map_err(|source| LogError::Store { agent: agent.clone(), source: Box::new(source) })?;
        let newer = |source| LogError::Newer { path: team.backend().log_file(team.dir(), &name), source };
        let Read { entries, unread } = read(&lines).map_err(newer)?;
        let mut conversation = Conversation::default();
        entries.iter().for_each(|entry| conversation.apply(&entry.step));
        let seq = entries.iter().map(|entry| entry.seq).max().unwrap_or(0);
        Ok((Self { seq, is_kept: true, ..Self::unkept(team, agent) }, conversation, unread))
    }

    /// The log of an agent that nobody resumes.
    pub(crate) fn unkept(team: &Team, agent: &AgentName) -> Self {
        let (team, agent) = (team.clone(), agent.clone());
        Self { team, agent, seq: 0, is_kept: false, steps: Vec::new(), output: Vec::new(), writing: None }
    }

    /// Takes steps, to be written after all that came before.
    pub(crate) fn add(&mut self, steps: Vec<Step>) -> Result<(), LogError> {
        if !self.is_kept {
            return Ok(());
        }
        for step in steps {
            self.seq += 1;
            let line = serde_json::to_string(&Entry { seq: self.seq, step });
            self.steps.push(line.map_err(|source| LogError::Json { agent: self.agent.clone(), source })?);
        }
        Ok(())
    }

    /// Takes something for people, to be written with the steps.
    pub(crate) fn note(&mut self, text: &str) {
        if self.is_kept {
            self.output.extend(text.lines().map(str::to_owned));
        }
    }

    /// Whether something is not written yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.writing.is_some() || !self.steps.is_empty() || !self.output.is_empty()
    }

    /// Writes what was added, by one write to each file; when it returns the steps are on disk. Who stops waiting for it
    /// may come back.
    pub(crate) async fn catch_up(&mut self) -> Result<(), LogError> {
        while self.is_behind() {
            let writing = self.writing.get_or_insert_with(|| {
                let (steps, output) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.output));
                Box::pin(write(self.team.clone(), self.agent.clone(), steps, output))
            });
            let written = writing.await;
            self.writing = None;
            written.map_err(|source| LogError::Store { agent: self.agent.clone(), source: Box::new(source) })?;
        }
        Ok(())
    }
}

async fn write(team: Team, agent: AgentName, steps: Vec<String>, output: Vec<String>) -> Result<(), StoreError> {
    let append = async |log: LogName, lines: &[String]| match lines {
        [] => Ok(()),
        lines => team.backend().append_log(team.dir(), &log, lines).await,
    };
    let (transcript, output_file) = (LogName::Transcript(agent.clone()), LogName::Output(agent));
    let (kept, shown) = tokio::join!(append(transcript, &steps), append(output_file, &output));
    kept.and(shown)
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
