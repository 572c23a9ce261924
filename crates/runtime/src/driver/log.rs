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
    writing: Option<BoxFuture<'static, Written>>,
    /// The team was not there at the last write: what waits is written with what comes next, if there is a team again by then.
    has_no_team: bool,
}

/// What came of a write: for each file the lines that are not in it, with the reason.
struct Written {
    steps: Result<(), (Vec<String>, StoreError)>,
    output: Result<(), (Vec<String>, StoreError)>,
}

impl Log {
    /// Opens the files, with what the transcript holds, and which lines of it were passed over.
    pub(crate) async fn open(
        team: &Team,
        agent: &AgentName,
    ) -> Result<(Self, Conversation, Vec<usize>), LogError> {
        let name = LogName::Transcript(agent.clone());
        let lines = team.log(&name).await;
        let lines = lines
            .map_err(|source| LogError::Store { agent: agent.clone(), source: Box::new(source) })?;
        let newer = |source| LogError::Newer { path: team.log_file(&name), source };
        let Read { entries, unread } = read(&lines).map_err(newer)?;
        let mut conversation = Conversation::default();
        entries.iter().for_each(|entry| conversation.apply(&entry.step));
        let seq = entries.iter().map(|entry| entry.seq).max().unwrap_or(0);
        Ok((Self { seq, is_kept: true, ..Self::unkept(team, agent) }, conversation, unread))
    }

    /// The log of an agent that nobody resumes.
    pub(crate) fn unkept(team: &Team, agent: &AgentName) -> Self {
        let (team, agent) = (team.clone(), agent.clone());
        Self {
            team,
            agent,
            seq: 0,
            is_kept: false,
            steps: Vec::new(),
            output: Vec::new(),
            writing: None,
            has_no_team: false,
        }
    }

    /// Takes steps, to be written after all that came before.
    pub(crate) fn add(&mut self, steps: Vec<Step>) -> Result<(), LogError> {
        if !self.is_kept {
            return Ok(());
        }
        self.has_no_team = false;
        for step in steps {
            self.seq += 1;
            let line = serde_json::to_string(&Entry { seq: self.seq, step });
            self.steps
                .push(line.map_err(|source| LogError::Json { agent: self.agent.clone(), source })?);
        }
        Ok(())
    }

    /// Takes something for people, to be written with the steps.
    pub(crate) fn note(&mut self, text: &str) {
        if self.is_kept {
            self.has_no_team = false;
            self.output.extend(text.lines().map(str::to_owned));
        }
    }

    /// Whether something is not written yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.has_no_team
            && (self.writing.is_some() || !self.steps.is_empty() || !self.output.is_empty())
    }

    /// Writes what was added, by one write to each file; when it returns the steps are on disk. Who stops waiting for it
    /// may come back. Lines of a team that is not there wait, in their order, until there is one again.
    pub(crate) async fn catch_up(&mut self) -> Result<(), LogError> {
        while self.is_behind() {
            let writing = self.writing.get_or_insert_with(|| {
                let (steps, output) =
                    (std::mem::take(&mut self.steps), std::mem::take(&mut self.output));
                Box::pin(write(self.team.clone(), self.agent.clone(), steps, output))
            });
            let Written { steps, output } = writing.await;
            self.writing = None;
            let results = [put_back(steps, &mut self.steps), put_back(output, &mut self.output)];
            let failed = results.into_iter().find_map(Result::err);
            self.has_no_team = matches!(failed, Some(StoreError::NoTeam { .. }));
            if let Some(source) = failed {
                return Err(LogError::Store {
                    agent: self.agent.clone(),
                    source: Box::new(source),
                });
            }
        }
        Ok(())
    }
}

async fn write(team: Team, agent: AgentName, steps: Vec<String>, output: Vec<String>) -> Written {
    let append = async |log: LogName, lines: Vec<String>| {
        if lines.is_empty() {
            return Ok(());
        }
        if team.is_deleted() {
            // Somebody else may have made a team of that name since.
            return Err((lines, StoreError::NoTeam { team: team.dir().clone() }));
        }
        team.append_log(&log, &lines).await.map_err(|error| (lines, error))
    };
    let (transcript, output_file) = (LogName::Transcript(agent.clone()), LogName::Output(agent));
    let (steps, output) = tokio::join!(append(transcript, steps), append(output_file, output));
    Written { steps, output }
}

/// Puts lines that were not written before those that wait.
fn put_back(
    written: Result<(), (Vec<String>, StoreError)>,
    waiting: &mut Vec<String>,
) -> Result<(), StoreError> {
    let Err((lines, error)) = written else { return Ok(()) };
    // Of others nobody knows how much of them is there; their agent ends.
    if matches!(error, StoreError::NoTeam { .. }) {
        waiting.splice(..0, lines);
    }
    Err(error)
}

/// The output file of an agent, where people find it.
pub(crate) fn output_file(team: &Team, agent: &AgentName) -> Arc<str> {
    team.log_file(&LogName::Output(agent.clone())).to_string_lossy().into()
}
