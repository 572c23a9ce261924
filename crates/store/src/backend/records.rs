//! Our own records of a team beside its journal: documents that are changed, and logs that grow.

use async_trait::async_trait;
use pitcrew_protocol::{AgentName, ApiError, TeamDir};
use serde_json::Value;

use crate::StoreError;

/// A change to one of our own documents; `None` is a document that is not there.
pub type DocumentEdit = Box<dyn FnMut(&mut Option<Value>) -> Result<(), ApiError> + Send>;

/// Our own documents and logs of teams.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// One of our own documents (JSON); `None` when it is not there yet. Takes no lock: it is the document of some moment
    /// during the call.
    async fn document(
        &self,
        team: &TeamDir,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError>;

    /// Reads, changes and writes a document; one that the edit leaves as it was is not written.
    async fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        edit: DocumentEdit,
    ) -> Result<(), StoreError>;

    /// Appends lines to a log. Those of a transcript are on disk when it returns; an output, which nobody goes on from,
    /// outlives the process and not a power cut.
    async fn append_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError>;

    /// The whole lines of a log; a torn last line is passed over, and cut off by the next append.
    async fn log(&self, team: &TeamDir, log: &LogName) -> Result<Vec<String>, StoreError>;

    /// Puts lines in the place of a log's, which are kept in the log `kept_as`; that one must be nobody's, and is replaced.
    /// A crash leaves the log as it was, or with the new lines and the old ones kept.
    async fn replace_log(
        &self,
        team: &TeamDir,
        log: &LogName,
        lines: &[String],
        kept_as: &LogName,
    ) -> Result<(), StoreError>;
}

/// One of our own append-only files of a team.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogName {
    /// An agent's conversation, a JSON line a step.
    Transcript(AgentName),
    /// What an agent said and did, for people.
    Output(AgentName),
    /// The conversation an agent had until another one took its place.
    Former {
        /// Whose it was.
        agent: AgentName,
        /// Until when, in milliseconds since 1970.
        until_ms: i64,
    },
}

impl LogName {
    /// Where the log stands below the team's own folder.
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
