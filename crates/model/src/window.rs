//! Context windows: how many tokens a conversation may have. The windows are in a built-in table,
//! like the prices, and settings can override them.
//!
//! The sources are Anthropic's overview of models and OpenAI's list of models, November 2026. Some
//! models have a larger window with a beta header. For them, the table has the window without that
//! header. The table has no entries for models of Ollama. Ollama makes the window as large as
//! memory allows, and silently cuts longer conversations. So these models get a small window.

use pitcrew_protocol::{ContextWindows, longest_named};

use crate::Model;

/// The window that is assumed for an unknown model, in tokens. If it is too small, conversations
/// are summarised too early. If it is too large, the server refuses a long conversation, and the
/// conversation is then shortened.
pub const UNKNOWN_WINDOW: u64 = 128_000;

/// The window that is assumed for a model on an Ollama server, in tokens. If it were too large, the
/// server would silently drop the beginning of a long conversation.
pub(crate) const OLLAMA_WINDOW: u64 = 32_768;

const LIST: [(&str, u64); 20] = [
    ("claude", 200_000),
    ("claude-fable-5", 1_000_000),
    ("claude-fable-5-1", 1_000_000),
    ("claude-opus-5-5", 1_000_000),
    ("claude-opus-5", 1_000_000),
    ("claude-opus-4-8", 1_000_000),
    ("claude-opus-4-7", 1_000_000),
    ("claude-opus-4-6", 1_000_000),
    ("claude-sonnet-5-5", 1_000_000),
    ("claude-sonnet-5", 1_000_000),
    ("gpt-6", 1_050_000),
    ("gpt-6.1", 1_050_000),
    ("gpt-5", 400_000),
    ("gpt-5.1", 400_000),
    ("gpt-5.2", 400_000),
    ("gpt-5.3", 400_000),
    ("gpt-5.4", 400_000),
    ("gpt-5.6", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
];

/// Returns the window of a model if it is known without a request to a server. The name may contain
/// the vendor or not.
pub fn known_window(model: &str) -> Option<u64> {
    longest_named(LIST.iter().map(|(name, tokens)| (*name, *tokens)), model)
}

/// Returns the window of a model. It comes from the settings, otherwise from the model itself,
/// otherwise it is [`UNKNOWN_WINDOW`].
pub fn window_of(windows: &ContextWindows, model: &dyn Model) -> u64 {
    windows.named(model.id()).or_else(|| model.context_window()).unwrap_or(UNKNOWN_WINDOW)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Request, ResponseStream};

    struct Named(&'static str);

    impl Model for Named {
        fn id(&self) -> &str {
            self.0
        }

        fn context_window(&self) -> Option<u64> {
            known_window(self.0)
        }

        fn respond(&self, _request: Request) -> ResponseStream {
            Box::pin(futures_util::stream::empty())
        }
    }

    #[track_caller]
    fn check(setting: Value, model: &'static str, tokens: u64) {
        assert_eq!(
            window_of(&ContextWindows::from_setting(&setting).unwrap(), &Named(model)),
            tokens
        );
    }

    #[test]
    fn a_known_model_has_its_window_and_any_other_a_careful_one() {
        for (model, tokens) in [
            ("anthropic/claude-opus-4-6", 1_000_000),
            ("anthropic/claude-sonnet-4-5-20250929", 200_000),
            ("anthropic/claude-newest", 200_000),
            ("openai/gpt-5.4-mini", 400_000),
            ("openai/gpt-6.1-sol", 1_050_000),
            ("openai/some/gpt-4o-mini", 128_000),
            ("openai/llama", UNKNOWN_WINDOW),
        ] {
            check(json!({}), model, tokens);
        }
    }

    #[test]
    fn settings_name_a_window_for_all_models_or_for_some() {
        check(json!(50_000), "anthropic/claude-opus-4-6", 50_000);
        let some = json!({"qwen3": 40_000, "ollama/qwen3": 60_000});
        check(some.clone(), "ollama/qwen3:8b", 60_000);
        check(some.clone(), "openai/qwen3", 40_000);
        check(some, "anthropic/claude-opus-4-5", 200_000);
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for (setting, words) in [
            (json!("many"), "a context window is a number of tokens, or one number for each model"),
            (
                json!({"x": -1}),
                "a context window is a number of tokens, or one number for each model",
            ),
            (json!({"x": 12}), "a context window of 12 tokens is too small; 1000 is the least"),
        ] {
            assert_eq!(ContextWindows::from_setting(&setting).unwrap_err().to_string(), words);
        }
    }
}
