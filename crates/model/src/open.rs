//! Opens a model by its name.

use std::sync::Arc;

use crate::anthropic::Anthropic;
use crate::openai::ChatCompletions;
use crate::{
    Endpoints, Model, ModelError, ModelSpec, Pace, RetryPolicy, Retrying, Script, Scripted,
};

/// Opens a model. No connection is opened yet. For a script, only the file is read, and no HTTP
/// client is created.
///
/// An HTTP model has a pool of connections. Open the model once and share it between agents.
///
/// # Errors
/// When a key is missing, a base URL is invalid, or a script cannot be read.
pub fn open(
    spec: &ModelSpec,
    endpoints: &Endpoints,
    pace: &Pace,
    policy: &RetryPolicy,
) -> Result<Arc<dyn Model>, ModelError> {
    let inner: Arc<dyn Model> = match spec {
        // A script cannot fail temporarily, so it is not wrapped in retries.
        ModelSpec::Script(file) => return Ok(Arc::new(Scripted::new(Script::read(file)?))),
        ModelSpec::Anthropic(name) => Arc::new(Anthropic::new(name, endpoints)?),
        ModelSpec::OpenAi(name) => Arc::new(ChatCompletions::openai(name, endpoints)?),
        ModelSpec::Ollama(name) => Arc::new(ChatCompletions::ollama(name, endpoints)?),
    };
    Ok(Arc::new(Retrying::new(inner, pace.clone(), policy.clone())))
}
