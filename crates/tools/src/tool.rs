//! The tool interface: the trait, the context of a call, and its outcome.

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
/// For any input, a call never panics and never leaves an incomplete change. If the future of a
/// call is dropped, all processes that the call started are stopped.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name that models use to call the tool. If the table of tools
    /// ([`ToolDescriptor`]) contains this name, the tool's schema and traits come from the table.
    ///
    /// [`ToolDescriptor`]: pitcrew_protocol::ToolDescriptor
    fn name(&self) -> &str;

    /// Returns a text for the model that says what the tool does and when to use it.
    fn description(&self) -> &str;

    /// Returns the JSON schema of the tool's input. The schema describes an object.
    fn input_schema(&self) -> Value {
        tool_schema(self.name()).unwrap_or_else(|| json!({"type": "object"}))
    }

    /// The properties of the tool's calls: how the gate judges them, what they mean to the agent,
    /// and how they are shown.
    fn traits(&self) -> ToolTraits {
        ToolTraits::of(self.name())
    }

    /// Returns the reason why the call would fail even if it were allowed. Nobody is asked for
    /// permission for such a call. This function changes nothing.
    async fn refusal(&self, _input: &Value, _context: &ToolContext) -> Option<ToolOutcome> {
        None
    }

    /// Runs the call. If the context is cancelled, the call ends early and its outcome says so.
    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome;
}

/// The context in which the tools of one agent run. Cloning is cheap, and clones share the logs.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The absolute path of the folder in which commands run. Relative paths in calls start from
    /// this folder.
    pub cwd: PathBuf,
    /// Variables for commands, in addition to those of this process.
    pub env: Vec<(String, String)>,
    /// The id of the call, unique in the team. A call that is repeated after a crash has the same
    /// id.
    pub call: String,
    /// The real path of the call's file or folder, as the gate checked it. A tool opens this path
    /// only if no part of it is a link. If the gate did not check the call, this is None, and the
    /// tool resolves the path just before use.
    pub judged: Option<PathBuf>,
    /// Cancels the running calls.
    pub cancel: CancellationToken,
    /// The permission gate. It knows the files that this agent may not read, so tools that search
    /// folders ask the gate about each file.
    pub gate: Arc<Gate>,
    /// The sandbox. It limits commands to their sandbox profile, and prevents changes to the team's
    /// own folders.
    pub sandbox: Sandbox,
    /// The permission mode of the call.
    pub mode: PermissionMode,
    /// The sandbox profile of the call, if it is a command.
    pub profile: Profile,
    /// Whether the agent may request to run a command without the sandbox.
    pub may_unconfine: bool,
    /// The files that this agent has read, so that it does not overwrite content it has not seen.
    pub reads: ReadLog,
    /// The background shells of this agent.
    pub shells: Shells,
    /// The limits of a call.
    pub limits: ToolLimits,
}

/// The limits of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Default time limit of a command.
    pub command_time: Duration,
    /// Longest time limit that an agent may request for a command.
    pub command_time_most: Duration,
    /// Time between TERM and KILL when a command is stopped.
    pub stop_grace: Duration,
    /// Maximum number of output characters for the model. Longer output is cut in the middle.
    pub output_chars: usize,
    /// Maximum number of output bytes stored on disk for one background command.
    pub background_bytes: u64,
    /// Default number of lines shown by one Read.
    pub read_lines: usize,
    /// Maximum number of characters shown by one Read.
    pub read_chars: usize,
    /// Maximum number of characters shown of one line.
    pub line_chars: usize,
    /// Maximum size in bytes of a file to read, search or change.
    pub file_bytes: u64,
    /// Maximum number of files listed by one Glob.
    pub found_files: usize,
    /// Default number of lines or files listed by one Grep.
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
    /// The data for programs: the `tool_use_result` of the stream, as in
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

    /// Creates the outcome for an input that cannot be parsed. The texts are the recorded ones of
    /// the reference client.
    pub fn malformed(error: &InputError) -> Self {
        Self { text: error.text(), data: Value::String(error.data()), is_error: true }
    }

    /// Creates the outcome of a call that ended because the agent was interrupted.
    pub fn interrupted() -> Self {
        Self::failed("The call was interrupted before it was finished.")
    }
}
