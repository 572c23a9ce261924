//! The JSON payloads that hooks receive. The fields are the same as in the recording
//! `fixtures/claude-2.1.39/hooks.ndjson`.

use pitcrew_protocol::PermissionMode;
use std::path::PathBuf;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

/// The session in which an event happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSession {
    /// The session's id.
    pub session_id: String,
    /// The path of the session's transcript.
    pub transcript_path: PathBuf,
    /// The agent's working folder. The hook runs in this folder.
    pub cwd: PathBuf,
    /// The agent's permission mode. The JSON of some events never contains the mode.
    pub permission_mode: PermissionMode,
}

/// An event, in the form in which pitcrew writes it to a hook's standard input.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// The session in which the event happens.
    pub session: HookSession,
    /// The kind of event, with its data.
    pub kind: HookKind,
}

/// The kinds of events. The fields of each kind have the same order as in the recording
/// `fixtures/claude-2.1.39/hooks.ndjson`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "hook_event_name")]
#[expect(
    missing_docs,
    reason = "the fields are the wire's own words, documented with the variants"
)]
pub enum HookKind {
    /// A tool is about to run.
    PreToolUse { tool_name: String, tool_input: Value, tool_use_id: String },
    /// A tool has run. `tool_response` is the tool's result as data.
    PostToolUse { tool_name: String, tool_input: Value, tool_response: Value, tool_use_id: String },
    /// A prompt of the user is about to be accepted.
    UserPromptSubmit { prompt: String },
    /// A session begins. `source` is `startup`, `resume` or `clear`.
    SessionStart { source: String },
    /// A session ends. `reason` is `other`, `clear` or `prompt_input_exit`.
    SessionEnd { reason: String },
    /// The lead is about to stop. `stop_hook_active` is true if a stop hook has already made the
    /// lead continue.
    Stop { stop_hook_active: bool },
    /// A subagent or teammate is about to end its turn.
    SubagentStop {
        stop_hook_active: bool,
        agent_id: String,
        agent_transcript_path: PathBuf,
        agent_type: String,
    },
    /// A teammate is about to go idle. `stop_hook_active` is as in `Stop`. The recorded client does
    /// not write it, so it is absent when it is false.
    TeammateIdle {
        teammate_name: String,
        team_name: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        stop_hook_active: bool,
    },
    /// A task is about to be created.
    TaskCreated(TaskFields),
    /// A task is about to be completed.
    TaskCompleted(TaskFields),
}

/// The fields of the events `TaskCreated` and `TaskCompleted`. Outside a team, `teammate_name` and
/// `team_name` are absent.
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

/// What pitcrew does when a hook exits with code 2 or decides to block. This depends on the kind of
/// the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The hook prevents the action.
    Blocks,
    /// The action has already happened. The agent only receives the hook's text.
    Tells,
    /// Nothing can prevent the event. The hook's text becomes a warning for the user.
    Warns,
}

impl HookKind {
    /// Returns the event's name as used in the settings and in the JSON.
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

    /// Returns the event's name, together with its tool if it has one. This form is used in the
    /// context that a hook inserts into the conversation.
    #[must_use]
    pub fn label(&self) -> String {
        match self.subject().filter(|_| self.is_about_a_tool()) {
            Some(tool) => format!("{}:{tool}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// Returns the text that a matcher is compared with. `None` if the event has no such text;
    /// every matcher then matches.
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

    /// Returns the tool and the input of the call that the event is about.
    pub(super) fn call(&self) -> Option<(&str, &Value)> {
        match self {
            Self::PreToolUse { tool_name, tool_input, .. }
            | Self::PostToolUse { tool_name, tool_input, .. } => Some((tool_name, tool_input)),
            Self::UserPromptSubmit { .. }
            | Self::SessionStart { .. }
            | Self::SessionEnd { .. }
            | Self::Stop { .. }
            | Self::SubagentStop { .. }
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

    /// Returns true if a hook for this event can add context to the conversation by printing plain
    /// text (not JSON) on its standard output.
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
