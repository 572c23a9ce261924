//! Scripted models. The answers of such a model come from a YAML file, so the real agents of a team
//! can run without a language model.
//!
//! [`mod@format`] is the format of the file. [`mod@told`] lists the texts that an agent received,
//! and [`condition`] evaluates the conditions of a script on these texts. [`template`] replaces the
//! variables of a script. [`replay`] finds the next turn, and [`memory`] remembers the turns that a
//! summary has replaced. `docs/scripts.md` explains how to write a script.

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

use pitcrew_protocol::{YamlBounds, from_yaml};

use crate::{
    AgentTag, Block, Model, ModelError, Request, Response, ResponseStream, StreamEvent, Usage,
    bounds, emit,
};

pub use memory::COMPACTION;
pub use replay::INTERRUPTED;

/// Maximum size of a script file in bytes. There is a limit because the whole file is read into
/// memory.
const MAX_SCRIPT_BYTES: u64 = YamlBounds::SCRIPT.bytes as u64;

/// An error that happens when a script is read or played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The script file cannot be read.
    #[error("the script {} cannot be read", file.display())]
    Read {
        /// The path of the script.
        file: PathBuf,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
    /// The script file is too large.
    #[error("the script {} is longer than {MAX_SCRIPT_BYTES} bytes", file.display())]
    TooLong {
        /// The path of the script.
        file: PathBuf,
    },
    /// The file is not a valid script.
    #[error("the script {} is invalid: {reason}", file.display())]
    Form {
        /// The path of the script.
        file: PathBuf,
        /// A description of the fault and its position.
        reason: String,
    },
    /// The script has no turns for this agent.
    #[error("the script {} has no turns for the agent {agent:?}; it knows {known}", file.display())]
    NoAgent {
        /// The path of the script.
        file: PathBuf,
        /// The name of the agent.
        agent: String,
        /// The agent names and patterns that the script contains.
        known: String,
    },
    /// A turn of the script cannot be played.
    #[error("the script {} cannot play turn {turn} of the agent {agent:?}: {reason}", file.display())]
    Turn {
        /// The path of the script.
        file: PathBuf,
        /// The name of the agent.
        agent: String,
        /// The number of the turn in the conversation, counted from 1.
        turn: usize,
        /// The reason why the turn cannot be played.
        reason: String,
    },
}

/// A script that was read and is valid.
#[derive(Debug)]
pub struct Script {
    file: PathBuf,
    content: format::ScriptFile,
}

impl Script {
    /// Reads a script from its file.
    ///
    /// # Errors
    /// When the file cannot be read or is not a script.
    #[expect(clippy::disallowed_methods, reason = "a script is a file that the user names")]
    pub fn read(file: &Path) -> Result<Self, ScriptError> {
        let failed = |source| ScriptError::Read { file: file.to_owned(), source };
        let mut text = String::new();
        let opened = fs::File::open(file).map_err(failed)?;
        // Read one byte more than the limit, to see whether the file is too long.
        opened.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_SCRIPT_BYTES {
            return Err(ScriptError::TooLong { file: file.to_owned() });
        }
        Self::parse(file, &text)
    }

    /// Reads a script from its text. Error messages name `file` as the script's path.
    ///
    /// # Errors
    /// When the text is not a script.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScriptError> {
        match from_yaml(text, YamlBounds::SCRIPT) {
            Ok(content) => Ok(Self { file: file.to_owned(), content }),
            Err(reason) => Err(ScriptError::Form { file: file.to_owned(), reason }),
        }
    }

    /// Returns the JSON schema of a script, as stored in `docs/script.schema.json`.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(format::ScriptFile).to_value()
    }

    /// Returns the next answer of the agent that makes the request.
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
/// The model has no state, because its answers depend only on the conversation. So after a crash, a
/// resumed conversation continues exactly at the same point. The model uses no tokens and costs
/// nothing.
pub struct Scripted {
    id: String,
    script: Arc<Script>,
}

impl Scripted {
    /// Creates a model from a script.
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
            bounds::check("script", &response)?;
            out.emit(StreamEvent::Finished(response)).await;
            Ok(())
        })
    }
}

/// Returns the event that a streaming model sends for this block. Returns `None` if a model sends
/// no event for the block.
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

/// Replaces all characters of an agent's name that must not be part of an id.
fn plain(agent: &AgentTag) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
    };
    agent.name.chars().map(plain).collect()
}
