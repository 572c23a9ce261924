//! Scripted models: real members of a team whose answers come from a YAML file.
//!
//! [`mod@format`] is the file, [`mod@told`] what an agent was told so far, [`condition`] what a script asks about that,
//! [`template`] its variables, [`replay`] finds the turn that is due, [`memory`] what is known of turns that were summarised. `docs/scripts.md` tells people how to write one.

mod condition;
mod format;
mod memory;
mod replay;
mod template;
mod told;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{
    AgentTag, Block, Model, ModelError, Request, Response, ResponseStream, StreamEvent, Usage, emit,
};

pub use memory::COMPACTION;
pub use replay::INTERRUPTED;

/// How long a script may be. The file is read whole.
const MAX_SCRIPT_BYTES: u64 = 4 * 1024 * 1024;

/// A script cannot be read, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script {} cannot be read", file.display())]
    Read {
        /// The script.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is too long to be a script.
    #[error("the script {} is longer than {MAX_SCRIPT_BYTES} bytes", file.display())]
    TooLong {
        /// The script.
        file: PathBuf,
    },
    /// The file is no script.
    #[error("the script {} has a fault: {reason}", file.display())]
    Form {
        /// The script.
        file: PathBuf,
        /// What and where.
        reason: String,
    },
    /// The script has nothing for this agent.
    #[error("the script {} has no turns for the agent {agent:?}; it knows {known}", file.display())]
    NoAgent {
        /// The script.
        file: PathBuf,
        /// The agent.
        agent: String,
        /// The names and patterns it knows.
        known: String,
    },
    /// A turn cannot be played.
    #[error("the script {} cannot play turn {turn} of the agent {agent:?}: {reason}", file.display())]
    Turn {
        /// The script.
        file: PathBuf,
        /// The agent.
        agent: String,
        /// The turn, counted from 1 through the conversation.
        turn: usize,
        /// Why.
        reason: String,
    },
}

/// A script that was read and has the right form.
#[derive(Debug)]
pub struct Script {
    file: PathBuf,
    content: format::ScriptFile,
}

impl Script {
    /// Reads a script from its file.
    ///
    /// # Errors
    /// When the file cannot be read or is no script.
    pub fn read(file: &Path) -> Result<Self, ScriptError> {
        let failed = |source| ScriptError::Read { file: file.to_owned(), source };
        let mut text = String::new();
        let opened = fs::File::open(file).map_err(failed)?;
        opened.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_SCRIPT_BYTES {
            return Err(ScriptError::TooLong { file: file.to_owned() });
        }
        Self::parse(file, &text)
    }

    /// Reads a script from its text; `file` is what errors call it.
    ///
    /// # Errors
    /// When it is no script.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScriptError> {
        let options = serde_saphyr::options! { with_snippet: false };
        match serde_saphyr::from_str_with_options(text, options) {
            Ok(content) => Ok(Self { file: file.to_owned(), content }),
            Err(error) => {
                Err(ScriptError::Form { file: file.to_owned(), reason: error.to_string() })
            }
        }
    }

    /// Returns the JSON schema of a script, as it is kept in `docs/script.schema.json`.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(format::ScriptFile).to_value()
    }

    /// Finds the answer that is due.
    fn answer(&self, request: &Request) -> Result<replay::Answer, ScriptError> {
        let agent = &request.agent;
        let steps = self.content.steps_for(&agent.name).ok_or_else(|| ScriptError::NoAgent {
            file: self.file.clone(),
            agent: agent.name.clone(),
            known: self.content.known_agents(),
        })?;
        replay::answer(steps, agent, &request.messages).map_err(|fault| ScriptError::Turn {
            file: self.file.clone(),
            agent: agent.name.clone(),
            turn: fault.turn,
            reason: fault.reason,
        })
    }
}

/// A model that plays a script.
///
/// It keeps no state: what it answers follows from the conversation alone, so a conversation that is resumed after a
/// crash goes on exactly where it was. It uses no tokens and costs nothing.
pub struct Scripted {
    id: String,
    script: Arc<Script>,
}

impl Scripted {
    /// Makes a model of a script.
    pub fn new(script: Script) -> Self {
        Self { id: format!("script:{}", script.file.display()), script: Arc::new(script) }
    }
}

impl Model for Scripted {
    fn id(&self) -> &str {
        &self.id
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn respond(&self, request: Request) -> ResponseStream {
        let script = Arc::clone(&self.script);
        let model = self.id.clone();
        emit::stream(move |out| async move {
            let answer = script.answer(&request).map_err(ModelError::Script)?;
            if answer.delay > Duration::ZERO {
                tokio::time::sleep(answer.delay).await;
            }
            for block in &answer.blocks {
                if let Some(event) = told(block) {
                    out.emit(event).await;
                }
            }
            let id = format!("msg_script_{}_{}", plain(&request.agent), answer.position);
            let stop = answer.stop();
            let response =
                Response { id, model, blocks: answer.blocks, stop, usage: Usage::default() };
            out.emit(StreamEvent::Finished(response)).await;
            Ok(())
        })
    }
}

/// Says of a block what a streaming model would have said.
fn told(block: &Block) -> Option<StreamEvent> {
    match block {
        Block::Text { text, .. } => Some(StreamEvent::TextDelta(text.clone())),
        Block::Thinking { thinking, .. } => Some(StreamEvent::ThinkingDelta(thinking.clone())),
        Block::ToolUse { name, .. } => Some(StreamEvent::ToolStarted { name: name.clone() }),
        Block::RedactedThinking { .. }
        | Block::ToolResult { .. }
        | Block::Image { .. }
        | Block::Other(_) => None,
    }
}

/// Writes an agent's name so that it can be part of an id.
fn plain(agent: &AgentTag) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
    };
    agent.name.chars().map(plain).collect()
}
