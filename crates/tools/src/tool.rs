//! The interface of tools: the trait `Tool`, the context of a call, and the outcome of a call.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_permission::gate::Gate;
use pitcrew_process::sandbox::{Profile, Sandbox};
use pitcrew_protocol::{InputError, PermissionMode, ToolTraits, tool_schema};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ReadLog, Shells};

/// A tool that an agent can call.
///
/// Whatever the input is, a call never panics and never leaves an incomplete change. If the future
/// of a call is dropped, all processes that the call started are stopped.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name by which models call the tool. If the table of tools ([`ToolDescriptor`])
    /// contains this name, the tool's schema and traits come from the table.
    ///
    /// [`ToolDescriptor`]: pitcrew_protocol::ToolDescriptor
    fn name(&self) -> &str;

    /// Returns a text for the model that says what the tool does and when to use it.
    fn description(&self) -> &str;

    /// Returns the JSON schema of the tool's input. The schema describes an object.
    fn input_schema(&self) -> Value {
        tool_schema(self.name()).unwrap_or_else(|| json!({"type": "object"}))
    }

    /// Returns the properties of the tool's calls: how the permission gate judges them, what effect
    /// they have on the agent, and how they are shown.
    fn traits(&self) -> ToolTraits {
        ToolTraits::of(self.name())
    }

    /// Returns a failed outcome if the call would fail even if it were allowed. Nobody is asked for
    /// permission for such a call. This function changes nothing.
    async fn refusal(&self, _input: &Value, _context: &ToolContext) -> Option<ToolOutcome> {
        None
    }

    /// Runs the call. If the call is cancelled through the context, it ends early, and its outcome
    /// says so.
    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome;
}

/// The context in which the tools of one agent run. Cloning is cheap, and all clones share the read
/// log and the list of background commands.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The absolute path of the folder in which commands run. Relative paths in calls start from
    /// this folder.
    pub cwd: PathBuf,
    /// Environment variables for commands. Commands also inherit the variables of this process.
    pub env: Vec<(String, String)>,
    /// The id of the call. No other call in the team has the same id. If a call is repeated after a
    /// crash, it has the same id again.
    pub call: String,
    /// The real path of the call's file or folder, as the permission gate checked it. A tool opens
    /// this path only if no part of it is a link. If the gate did not check the call, the value is
    /// `None`, and the tool finds the real path just before use.
    pub judged: Option<PathBuf>,
    /// The token that cancels the running calls.
    pub cancel: CancellationToken,
    /// The permission gate. It knows which files this agent is not allowed to read. Tools that
    /// search folders ask the gate about each file.
    pub gate: Arc<Gate>,
    /// The sandbox. It keeps each command within the limits of its sandbox profile, and prevents
    /// changes to the team's own folders.
    pub sandbox: Sandbox,
    /// The permission mode in which the call was allowed.
    pub mode: PermissionMode,
    /// The sandbox profile for the call. It matters only if the call runs a command.
    pub profile: Profile,
    /// Whether a call of this agent is allowed to run a command without the sandbox.
    pub may_unconfine: bool,
    /// The record of the files that this agent has read. With this record, the tools refuse to
    /// overwrite content that the agent has not seen.
    pub reads: ReadLog,
    /// The background commands of this agent.
    pub shells: Shells,
    /// The limits that apply to each call.
    pub limits: ToolLimits,
}

/// The limits that apply to each call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// The time limit of a command, if the call gives none.
    pub command_time: Duration,
    /// The longest time limit that a call is allowed to give for a command.
    pub command_time_most: Duration,
    /// The time between SIGTERM and SIGKILL when a command is stopped.
    pub stop_grace: Duration,
    /// The maximum number of characters of output for the model. The middle part of a longer output
    /// is removed.
    pub output_chars: usize,
    /// The maximum number of bytes that one background command writes to its output file.
    pub background_bytes: u64,
    /// The number of lines that a call of Read shows, if the call gives none.
    pub read_lines: usize,
    /// The maximum number of characters that a call of Read shows.
    pub read_chars: usize,
    /// The maximum number of characters that are shown of one line.
    pub line_chars: usize,
    /// The maximum size of a file that is read, searched or changed, in bytes.
    pub file_bytes: u64,
    /// The maximum number of files that a call of Glob lists.
    pub found_files: usize,
    /// The number of lines or files that a call of Grep lists, if the call gives none.
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

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct ToolOutcome {
    /// The text for the model.
    pub text: String,
    /// The data for programs. In the stream, it is the field `tool_use_result`, as in
    /// `fixtures/claude-2.1.39/stream-json`.
    pub data: Value,
    /// Whether the tool call failed.
    pub is_error: bool,
}

impl ToolOutcome {
    /// Creates the outcome of a successful call.
    pub fn done(text: impl Into<String>, data: Value) -> Self {
        Self { text: text.into(), data, is_error: false }
    }

    /// Creates the outcome of a call that failed.
    pub fn failed(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { data: Value::String(format!("Error: {text}")), text, is_error: true }
    }

    /// Creates the outcome of a call that was refused before it did anything.
    pub fn refused(reason: impl std::fmt::Display) -> Self {
        Self {
            text: format!("<tool_use_error>{reason}</tool_use_error>"),
            data: Value::String(format!("Error: {reason}")),
            is_error: true,
        }
    }

    /// Creates the outcome of a call whose input cannot be parsed. The error texts are taken from
    /// the recordings of the reference client.
    pub fn malformed(error: &InputError) -> Self {
        Self { text: error.text(), data: Value::String(error.data()), is_error: true }
    }

    /// Creates the outcome of a call that ended because the agent was interrupted.
    pub fn interrupted() -> Self {
        Self::failed("The call was interrupted before it was finished.")
    }
}
