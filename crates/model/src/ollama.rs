//! Lists the models of a local Ollama server. Calls of these models use the API for chat
//! completions.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::{Endpoints, ModelError, http};

/// The default URL of an Ollama server.
pub(crate) const DEFAULT_BASE_URL: &str = "http://127.0.0.1:11434";

/// Time limit for the list of models. It is short, because a local server answers immediately.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// Lists the models of a local Ollama server. The server puts the most recently modified model
/// first. The list is an input of [`default_spec`](crate::default_spec).
///
/// # Errors
/// An error if no Ollama server answers, or if its answer is not readable. On most machines no
/// Ollama server runs.
pub async fn ollama_models(endpoints: &Endpoints) -> Result<Vec<String>, ModelError> {
    const VENDOR: &str = "ollama";
    #[derive(Deserialize)]
    struct Tags {
        models: Vec<Tag>,
    }
    #[derive(Deserialize)]
    struct Tag {
        name: String,
    }
    let base = endpoints.ollama_base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
    let (client, base) = http::client(VENDOR, base, endpoints.silence)?;
    let asked_at = Instant::now();
    let transport = |source| http::broken(VENDOR, source, asked_at);
    let request = client.get(http::join(&base, "api/tags")).timeout(LIST_TIMEOUT);
    let response = request.send().await.map_err(transport)?;
    let response = response.error_for_status().map_err(transport)?;
    let body = http::body(VENDOR, response, asked_at).await?;
    let tags: Tags = serde_json::from_slice(&body).map_err(|source| ModelError::Decode {
        vendor: VENDOR,
        excerpt: http::excerpt(&String::from_utf8_lossy(&body)),
        source,
    })?;
    Ok(tags.models.into_iter().map(|tag| tag.name).collect())
}
