//! From a name to a model that can be called.

use std::sync::Arc;

use crate::anthropic::Anthropic;
use crate::openai::ChatCompletions;
use crate::{
    Endpoints, Model, ModelError, ModelSpec, Pace, RetryPolicy, Retrying, Script, Scripted,
};

/// Opens a model. Nothing is connected; a script's file is read, and no HTTP client is made for it.
///
/// A model over HTTP keeps a pool of connections: open it once and share it between agents.
///
/// # Errors
/// When a key is missing, a base URL is none, or a script cannot be read.
pub fn open(
    spec: &ModelSpec,
    endpoints: &Endpoints,
    pace: &Pace,
    policy: &RetryPolicy,
) -> Result<Arc<dyn Model>, ModelError> {
    let inner: Arc<dyn Model> = match spec {
        ModelSpec::Script(file) => return Ok(Arc::new(Scripted::new(Script::read(file)?))),
        ModelSpec::Anthropic(name) => Arc::new(Anthropic::new(name, endpoints)?),
        ModelSpec::OpenAi(name) => Arc::new(ChatCompletions::openai(name, endpoints)?),
        ModelSpec::Ollama(name) => Arc::new(ChatCompletions::ollama(name, endpoints)?),
    };
    Ok(Arc::new(Retrying::new(inner, pace.clone(), policy.clone())))
}
