//! The Anthropic Messages API, with streaming.
//!
//! [`wire`] writes requests, and [`answer`] reads events. This module does not repeat failed calls.

mod answer;
mod wire;

use reqwest::RequestBuilder;

use crate::endpoints::Secret;
use crate::{Endpoints, Model, ModelError, Request, ResponseStream, emit, http, window};

const VENDOR: &str = "anthropic";
const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";

/// A model that is called through the Anthropic Messages API.
pub(crate) struct Anthropic {
    id: String,
    name: String,
    client: reqwest::Client,
    url: String,
    credential: Option<Credential>,
}

enum Credential {
    Key(Secret),
    Bearer(Secret),
}

impl Anthropic {
    /// Prepares calls of the model `name`.
    ///
    /// # Errors
    /// An error if the base URL is invalid, or if Anthropic's own service is to be called and there
    /// is no key.
    pub(crate) fn new(name: &str, endpoints: &Endpoints) -> Result<Self, ModelError> {
        let key = endpoints.anthropic_api_key.clone().map(Credential::Key);
        let token = endpoints.anthropic_auth_token.clone().map(Credential::Bearer);
        let credential = key.or(token);
        // The key is required only for Anthropic's own service. A server at another base URL may
        // need no key.
        if credential.is_none() && endpoints.anthropic_base_url.is_none() {
            return Err(ModelError::MissingKey { vendor: VENDOR, variable: "ANTHROPIC_API_KEY" });
        }
        let base = endpoints.anthropic_base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
        let (client, base) = http::client(VENDOR, base, endpoints.silence)?;
        Ok(Self {
            id: format!("{VENDOR}/{name}"),
            name: name.to_owned(),
            client,
            url: http::join(&base, "v1/messages"),
            credential,
        })
    }

    fn post(&self, request: &Request) -> RequestBuilder {
        let post = self.client.post(&self.url).header("anthropic-version", VERSION);
        let post = match &self.credential {
            Some(Credential::Key(key)) => post.header("x-api-key", key.expose()),
            Some(Credential::Bearer(token)) => post.bearer_auth(token.expose()),
            None => post,
        };
        wire::with_body(&self.name, request, |body| http::send_once(post, body))
    }
}

impl Model for Anthropic {
    fn id(&self) -> &str {
        &self.id
    }

    fn context_window(&self) -> Option<u64> {
        window::known_window(&self.name)
    }

    fn respond(&self, request: Request) -> ResponseStream {
        let post = self.post(&request);
        emit::stream(move |out| http::exchange(VENDOR, post, answer::Events::default(), out))
    }
}
