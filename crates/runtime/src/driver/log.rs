//! The two files of an agent: the transcript and the output file. The agent resumes from the
//! transcript. People and the lead read the output file.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use pitcrew_agent::transcript::{Conversation, Entry, NewerTranscript, Read, Step, read};
use pitcrew_protocol::AgentName;
use pitcrew_team::Team;
use pitcrew_team::store::{LogName, StoreError};

/// Why a transcript cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// A file of the log could not be read or written.
    #[error("the log of {agent} cannot be used")]
    Store {
        agent: AgentName,
        #[source]
        source: Box<StoreError>,
    },
    /// A later version of pitcrew wrote a line of the transcript, and this version cannot read it.
    #[error("the transcript {} cannot be used", path.display())]
    Newer {
        path: PathBuf,
        #[source]
        source: NewerTranscript,
    },
    /// A step of the transcript cannot be converted to JSON.
    #[error("a step of {agent} cannot be written")]
    Json {
        agent: AgentName,
        #[source]
        source: serde_json::Error,
    },
}

/// The files of one agent. A subagent has no files, because it is never resumed from disk.
pub(crate) struct Log {
    team: Team,
    agent: AgentName,
    seq: u64,
    is_kept: bool,
    /// Lines that are not written yet: `steps` go to the transcript, `output` goes to the output
    /// file.
    steps: Vec<String>,
    output: Vec<String>,
    /// The write of earlier lines that is running now.
    writing: Option<BoxFuture<'static, Written>>,
    /// Whether the last write failed because the team did not exist. The unwritten lines then wait
    /// until more lines are added, and all lines are written together at that time. If the team
    /// still does not exist, the lines wait again.
    has_no_team: bool,
}

/// The results of writing queued lines: `steps` for the transcript, and `output` for the output
/// file. An error contains the lines that were not written, and the reason.
struct Written {
    steps: Result<(), (Vec<String>, StoreError)>,
    output: Result<(), (Vec<String>, StoreError)>,
}

impl Log {
    /// Opens the files of an agent. Returns its log, the conversation from its transcript, and the
    /// line numbers of the unreadable lines in the transcript.
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

    /// Creates the log of an agent that is never resumed. Such a log writes nothing.
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

    /// Queues steps for the transcript. They are written after all steps that were queued earlier.
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

    /// Queues text for the output file. The text is written together with the steps.
    pub(crate) fn note(&mut self, text: &str) {
        if self.is_kept {
            self.has_no_team = false;
            self.output.extend(text.lines().map(str::to_owned));
        }
    }

    /// Returns true if some lines are not written yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.has_no_team
            && (self.writing.is_some() || !self.steps.is_empty() || !self.output.is_empty())
    }

    /// Writes all queued lines to disk at the end of the agent. Lines that wait because the lead
    /// deleted the team are written to the archive of the team.
    ///
    /// # Errors
    /// Returns an error if a line could not be written.
    pub(crate) async fn close(&mut self) -> Result<(), LogError> {
        let written = self.catch_up().await;
        if !self.team.is_deleted() {
            return written;
        }
        let files = [
            (LogName::Transcript(self.agent.clone()), std::mem::take(&mut self.steps)),
            (LogName::Output(self.agent.clone()), std::mem::take(&mut self.output)),
        ];
        for (log, lines) in files.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let appended = self.team.append_log_of_deleted(&log, &lines).await;
            appended.map_err(|source| LogError::Store {
                agent: self.agent.clone(),
                source: Box::new(source),
            })?;
        }
        Ok(())
    }

    /// Writes all queued lines to disk, with one write per file. The caller is allowed to drop this
    /// future and to call the function again later; no line is lost.
    ///
    /// # Errors
    /// Returns an error if a line could not be written. If the reason is that the team does not
    /// exist, the lines stay queued in their order.
    pub(crate) async fn catch_up(&mut self) -> Result<(), LogError> {
        while self.is_behind() {
            // The running write is stored in `self`. If the caller drops this future, the write is
            // neither cancelled nor repeated.
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
            // The team was deleted, and another process may have created a new team with the same
            // name since then. Do not write the old lines into the new team's folder.
            return Err((lines, StoreError::NoTeam { team: team.dir().clone() }));
        }
        team.append_log(&log, &lines).await.map_err(|error| (lines, error))
    };
    let (transcript, output_file) = (LogName::Transcript(agent.clone()), LogName::Output(agent));
    let (steps, output) = tokio::join!(append(transcript, steps), append(output_file, output));
    Written { steps, output }
}

/// Puts the lines of a failed write back in front of the waiting lines.
fn put_back(
    written: Result<(), (Vec<String>, StoreError)>,
    waiting: &mut Vec<String>,
) -> Result<(), StoreError> {
    let Err((lines, error)) = written else { return Ok(()) };
    // Keep the lines for a second try only if the team does not exist: no line was written then.
    // After any other error, it is unknown how many lines were written. The agent then ends.
    if matches!(error, StoreError::NoTeam { .. }) {
        waiting.splice(..0, lines);
    }
    Err(error)
}

/// Returns the path of an agent's output file.
pub(crate) fn output_file(team: &Team, agent: &AgentName) -> Arc<str> {
    team.log_file(&LogName::Output(agent.clone())).to_string_lossy().into()
}
