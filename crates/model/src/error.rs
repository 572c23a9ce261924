//! The errors of model calls, grouped by what a caller can do about them.

use std::time::Duration;

use crate::ScriptError;

/// An error of a model call, or of opening a model.
///
/// The field `vendor` is always `anthropic`, `openai` or `ollama`.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The text does not name a model.
    #[error(
        "{given:?} names no model; write anthropic/NAME, openai/NAME, ollama/NAME or script:FILE, or one of opus, sonnet, haiku"
    )]
    Spec {
        /// The text that does not name a model.
        given: String,
    },
    /// No model was chosen, and there is no default.
    #[error(
        "no model to use: name one with --model or in the settings, or set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local Ollama that has a model"
    )]
    NoModel,
    /// The vendor's own service needs a key, and no key is set.
    #[error("{vendor} needs a key: set {variable}")]
    MissingKey {
        /// The name of the vendor.
        vendor: &'static str,
        /// The environment variable that should contain the key.
        variable: &'static str,
    },
    /// The base URL of a vendor is invalid.
    #[error("the base URL {url:?} of {vendor} is not an http or https URL")]
    BaseUrl {
        /// The vendor's name.
        vendor: &'static str,
        /// The invalid URL.
        url: String,
    },
    /// The HTTP client could not be created. For example, the root certificates of the system are
    /// not readable.
    #[error("cannot create the HTTP client for {vendor}")]
    Client {
        /// The vendor's name.
        vendor: &'static str,
        /// The underlying error.
        #[source]
        source: reqwest::Error,
    },
    /// The server was not reachable, or the connection broke.
    #[error("{vendor} cannot be reached{}", at_server(server.as_deref()))]
    Transport {
        /// The vendor's name.
        vendor: &'static str,
        /// The server's scheme, host and port.
        server: Option<String>,
        /// The underlying error.
        #[source]
        source: reqwest::Error,
    },
    /// The server sent nothing for too long.
    #[error("{vendor} sent nothing for {:.1} s", silent_for.as_secs_f32())]
    Silent {
        /// The vendor's name.
        vendor: &'static str,
        /// The time since the server last sent anything.
        silent_for: Duration,
    },
    /// The stream ended before the answer was complete.
    #[error("the stream of {vendor} ended before the answer was complete")]
    StreamCut {
        /// The name of the vendor.
        vendor: &'static str,
    },
    /// The server sent an event whose data is not JSON.
    #[error("{vendor} sent data that cannot be parsed: {excerpt:?}")]
    Decode {
        /// The vendor's name.
        vendor: &'static str,
        /// The beginning of the data.
        excerpt: String,
        /// The underlying error.
        #[source]
        source: serde_json::Error,
    },
    /// The server sent more than one answer may contain.
    #[error("{vendor} sent more than {most} {what}, which is the limit")]
    TooMuch {
        /// The vendor's name.
        vendor: &'static str,
        /// The limit.
        most: usize,
        /// The things that the limit counts, as in "tool calls in one answer".
        what: &'static str,
    },
    /// The server refused the key (HTTP status 401 or 403).
    #[error("{vendor} refused the key ({status}): {message}")]
    Auth {
        /// The vendor's name.
        vendor: &'static str,
        /// The HTTP status of the refusal.
        status: u16,
        /// The vendor's error message.
        message: String,
    },
    /// The account has no quota left. Waiting does not help.
    #[error("{vendor} has no quota left for this key: {message}")]
    Quota {
        /// The vendor's name.
        vendor: &'static str,
        /// The vendor's error message.
        message: String,
    },
    /// The vendor limits the number of requests, and too many were sent (HTTP status 429).
    #[error("{vendor} limits the rate of requests: {message}")]
    RateLimited {
        /// The vendor's name.
        vendor: &'static str,
        /// The vendor's error message.
        message: String,
        /// How long the vendor asks the caller to wait.
        retry_after: Option<Duration>,
    },
    /// The vendor's service is overloaded (HTTP status 529).
    #[error("{vendor} is overloaded: {message}")]
    Overloaded {
        /// The vendor's name.
        vendor: &'static str,
        /// The vendor's error message.
        message: String,
        /// How long the vendor asks the caller to wait.
        retry_after: Option<Duration>,
    },
    /// The conversation is too long for the model.
    #[error("the conversation is too long for the model of {vendor}: {message}")]
    ContextTooLong {
        /// The vendor's name.
        vendor: &'static str,
        /// The vendor's error message. It often names the limit.
        message: String,
    },
    /// The vendor refused the request for any other reason. The refusal was an HTTP status, or an
    /// error event inside a stream.
    #[error("{vendor} answered {status}{}: {message}", spaced(kind))]
    Status {
        /// The vendor's name.
        vendor: &'static str,
        /// The HTTP status. For an error event inside a stream, the status that corresponds to the
        /// event.
        status: u16,
        /// The vendor's name for the error, or an empty string.
        kind: String,
        /// The vendor's error message.
        message: String,
        /// How long the vendor asks the caller to wait.
        retry_after: Option<Duration>,
    },
    /// The call was repeated after temporary errors, until its maximum waiting time was over. Or
    /// the vendor asks for a wait that is longer than the rest of the maximum waiting time.
    #[error("{}", out_of_patience(*waited, *patience, source))]
    OutOfPatience {
        /// How long the call has waited.
        waited: Duration,
        /// The maximum waiting time of the call.
        patience: Duration,
        /// The error of the last attempt.
        #[source]
        source: Box<ModelError>,
    },
    /// A script contains an error.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

