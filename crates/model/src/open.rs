//! Opens a model by its name.

use std::sync::Arc;

use crate::anthropic::Anthropic;
use crate::openai::ChatCompletions;
use crate::{
    Endpoints, Model, ModelError, ModelSpec, Pace, RetryPolicy, Retrying, Script, Scripted,
};

/// Opens a model. This function opens no connection. For a script, it only reads the file, and
/// creates no HTTP client.
///
/// An HTTP model has its own pool of connections. So open each model only once, and share it
/// between agents.
///
/// # Errors
/// An error if a key is missing, a base URL is invalid, or a script cannot be read.
pub fn open(
    spec: &ModelSpec,
    endpoints: &Endpoints,
    pace: &Pace,
    policy: &RetryPolicy,
) -> Result<Arc<dyn Model>, ModelError> {
    let inner: Arc<dyn Model> = match spec {
        // A script has no temporary failures, so it needs no [`Retrying`] around it.
        ModelSpec::Script(file) => return Ok(Arc::new(Scripted::new(Script::read(file)?))),
        ModelSpec::Anthropic(name) => Arc::new(Anthropic::new(name, endpoints)?),
        ModelSpec::OpenAi(name) => Arc::new(ChatCompletions::openai(name, endpoints)?),
        ModelSpec::Ollama(name) => Arc::new(ChatCompletions::ollama(name, endpoints)?),
    };
    Ok(Arc::new(Retrying::new(inner, pace.clone(), policy.clone())))
}
