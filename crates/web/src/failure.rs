//! The error of a request: the API's error envelope with an HTTP status.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pitcrew_protocol::{ApiError, InputError, chain};
use pitcrew_runtime::control_socket::KnockError;
use pitcrew_team::store::StoreError;
use pitcrew_view::ViewError;
use pitcrew_view::lead::LeadError;
use pitcrew_view::running::Running;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::devices::DeviceError;

/// The error codes that only the server has. All others are those of
/// [`ErrorCode`](pitcrew_protocol::ErrorCode).
pub(crate) mod code {
    /// No token, or a wrong one.
    pub(crate) const UNAUTHORIZED: &str = "unauthorized";
    /// The request comes from another site, another user, or a tool of an agent.
    pub(crate) const FORBIDDEN: &str = "forbidden";
    /// There is no such path.
    pub(crate) const NOT_FOUND: &str = "not_found";
    /// The path has no such method.
    pub(crate) const METHOD_NOT_ALLOWED: &str = "method_not_allowed";
    /// The idempotency key was used for another request.
    pub(crate) const KEY_REUSED: &str = "idempotency_key_reused";
    /// The thing changed since the caller saw it.
    pub(crate) const CHANGED: &str = "changed";
    /// The body is longer than the limit.
    pub(crate) const TOO_LARGE: &str = "payload_too_large";
    /// The body did not come in time.
    pub(crate) const TIMEOUT: &str = "request_timeout";
    /// The body is not JSON.
    pub(crate) const MEDIA_TYPE: &str = "unsupported_media_type";
    /// No pitcrew process runs the team, or it does not answer.
    pub(crate) const NOT_RUNNING: &str = "not_running";
}

/// Marks the answer of a request whose team was not found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoTeam;

/// The message of an error, for an answer that is no JSON.
#[derive(Clone, Debug)]
pub(crate) struct Message(pub(crate) String);

/// The error of a request.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Map<String, Value>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: Map::new() }
    }

    /// Adds one more detail.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The error for a request that the router refused by itself.
    pub(crate) fn unexplained(status: StatusCode) -> Self {
        let code = match status.is_client_error() {
            true => pitcrew_protocol::ErrorCode::InvalidRequest,
            false => pitcrew_protocol::ErrorCode::InternalError,
        };
        let reason = status.canonical_reason().unwrap_or("the request failed");
        Self::new(status, code.as_str(), format!("the server answers: {reason}"))
    }

    /// The error for a request that a person or a program formed wrongly.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        let code = pitcrew_protocol::ErrorCode::InvalidRequest;
        Self::new(StatusCode::BAD_REQUEST, code.as_str(), message)
    }

    /// The error for an action that only a pitcrew process can do, and another client leads the team.
    pub(crate) fn led_by_another(team: &str, running: &Running) -> Self {
        let message = format!(
            "team '{team}' is {}, and only a pitcrew process that runs a team can do this",
            running.text()
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code::NOT_RUNNING, message)
            .with("team_name", team)
    }

    /// The error for an action that only the process of the team can do.
    pub(crate) fn not_running(team: &str) -> Self {
        let message = format!(
            "no pitcrew process runs team '{team}', and only such a process can do this; `pitcrew run --resume` starts one"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code::NOT_RUNNING, message)
            .with("team_name", team)
    }

    /// The error for a team whose process does not answer.
    pub(crate) fn silent(team: &str) -> Self {
        let message = format!(
            "the process that runs team '{team}' does not answer; it may be suspended (Ctrl-Z, SIGSTOP) or overloaded"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code::NOT_RUNNING, message)
            .with("team_name", team)
    }

    /// The error for a failure of the server, the disk or the system.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        let code = pitcrew_protocol::ErrorCode::InternalError;
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code.as_str(), chain(error))
    }

    /// Returns the failure of a request whose caller is not known yet, because the devices cannot be
    /// read. It names no path; the log of the server does.
    pub(crate) fn of_devices(error: &DeviceError) -> Self {
        tracing::error!(error = chain(error), "the devices cannot be used");
        let said = "the devices cannot be used; `pitcrew devices` on the server's machine says why";
        Self::internal(&std::io::Error::other(said))
    }

    /// Returns the message for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the body of the answer.
    pub(crate) fn envelope(self) -> Envelope {
        let Self { code, message, details, .. } = self;
        Envelope { success: false, error: code, message, details }
    }
}

/// The body of an error.
#[derive(Serialize)]
pub(crate) struct Envelope {
    success: bool,
    error: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    details: Map<String, Value>,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let is_no_team = self.code == pitcrew_protocol::ErrorCode::TeamNotFound.as_str();
        let wait_ms = self.details.get("retry_after_ms").and_then(Value::as_u64);
        let message = Message(self.message.clone());
        let mut response = (self.status, Json(self.envelope())).into_response();
        if let Some(wait_ms) = wait_ms {
            let seconds = HeaderValue::from(wait_ms.div_ceil(1000).max(1));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response.extensions_mut().insert(message);
        if is_no_team {
            response.extensions_mut().insert(NoTeam);
        }
        response
    }
}

impl From<ApiError> for Failure {
    fn from(ApiError { code, message, details }: ApiError) -> Self {
        let status =
            StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code: code.as_str(), message, details }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        let faults: Vec<String> = error.faults.iter().map(ToString::to_string).collect();
        Self::invalid(faults.join("; ")).with("faults", faults)
    }
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Team(error) => error.into(),
            ViewError::Store { team, source: StoreError::NoTeam { .. } } => {
                let said = format!("team '{team}' does not exist");
                ApiError::new(pitcrew_protocol::ErrorCode::TeamNotFound, said)
                    .with("team_name", team.to_string())
                    .into()
            }
            error @ ViewError::Store { .. } => Self::internal(&error),
        }
    }
}

impl From<LeadError> for Failure {
    fn from(error: LeadError) -> Self {
        match error {
            LeadError::View(error) => error.into(),
            LeadError::Refused { error, .. } => error.into(),
            LeadError::NeedsLead { team, .. } => Self::not_running(team.as_str()),
            LeadError::Unreachable { team, error: KnockError::Silent { .. }, .. } => {
                Self::silent(team.as_str())
            }
            error @ (LeadError::Unreachable { .. } | LeadError::OtherProtocol { .. }) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, code::NOT_RUNNING, chain(&error))
            }
        }
    }
}
