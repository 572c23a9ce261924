//! What can go wrong when a model is called, sorted by what the caller can do about it.

use std::time::Duration;

use crate::ScriptError;

/// A call of a model failed, or a model could not be opened.
///
/// `vendor` is `anthropic`, `openai` or `ollama` throughout.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The text names no model.
    #[error(
        "{given:?} names no model; write anthropic/NAME, openai/NAME, ollama/NAME or script:FILE, or one of opus, sonnet, haiku"
    )]
    Spec {
        /// What was given.
        given: String,
    },
    /// Nothing says which model to use.
    #[error(
        "no model to use: name one with --model or in the settings, or set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local Ollama that has a model"
    )]
    NoModel,
    /// A vendor's own service needs a key, and there is none.
    #[error("{vendor} needs a key: set {variable}")]
    MissingKey {
        /// The vendor.
        vendor: &'static str,
        /// The environment variable that usually holds it.
        variable: &'static str,
    },
    /// The base URL of a vendor is none.
    #[error("the base URL {url:?} of {vendor} is not an http or https URL")]
    BaseUrl {
        /// The vendor.
        vendor: &'static str,
        /// The URL as given.
        url: String,
    },
    /// The HTTP client could not be made, as when the system's root certificates cannot be read.
    #[error("the HTTP client for {vendor} cannot be made")]
    Client {
        /// The vendor.
        vendor: &'static str,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The server was not reached, or the connection broke.
    #[error("{vendor} cannot be reached{}", at_server(server.as_deref()))]
    Transport {
        /// The vendor.
        vendor: &'static str,
        /// Its scheme, host and port.
        server: Option<String>,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The server sent nothing at all for too long.
    #[error("{vendor} sent nothing for {:.1} s", silent_for.as_secs_f32())]
    Silent {
        /// The vendor.
        vendor: &'static str,
        /// How long.
        silent_for: Duration,
    },
    /// The stream ended before the answer did.
    #[error("the stream of {vendor} ended before the answer was complete")]
    StreamCut {
        /// The vendor.
        vendor: &'static str,
    },
    /// The server sent what is no JSON.
    #[error("{vendor} sent what cannot be read: {excerpt:?}")]
    Decode {
        /// The vendor.
        vendor: &'static str,
        /// The beginning of it.
        excerpt: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The server sent a single event past all bounds.
    #[error("{vendor} sent an event that is too long")]
    EventTooLong {
        /// The vendor.
        vendor: &'static str,
    },
    /// The key was refused (401, 403).
    #[error("{vendor} refused the key ({status}): {message}")]
    Auth {
        /// The vendor.
        vendor: &'static str,
        /// The HTTP status.
        status: u16,
        /// The vendor's words.
        message: String,
    },
    /// The account is used up; waiting does not help.
    #[error("{vendor} has no quota left for this key: {message}")]
    Quota {
        /// The vendor.
        vendor: &'static str,
        /// The vendor's words.
        message: String,
    },
    /// Too many requests (429).
    #[error("{vendor} limits the rate of requests: {message}")]
    RateLimited {
        /// The vendor.
        vendor: &'static str,
        /// The vendor's words.
        message: String,
        /// How long the vendor asks to wait.
        retry_after: Option<Duration>,
    },
    /// The service is overloaded (529).
    #[error("{vendor} is overloaded: {message}")]
    Overloaded {
        /// The vendor.
        vendor: &'static str,
        /// The vendor's words.
        message: String,
        /// How long the vendor asks to wait.
        retry_after: Option<Duration>,
    },
    /// The conversation no longer fits the model.
    #[error("the conversation is too long for the model of {vendor}: {message}")]
    ContextTooLong {
        /// The vendor.
        vendor: &'static str,
        /// The vendor's words, which often name the limit.
        message: String,
    },
    /// Any other refusal, by HTTP status or by an error event inside a stream.
    #[error("{vendor} answered {status}{}: {message}", spaced(kind))]
    Status {
        /// The vendor.
        vendor: &'static str,
        /// The HTTP status, or the one that the error event stands for.
        status: u16,
        /// The vendor's name for the error; may be empty.
        kind: String,
        /// The vendor's words.
        message: String,
        /// How long the vendor asks to wait.
        retry_after: Option<Duration>,
    },
    /// The model failed for passing reasons for longer than a call may wait, or asks for a longer wait.
    #[error("{}", out_of_patience(*waited, *patience, source))]
    OutOfPatience {
        /// How long the call waited.
        waited: Duration,
        /// How long it may wait.
        patience: Duration,
        /// How the model failed last.
        #[source]
        source: Box<ModelError>,
    },
    /// A script has a fault.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

fn at_server(server: Option<&str>) -> String {
    server.map(|server| format!(" at {server}")).unwrap_or_default()
}

impl ModelError {
    /// Tells whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport { source, .. } => !source.is_builder() && !source.is_redirect(),
            Self::Silent { .. }
            | Self::StreamCut { .. }
            | Self::Decode { .. }
            | Self::RateLimited { .. }
            | Self::Overloaded { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 409 | 425 | 500..),
            Self::Spec { .. }
            | Self::NoModel
            | Self::MissingKey { .. }
            | Self::BaseUrl { .. }
            | Self::Client { .. }
            | Self::EventTooLong { .. }
            | Self::Auth { .. }
            | Self::Quota { .. }
            | Self::ContextTooLong { .. }
            | Self::OutOfPatience { .. }
            | Self::Script(_) => false,
        }
    }

    /// Returns how long the vendor asked to wait.
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
            | Self::EventTooLong { .. }
            | Self::Auth { .. }
            | Self::Quota { .. }
            | Self::ContextTooLong { .. }
            | Self::Script(_) => None,
        }
    }

    /// Tells whether the vendor is short of capacity, so that everyone who calls it should slow down.
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
                "the model asks to wait {asked} s, longer than what is left of the patience of {patience} s"
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