fn at_server(server: Option<&str>) -> String {
    server.map(|server| format!(" at {server}")).unwrap_or_default()
}

impl ModelError {
    /// Returns true if the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            // If the request could not be built, or the server redirects it, the next attempt would
            // fail in the same way.
            Self::Transport { source, .. } => !source.is_builder() && !source.is_redirect(),
            Self::Silent { .. }
            | Self::StreamCut { .. }
            | Self::Decode { .. }
            | Self::RateLimited { .. }
            | Self::Overloaded { .. } => true,
            // These statuses are timeouts, conflicts and server errors, which are usually
            // temporary. Other refusals are permanent.
            Self::Status { status, .. } => matches!(status, 408 | 409 | 425 | 500..),
            Self::Spec { .. }
            | Self::NoModel
            | Self::MissingKey { .. }
            | Self::BaseUrl { .. }
            | Self::Client { .. }
            | Self::TooMuch { .. }
            | Self::Auth { .. }
            | Self::Quota { .. }
            | Self::ContextTooLong { .. }
            | Self::OutOfPatience { .. }
            | Self::Script(_) => false,
        }
    }

    /// Returns how long the vendor asks the caller to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. }
            | Self::Overloaded { retry_after, .. }
            | Self::Status { retry_after, .. } => *retry_after,
            Self::OutOfPatience { source, .. } => source.retry_after(),
            Self::Spec { .. }
            | Self::NoModel
            | Self::MissingKey { .. }
            | Self::BaseUrl { .. }
            | Self::Client { .. }
            | Self::Transport { .. }
            | Self::Silent { .. }
            | Self::StreamCut { .. }
            | Self::Decode { .. }
            | Self::TooMuch { .. }
            | Self::Auth { .. }
            | Self::Quota { .. }
            | Self::ContextTooLong { .. }
            | Self::Script(_) => None,
        }
    }

    /// Returns true if the vendor limits the rate of requests or is overloaded. In both cases all
    /// agents that use the vendor should make fewer calls.
    pub fn slows_the_team(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Overloaded { .. })
    }
}

fn out_of_patience(waited: Duration, patience: Duration, source: &ModelError) -> String {
    let (waited, patience) = (waited.as_secs(), patience.as_secs());
    match source.retry_after().map(|asked| asked.as_secs()) {
        Some(asked) if asked >= patience && asked > 0 => {
            format!(
                "the model asks to wait {asked} s, longer than the patience of {patience} s allows"
            )
        }
        Some(asked) if waited.saturating_add(asked) >= patience && asked > 0 => {
            format!(
                "the model asks to wait {asked} s, which is longer than the rest of the {patience} s that a call may take"
            )
        }
        Some(_) | None => {
            format!("the model was unavailable for {waited} s, as long as the patience allows")
        }
    }
}

fn spaced(kind: &str) -> String {
    if kind.is_empty() { String::new() } else { format!(" {kind}") }
}
