//! The JSON object of an error: `{"success": false, "error", "message", "details"?}`.
//!
//! Source: the section "Error Handling" of the API reference, which has ten codes. We add two
//! codes: `invalid_request` for malformed input (a name with a NUL, a text over the limit), and
//! `message_not_found`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The team does not exist.
    TeamNotFound,
    /// The agent is not in the team.
    AgentNotFound,
    /// The task does not exist.
    TaskNotFound,
    /// The team name is in use, or another team's name maps to the same folder.
    TeamAlreadyExists,
    /// The agent name is in use, or another agent's name maps to the same inbox file.
    AgentAlreadyExists,
    /// The current state of the team, agent or task does not allow the action.
    InvalidStatus,
    /// The dependency would close a circle of tasks.
    CircularDependency,
    /// The caller is not allowed to do the action.
    PermissionDenied,
    /// A rate limit or another limit is exceeded.
    RateLimit,
    /// A layer below the API failed.
    InternalError,
    /// The request is malformed. This code is ours and not in the API reference.
    InvalidRequest,
    /// No team has a message with the given id. This code is ours and not in the API reference.
    MessageNotFound,
}

impl ErrorCode {
    /// All error codes.
    pub const ALL: [Self; 12] = [
        Self::TeamNotFound,
        Self::AgentNotFound,
        Self::TaskNotFound,
        Self::TeamAlreadyExists,
        Self::AgentAlreadyExists,
        Self::InvalidStatus,
        Self::CircularDependency,
        Self::PermissionDenied,
        Self::RateLimit,
        Self::InternalError,
        Self::InvalidRequest,
        Self::MessageNotFound,
    ];

    /// Returns the code's name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TeamNotFound => "team_not_found",
            Self::AgentNotFound => "agent_not_found",
            Self::TaskNotFound => "task_not_found",
            Self::TeamAlreadyExists => "team_already_exists",
            Self::AgentAlreadyExists => "agent_already_exists",
            Self::InvalidStatus => "invalid_status",
            Self::CircularDependency => "circular_dependency",
            Self::PermissionDenied => "permission_denied",
            Self::RateLimit => "rate_limit",
            Self::InternalError => "internal_error",
            Self::InvalidRequest => "invalid_request",
            Self::MessageNotFound => "message_not_found",
        }
    }

    /// Returns the HTTP status for the code.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::TeamNotFound
            | Self::AgentNotFound
            | Self::TaskNotFound
            | Self::MessageNotFound => 404,
            Self::TeamAlreadyExists | Self::AgentAlreadyExists => 409,
            Self::InvalidStatus | Self::CircularDependency | Self::InvalidRequest => 400,
            Self::PermissionDenied => 403,
            Self::RateLimit => 429,
            Self::InternalError => 500,
        }
    }
}

/// An error as the API returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The error code.
    pub code: ErrorCode,
    /// The error message, one sentence for a person or a model.
    pub message: String,
    /// Further details by name, such as the valid names, a similar name or the limit.
    pub details: Map<String, Value>,
}

impl ApiError {
    /// Creates an error without details.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    /// Adds one more detail to the error.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

#[derive(Serialize, Deserialize)]
struct Envelope {
    success: bool,
    error: ErrorCode,
    message: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    details: Map<String, Value>,
}

impl Serialize for ApiError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let envelope = Envelope {
            success: false,
            error: self.code,
            message: self.message.clone(),
            details: self.details.clone(),
        };
        envelope.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ApiError {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let envelope = Envelope::deserialize(deserializer)?;
        Ok(Self { code: envelope.error, message: envelope.message, details: envelope.details })
    }
}
