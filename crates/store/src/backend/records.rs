//! Pitcrew's own records of a team besides the journal: documents that change, and logs that grow.

use async_trait::async_trait;
use pitcrew_protocol::{AgentName, ApiError, TeamDir};
use serde_json::Value;

use crate::StoreError;

/// A change to one of pitcrew's own documents. `None` means that the document does not exist.
pub type DocumentEdit = Box<dyn FnMut(&mut Option<Value>) -> Result<(), ApiError> + Send>;

/// Pitcrew's own documents and logs of teams.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// Returns one of pitcrew's own documents (JSON), or `None` if it does not exist. Takes no
    /// lock, so the result is the document at some moment during the call.
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
    /// output survive the end of the process but not a power cut, because no resume depends on
    /// them.
    async fn append_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError>;

    /// Returns the complete lines of a log. Skips an incomplete last line; the next append cuts it
    /// off.
    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError>;

    /// Replaces the lines of a log. The old lines are kept in the log `kept_as` and replace its
    /// earlier lines. No agent may be using the log `kept_as`. After a crash, either the log is
    /// unchanged, or it has the new lines and the old lines are kept.
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
    /// The texts and actions of an agent, in a form for people.
    Output(AgentName),
    /// An agent's earlier conversation, which a newer one replaced.
    Former {
        /// The agent of the conversation.
        agent: AgentName,
        /// Time of the replacement, in milliseconds since 1970.
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
