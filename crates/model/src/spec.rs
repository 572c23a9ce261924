//! Names of models: the text after `--model`, and the default if this option is not given.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Endpoints, ModelError};

/// The name of a model. It says which implementation calls the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSpec {
    /// `anthropic/NAME`: a model that is called through the Messages API.
    Anthropic(String),
    /// `openai/NAME`: a model that is called through the API for chat completions.
    OpenAi(String),
    /// `ollama/NAME`: a model on an Ollama server. It is called through the API for chat
    /// completions.
    Ollama(String),
    /// `script:FILE`: a model whose answers come from a script file.
    Script(PathBuf),
}

/// Short names for models. The reference client (Claude Code) uses the same short names in settings
/// and agent files. Each short name stands for one fixed model, which is the newest of its kind
/// that this version of pitcrew knows.
pub const ALIASES: [(&str, &str); 3] =
    [("opus", "claude-opus-5-5"), ("sonnet", "claude-sonnet-5-5"), ("haiku", "claude-haiku-5-5")];

/// The default model of each vendor. It is used if no model is named and a key of the vendor is
/// set.
const DEFAULT_ANTHROPIC: &str = "claude-opus-5-5";
const DEFAULT_OPENAI: &str = "gpt-6.1-sol";

impl ModelSpec {
    /// Returns true if calls of the model cost nothing. Such a model answers from a file, or runs
    /// on the user's machine.
    pub fn is_free(&self) -> bool {
        match self {
            Self::Script(_) | Self::Ollama(_) => true,
            Self::Anthropic(_) | Self::OpenAi(_) => false,
        }
    }
}

impl FromStr for ModelSpec {
    type Err = ModelError;

    fn from_str(given: &str) -> Result<Self, ModelError> {
        let text = given.trim();
        if let Some((_, name)) = ALIASES.iter().find(|(alias, _)| *alias == text) {
            return Ok(Self::Anthropic((*name).to_owned()));
        }
        if text.starts_with("claude-") && !text.contains(['/', ':']) {
            return Ok(Self::Anthropic(text.to_owned()));
        }
        let spec = if let Some(file) = text.strip_prefix("script:") {
            (!file.is_empty()).then(|| Self::Script(PathBuf::from(file)))
        } else {
            match text.split_once('/') {
                Some((_, "")) | None => None,
                Some(("anthropic", name)) => Some(Self::Anthropic(expand(name))),
                Some(("openai", name)) => Some(Self::OpenAi(name.to_owned())),
                Some(("ollama", name)) => Some(Self::Ollama(name.to_owned())),
                Some(_) => None,
            }
        };
        spec.ok_or_else(|| ModelError::Spec { given: given.to_owned() })
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anthropic(name) => write!(f, "anthropic/{name}"),
            Self::OpenAi(name) => write!(f, "openai/{name}"),
            Self::Ollama(name) => write!(f, "ollama/{name}"),
            Self::Script(file) => write!(f, "script:{}", file.display()),
        }
    }
}

/// Chooses the model if the command line names none.
///
/// The order is: the model in the settings, then the default model of a vendor whose key is set
/// (Anthropic before OpenAI), then the first model of a local Ollama server (see
/// [`ollama_models`](crate::ollama_models)).
///
/// # Errors
/// An error if the settings contain an invalid model name, or if none of these models exists. If
/// none exists, the error message lists all ways to choose a model.
pub fn default_spec(
    settings_model: Option<&str>,
    endpoints: &Endpoints,
    ollama_models: Option<&[String]>,
) -> Result<ModelSpec, ModelError> {
    if let Some(model) = settings_model {
        return model.parse();
    }
    if endpoints.anthropic_api_key.is_some() || endpoints.anthropic_auth_token.is_some() {
        return Ok(ModelSpec::Anthropic(DEFAULT_ANTHROPIC.to_owned()));
    }
    if endpoints.openai_api_key.is_some() {
        return Ok(ModelSpec::OpenAi(DEFAULT_OPENAI.to_owned()));
    }
    match ollama_models.and_then(<[String]>::first) {
        Some(name) => Ok(ModelSpec::Ollama(name.clone())),
        None => Err(ModelError::NoModel),
    }
}

fn expand(name: &str) -> String {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, full)| full).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn every_form_is_read_and_written_back() {
        let cases = [
            ("anthropic/claude-x", "anthropic/claude-x"),
            ("claude-x", "anthropic/claude-x"),
            ("sonnet", "anthropic/claude-sonnet-5-5"),
            ("anthropic/haiku", "anthropic/claude-haiku-5-5"),
            ("openai/meta/llama-3:free", "openai/meta/llama-3:free"),
            ("ollama/qwen3:8b", "ollama/qwen3:8b"),
            ("script:/tmp/a b.yaml", "script:/tmp/a b.yaml"),
        ];
        for (given, written) in cases {
            assert_eq!(given.parse::<ModelSpec>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_names_no_model_is_refused_with_the_valid_forms() {
        for given in ["", "gpt", "openai/", "script:", "mistral/x", "claude-x/y"] {
            assert!(given.parse::<ModelSpec>().is_err(), "{given}");
        }
        let error = "gpt".parse::<ModelSpec>().unwrap_err();
        insta::assert_snapshot!(error, @r#""gpt" names no model; write anthropic/NAME, openai/NAME, ollama/NAME or script:FILE, or one of opus, sonnet, haiku"#);
    }

    #[test]
    fn without_a_name_the_settings_then_the_keys_then_ollama_decide() {
        let key = Some(Secret::new("k"));
        let both = Endpoints {
            anthropic_api_key: key.clone(),
            openai_api_key: key.clone(),
            ..Endpoints::default()
        };
        let openai = Endpoints { openai_api_key: key, ..Endpoints::default() };
        let local = ["qwen3".to_owned()];
        let chosen = |settings, endpoints: &Endpoints, local| {
            default_spec(settings, endpoints, local).map(|spec| spec.to_string()).ok()
        };
        assert_eq!(chosen(Some("openai/x"), &both, None).unwrap(), "openai/x");
        assert_eq!(chosen(None, &both, None).unwrap(), format!("anthropic/{DEFAULT_ANTHROPIC}"));
        assert_eq!(chosen(None, &openai, None).unwrap(), format!("openai/{DEFAULT_OPENAI}"));
        let none = Endpoints::default();
        assert_eq!(chosen(None, &none, Some(&local)).unwrap(), "ollama/qwen3");
        assert_eq!(chosen(None, &none, Some(&[])), None);
    }

    #[test]
    fn the_error_without_any_model_names_all_ways() {
        let error = default_spec(None, &Endpoints::default(), None).unwrap_err();
        insta::assert_snapshot!(error, @"no model to use: name one with --model or in the settings, or set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local Ollama that has a model");
    }
}
