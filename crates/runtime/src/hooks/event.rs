//! The payloads hooks get, field for field as recorded (`fixtures/claude-2.1.39/hooks.ndjson`).

use pitcrew_protocol::PermissionMode;
use std::path::PathBuf;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

/// The session an event happens in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSession {
    /// The session's id.
    pub session_id: String,
    /// The file its conversation is kept in.
    pub transcript_path: PathBuf,
    /// The agent's working folder; the hook runs there.
    pub cwd: PathBuf,
    /// The agent's mode; left out of the events that never carry it.
    pub permission_mode: PermissionMode,
}

/// An event as a hook gets it on its standard input.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// Where it happens.
    pub session: HookSession,
    /// What happens.
    pub kind: HookKind,
}

/// What can happen, with the fields of each event in their recorded order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "hook_event_name")]
#[expect(
    missing_docs,
    reason = "the fields are the wire's own words, documented with the variants"
)]
pub enum HookKind {
    /// A tool is about to run.
    PreToolUse { tool_name: String, tool_input: Value, tool_use_id: String },
    /// A tool has run; `tool_response` is what it returned as data.
    PostToolUse { tool_name: String, tool_input: Value, tool_response: Value, tool_use_id: String },
    /// A prompt is about to be taken.
    UserPromptSubmit { prompt: String },
    /// A session begins; `source` is `startup`, `resume` or `clear`.
    SessionStart { source: String },
    /// A session ends; `reason` is `other`, `clear` or `prompt_input_exit`.
    SessionEnd { reason: String },
    /// The lead is about to stop; `stop_hook_active` when a stop hook kept it going before.
    Stop { stop_hook_active: bool },
    /// A subagent or teammate is about to end its turn.
    SubagentStop {
        stop_hook_active: bool,
        agent_id: String,
        agent_transcript_path: PathBuf,
        agent_type: String,
    },
    /// A teammate is about to go idle.
    TeammateIdle { teammate_name: String, team_name: String },
    /// A task is about to be made.
    TaskCreated(TaskFields),
    /// A task is about to be completed.
    TaskCompleted(TaskFields),
}

/// The fields of the two task events; the last two are absent outside a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are the wire's own words")]
pub struct TaskFields {
    pub task_id: String,
    pub task_subject: String,
    pub task_description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
}

/// What exit code 2, or a decision to block, means for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What was about to happen does not.
    Blocks,
    /// It has happened; the agent is told.
    Tells,
    /// Nothing can be refused.
    Warns,
}

impl HookKind {
    /// The event's name in the settings and on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::PreToolUse { .. } => "PreToolUse",
            Self::PostToolUse { .. } => "PostToolUse",
            Self::UserPromptSubmit { .. } => "UserPromptSubmit",
            Self::SessionStart { .. } => "SessionStart",
            Self::SessionEnd { .. } => "SessionEnd",
            Self::Stop { .. } => "Stop",
            Self::SubagentStop { .. } => "SubagentStop",
            Self::TeammateIdle { .. } => "TeammateIdle",
            Self::TaskCreated(_) => "TaskCreated",
            Self::TaskCompleted(_) => "TaskCompleted",
        }
    }

    /// The event's name with its tool, as injected context names it.
    #[must_use]
    pub fn label(&self) -> String {
        match self.subject().filter(|_| self.is_about_a_tool()) {
            Some(tool) => format!("{}:{tool}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// What a matcher is held against; events without it match every matcher.
    pub(super) fn subject(&self) -> Option<&str> {
        match self {
            Self::PreToolUse { tool_name, .. } | Self::PostToolUse { tool_name, .. } => {
                Some(tool_name)
            }
            Self::SessionStart { source } => Some(source),
            Self::SessionEnd { reason } => Some(reason),
            Self::SubagentStop { agent_type, .. } => Some(agent_type),
            Self::UserPromptSubmit { .. }
            | Self::Stop { .. }
            | Self::TeammateIdle { .. }
            | Self::TaskCreated(_)
            | Self::TaskCompleted(_) => None,
        }
    }

    pub(super) fn refusal(&self) -> Refusal {
        match self {
            Self::PreToolUse { .. }
            | Self::UserPromptSubmit { .. }
            | Self::Stop { .. }
            | Self::SubagentStop { .. }
            | Self::TeammateIdle { .. }
            | Self::TaskCreated(_)
            | Self::TaskCompleted(_) => Refusal::Blocks,
            Self::PostToolUse { .. } => Refusal::Tells,
            Self::SessionStart { .. } | Self::SessionEnd { .. } => Refusal::Warns,
        }
    }

    /// Whether plain text on the hook's output is context too.
    pub(super) fn takes_plain_text(&self) -> bool {
        matches!(self, Self::UserPromptSubmit { .. } | Self::SessionStart { .. })
    }

    fn is_about_a_tool(&self) -> bool {
        matches!(self, Self::PreToolUse { .. } | Self::PostToolUse { .. })
    }

    fn carries_mode(&self) -> bool {
        match self {
            Self::SessionStart { .. }
            | Self::SessionEnd { .. }
            | Self::TaskCreated(_)
            | Self::TaskCompleted(_) => false,
            Self::PreToolUse { .. }
            | Self::PostToolUse { .. }
            | Self::UserPromptSubmit { .. }
            | Self::Stop { .. }
            | Self::SubagentStop { .. }
            | Self::TeammateIdle { .. } => true,
        }
    }
}

impl Serialize for HookEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Payload<'a> {
            session_id: &'a str,
            transcript_path: &'a PathBuf,
            cwd: &'a PathBuf,
            #[serde(skip_serializing_if = "Option::is_none")]
            permission_mode: Option<PermissionMode>,
            #[serde(flatten)]
            kind: &'a HookKind,
        }
        Payload {
            session_id: &self.session.session_id,
            transcript_path: &self.session.transcript_path,
            cwd: &self.session.cwd,
            permission_mode: self.kind.carries_mode().then_some(self.session.permission_mode),
            kind: &self.kind,
        }
        .serialize(serializer)
    }
}
