//! Chat completions, with streaming. OpenAI, OpenRouter, vLLM, llama.cpp and Ollama offer this API.
//!
//! [`wire`] writes requests, and [`answer`] reads the chunks of the response. Servers leave out
//! different fields, so [`answer`] accepts missing fields.

mod answer;
mod wire;

use crate::endpoints::Secret;
use crate::window::OLLAMA_WINDOW;
use crate::{Endpoints, Model, ModelError, Request, ResponseStream, emit, http, ollama, window};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const OLLAMA: &str = "ollama";

/// A model that is called through the API for chat completions.
pub(crate) struct ChatCompletions {
    vendor: &'static str,
    id: String,
    name: String,
    client: reqwest::Client,
    url: String,
    key: Option<Secret>,
    limit_field: &'static str,
}

impl ChatCompletions {
    /// Prepares calls of an OpenAI model, or of a model on another server if a base URL is set.
    ///
    /// # Errors
    /// An error if the base URL is invalid, or if OpenAI's own service is to be called and there is
    /// no key.
    pub(crate) fn openai(name: &str, endpoints: &Endpoints) -> Result<Self, ModelError> {
        const VENDOR: &str = "openai";
        let key = endpoints.openai_api_key.clone();
        // The key is required only for OpenAI's own service. A server at another base URL may need
        // no key.
        if key.is_none() && endpoints.openai_base_url.is_none() {
            return Err(ModelError::MissingKey { vendor: VENDOR, variable: "OPENAI_API_KEY" });
        }
        let base = endpoints.openai_base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
        Self::new(VENDOR, name, base, key, endpoints)
    }

    /// Prepares calls of a model on an Ollama server.
    ///
    /// # Errors
    /// An error if the base URL is invalid.
    pub(crate) fn ollama(name: &str, endpoints: &Endpoints) -> Result<Self, ModelError> {
        let base = endpoints.ollama_base_url.as_deref().unwrap_or(ollama::DEFAULT_BASE_URL);
        // Ollama offers chat completions at the path `/v1`.
        let base = format!("{}/v1", base.trim_end_matches('/'));
        Self::new(OLLAMA, name, &base, None, endpoints)
    }

    fn new(
        vendor: &'static str,
        name: &str,
        base: &str,
        key: Option<Secret>,
        endpoints: &Endpoints,
    ) -> Result<Self, ModelError> {
        let (client, base) = http::client(vendor, base, endpoints.silence)?;
        // OpenAI's own models refuse `max_tokens`. Many other servers accept only `max_tokens`.
        let is_openai = base.host_str().is_some_and(|host| host.ends_with(".openai.com"));
        let limit_field = if is_openai { "max_completion_tokens" } else { "max_tokens" };
        Ok(Self {
            vendor,
            id: format!("{vendor}/{name}"),
            name: name.to_owned(),
            client,
            url: http::join(&base, "chat/completions"),
            key,
            limit_field,
        })
    }
}

impl Model for ChatCompletions {
    fn id(&self) -> &str {
        &self.id
    }

    fn context_window(&self) -> Option<u64> {
        if self.vendor == OLLAMA { Some(OLLAMA_WINDOW) } else { window::known_window(&self.name) }
    }

    fn respond(&self, request: Request) -> ResponseStream {
        let post = self.client.post(&self.url);
        let post = match &self.key {
            Some(key) => post.bearer_auth(key.expose()),
            None => post,
        };
        let post = http::send_once(post, &wire::body(&self.name, self.limit_field, &request));
        let vendor = self.vendor;
        let chunks = answer::Chunks::new(vendor, &self.name);
        emit::stream(move |out| http::exchange(vendor, post, chunks, out))
    }
}
