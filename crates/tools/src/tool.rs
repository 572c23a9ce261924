//! What a tool is: the trait, what a call is given and what it answers.

use pitcrew_protocol::{InputError, PermissionMode, ToolTraits, tool_schema};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ReadLog, Shells};
use pitcrew_permission::gate::Gate;
use pitcrew_process::sandbox::{Profile, Sandbox};

/// Something an agent can do.
///
/// A call never panics and never leaves a half-made change, whatever its input. A call whose future
/// is dropped stops what it had started.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The name by which models call it. With a name of the table ([`ToolDescriptor`]) the rest need not be said.
    ///
    /// [`ToolDescriptor`]: pitcrew_protocol::ToolDescriptor
    fn name(&self) -> &str;

    /// Tells the model what it does and when to use it.
    fn description(&self) -> &str;

    /// The JSON schema of its input: an object at the top.
    fn input_schema(&self) -> Value {
        tool_schema(self.name()).unwrap_or_else(|| json!({"type": "object"}))
    }

    /// What its calls mean to those who make, judge and show them.
    fn traits(&self) -> ToolTraits {
        ToolTraits::of(self.name())
    }

    /// Why the call would fail even if it were allowed: a person is not asked about such a call. Changes nothing.
    async fn refusal(&self, _input: &Value, _context: &ToolContext) -> Option<ToolOutcome> {
        None
    }

    /// Does the work. Ends early, saying so, when the context is cancelled.
    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome;
}

/// What the tools of one agent work with. Cheap to clone; clones share the logs.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The folder relative paths start from and commands run in; absolute.
    pub cwd: PathBuf,
    /// Variables set for commands, on top of what this process inherited.
    pub env: Vec<(String, String)>,
    /// The call, by a name that no other call of the team has; made again after a crash it has the same.
    pub call: String,
    /// The real path of the file or folder that the call is about, as the gate judged it. It is opened so that no part of it
    /// is a link. A call that nobody judged has none: then the path is resolved right before.
    pub judged: Option<PathBuf>,
    /// Ends the calls that are running.
    pub cancel: CancellationToken,
    /// What this agent may not read: tools that walk a tree ask for each file.
    pub gate: Arc<Gate>,
    /// What holds commands to their profile, and changes of files out of the team's own folders.
    pub sandbox: Sandbox,
    /// The permission mode that the call is made in.
    pub mode: PermissionMode,
    /// What the call may do, if it is a command.
    pub profile: Profile,
    /// Whether a command may ask to run without it.
    pub may_unconfine: bool,
    /// What this agent has read, so that it does not overwrite what it has not seen.
    pub reads: ReadLog,
    /// The background shells of this agent.
    pub shells: Shells,
    /// How much a call may take and answer.
    pub limits: ToolLimits,
}

/// How much one call may take and answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// How long a command may run when it does not say.
    pub command_time: Duration,
    /// How long a command may ask to run.
    pub command_time_most: Duration,
    /// How long a command has between TERM and KILL.
    pub stop_grace: Duration,
    /// Characters of output a model is shown; the middle of longer output is cut.
    pub output_chars: usize,
    /// Bytes of output kept on disk for one background command.
    pub background_bytes: u64,
    /// Lines one Read shows when it does not say.
    pub read_lines: usize,
    /// Characters one Read shows.
    pub read_chars: usize,
    /// Characters of one line that are shown.
    pub line_chars: usize,
    /// Bytes of the largest file that is read, searched or changed.
    pub file_bytes: u64,
    /// Files one Glob lists.
    pub found_files: usize,
    /// Lines or files one Grep lists when it does not say.
    pub found_lines: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            command_time: Duration::from_secs(120),
            command_time_most: Duration::from_secs(600),
            stop_grace: Duration::from_secs(2),
            output_chars: 30_000,
            background_bytes: 64 << 20,
            read_lines: 2_000,
            read_chars: 100_000,
            line_chars: 2_000,
            file_bytes: 64 << 20,
            found_files: 100,
            found_lines: 250,
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct ToolOutcome {
    /// What the model reads.
    pub text: String,
    /// What programs read: the `tool_use_result` of the stream, as in `fixtures/claude-2.1.39/stream-json`.
    pub data: Value,
    /// Whether the call failed.
    pub is_error: bool,
}

impl ToolOutcome {
    /// Tells of a call that succeeded.
    pub fn done(text: impl Into<String>, data: Value) -> Self {
        Self { text: text.into(), data, is_error: false }
    }

    /// Tells of work that failed.
    pub fn failed(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { data: Value::String(format!("Error: {text}")), text, is_error: true }
    }

    /// Tells of a call that was turned down before anything was done.
    pub fn refused(reason: impl std::fmt::Display) -> Self {
        Self {
            text: format!("<tool_use_error>{reason}</tool_use_error>"),
            data: Value::String(format!("Error: {reason}")),
            is_error: true,
        }
    }

    /// Tells of an input that cannot be read, in the recorded words.
    pub fn malformed(error: &InputError) -> Self {
        Self { text: error.text(), data: Value::String(error.data()), is_error: true }
    }

    /// Tells of a call that ended because the agent was interrupted.
    pub fn interrupted() -> Self {
        Self::failed("The call was interrupted before it was finished.")
    }
}
