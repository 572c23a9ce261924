//! The provider and the name of a model, in the form that the conventions want.

use pitcrew_model::ModelSpec;

use crate::conventions::OTHER;
use crate::span::short;

/// The name of each model whose answers come from a file. The path of the file is not sent.
const SCRIPT: &str = "script";

/// A model that an agent calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) provider: &'static str,
    pub(crate) name: String,
}

impl ModelName {
    /// Reads the name of a model as settings, run events or other clients write it.
    pub(crate) fn of(text: &str) -> Self {
        match text.parse() {
            Ok(ModelSpec::Anthropic(name)) => Self { provider: "anthropic", name: short(&name) },
            Ok(ModelSpec::OpenAi(name)) => Self { provider: "openai", name: short(&name) },
            Ok(ModelSpec::Ollama(name)) => Self { provider: "ollama", name: short(&name) },
            Ok(ModelSpec::Script(_)) => Self { provider: SCRIPT, name: SCRIPT.to_owned() },
            Err(_) => Self { provider: OTHER, name: without_path(text) },
        }
    }

    /// Returns the name that a provider gave in its answer. An answer has no prefix.
    pub(crate) fn in_answer(text: &str) -> String {
        if text.starts_with("script:") { SCRIPT.to_owned() } else { without_path(text) }
    }
}

/// Returns a short name. A text that looks like a path is no name.
fn without_path(text: &str) -> String {
    let is_path = text.starts_with(['/', '~', '.', '\\']) || text.contains(['\\', '\n', ' ']);
    if text.is_empty() || is_path { OTHER.to_owned() } else { short(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_provider_and_never_a_path() {
        let of = |text| {
            let ModelName { provider, name } = ModelName::of(text);
            (provider, name)
        };
        assert_eq!(of("anthropic/claude-x"), ("anthropic", "claude-x".to_owned()));
        assert_eq!(of("claude-x"), ("anthropic", "claude-x".to_owned()));
        assert_eq!(of("openai/meta/llama"), ("openai", "meta/llama".to_owned()));
        assert_eq!(of("ollama/qwen3:8b"), ("ollama", "qwen3:8b".to_owned()));
        assert_eq!(of("script:/home/dev/a.yaml"), ("script", "script".to_owned()));
        assert_eq!(of("gpt-x"), (OTHER, "gpt-x".to_owned()));
        assert_eq!(of("/home/dev/model.gguf"), (OTHER, OTHER.to_owned()));
        assert_eq!(ModelName::in_answer("script:/home/dev/a.yaml"), "script");
        assert_eq!(ModelName::in_answer("gpt-6.1-sol-2026"), "gpt-6.1-sol-2026");
        for prefix in ["openai/", "claude-", ""] {
            let name = ModelName::of(&format!("{prefix}{}", "x".repeat(9_999))).name;
            assert!(name.len() < 250, "{name}");
        }
    }
}
