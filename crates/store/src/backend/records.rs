//! Pitcrew's own records of a team, other than the journal: documents, which are edited, and logs,
//! which only grow.

use async_trait::async_trait;
use pitcrew_protocol::{AgentName, ApiError, TeamDir};
use serde_json::Value;

use crate::StoreError;

/// A function that edits one of pitcrew's own documents. It receives the document, or `None` if the
/// document does not exist. If it sets the value to `None`, the document is removed.
pub type DocumentEdit = Box<dyn FnMut(&mut Option<Value>) -> Result<(), ApiError> + Send>;

/// Pitcrew's own documents and logs of teams.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// Returns one of pitcrew's own documents (JSON), or `None` if it does not exist. This function
    /// takes no lock, so the result is the document as it was at some moment during the call.
    async fn document(
        &self,
        team: &TeamDir,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError>;

    /// Reads, changes and writes a document. If the edit changes nothing, nothing is written.
    async fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        edit: DocumentEdit,
    ) -> Result<(), StoreError>;

    /// Appends lines to a log. Lines of a transcript are on disk when the call returns. Lines of an
    /// output survive a crash of the process but not a power cut. That is enough, because no resume
    /// needs the output.
    async fn append_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError>;

    /// Returns the complete lines of a log. Skips an incomplete last line, which the next append
    /// will remove.
    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError>;

    /// Returns the complete lines within about the last `bytes` bytes of a log. The duration does
    /// not depend on the length of the log.
    async fn log_end(
        &self,
        team: &TeamDir,
        log: &LogName,
        bytes: u64,
    ) -> Result<Vec<String>, StoreError>;

    /// Replaces the lines of a log. The old lines become the content of the log `kept_as`, whose
    /// earlier lines are lost. No agent is allowed to use the log `kept_as` at that time. After a
    /// crash, either the log is unchanged, or both logs have their new content.
    async fn replace_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError>;
}

/// One of pitcrew's own append-only files of a team.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogName {
    /// An agent's conversation, one JSON line for each step.
    Transcript(AgentName),
    /// The texts and actions of an agent, formatted for human readers.
    Output(AgentName),
    /// An agent's former conversation, which was replaced by a newer one.
    Former {
        /// The agent that had the conversation.
        agent: AgentName,
        /// Time at which the conversation was replaced, in milliseconds since 1970.
        until_ms: i64,
    },
}

impl LogName {
    /// Returns the path of the log, relative to pitcrew's own folder of the team.
    pub(crate) fn relative_path(&self) -> String {
        match self {
            Self::Transcript(agent) => format!("transcripts/{}.ndjson", agent.inbox_file()),
            Self::Output(agent) => format!("output/{}.log", agent.inbox_file()),
            Self::Former { agent, until_ms } => {
                format!("transcripts/{}.until-{until_ms}.ndjson", agent.inbox_file())
            }
        }
    }
}
