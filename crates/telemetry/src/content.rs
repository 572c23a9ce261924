//! The texts of a run, if the user wants them in the spans. Secrets in them are masked.

use opentelemetry::KeyValue;
use pitcrew_model::Block;
use pitcrew_runtime::events::Answered;
use pitcrew_team::SecretDigests;
use pitcrew_view::masking::Masker;
use serde_json::{Value, json};

use crate::conventions::{OUTPUT_MESSAGES, TOOL_CALL_ARGUMENTS, TOOL_CALL_RESULT};

/// Maximum number of bytes of a text in an attribute.
const TEXT_BYTES_MOST: usize = 16 * 1024;

/// Maximum number of bytes of a text that is searched for secrets. The rest is dropped before.
const SEARCHED_BYTES_MOST: usize = 4 * TEXT_BYTES_MOST;

/// Whether spans have the texts of answers and tool calls.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    LeftOut,
    Masked(Masker),
}

impl Content {
    /// Returns the same choice for a team whose secret values have these digests.
    pub(crate) fn knowing(&self, digests: SecretDigests) -> Self {
        match self {
            Self::LeftOut => Self::LeftOut,
            Self::Masked(_) => Self::Masked(Masker::knowing(digests)),
        }
    }

    /// Returns the attribute with the answer of a model.
    pub(crate) fn of_answer(&self, answered: &Answered) -> Option<KeyValue> {
        let parts: Vec<Value> = answered.blocks.iter().filter_map(part).collect();
        let messages = json!([{
            "role": "assistant", "parts": parts, "finish_reason": answered.stop.as_str(),
        }]);
        self.attribute(OUTPUT_MESSAGES, |masker| masked_value(masker, &messages))
    }

    /// Returns the attribute with the input of a tool call.
    pub(crate) fn of_input(&self, input: &Value) -> Option<KeyValue> {
        self.attribute(TOOL_CALL_ARGUMENTS, |masker| masked_value(masker, input))
    }

    /// Returns the attribute with the result of a tool call.
    pub(crate) fn of_result(&self, text: &str) -> Option<KeyValue> {
        self.attribute(TOOL_CALL_RESULT, |masker| masked_text(masker, text))
    }

    fn attribute(
        &self,
        name: &'static str,
        text: impl FnOnce(Masker) -> String,
    ) -> Option<KeyValue> {
        match self {
            Self::LeftOut => None,
            Self::Masked(masker) => Some(KeyValue::new(name, text(masker.clone()))),
        }
    }
}

/// Returns a block in the form of the conventions. Thoughts and pictures are left out.
fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => Some(json!({"type": "text", "content": text})),
        Block::ToolUse { id, name, input, .. } => {
            Some(json!({"type": "tool_call", "id": id, "name": name, "arguments": input}))
        }
        Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolResult { .. }
        | Block::Image { .. }
        | Block::Other(_) => None,
    }
}

fn masked_value(mut masker: Masker, value: &Value) -> String {
    let masked = masker.value(&with_short_texts(value));
    // A second pass finds a secret that a program wrote as JSON in a text.
    masked_text(masker, &masked.to_string())
}

fn masked_text(mut masker: Masker, text: &str) -> String {
    let masked = masker.text(&cut(text, SEARCHED_BYTES_MOST)).into_owned();
    cut(&masked, TEXT_BYTES_MOST)
}

/// Returns the value with each text cut, so that the search for secrets takes a limited time.
fn with_short_texts(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, TEXT_BYTES_MOST)),
        Value::Array(items) => items.iter().map(with_short_texts).collect(),
        Value::Object(fields) => {
            let short = |(name, value): (&String, &Value)| (name.clone(), with_short_texts(value));
            Value::Object(fields.iter().map(short).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns the beginning of a text. The mark at the end of a cut text lets the masking find a key
/// that was cut.
pub(crate) fn cut(text: &str, bytes_most: usize) -> String {
    if text.len() <= bytes_most {
        return text.to_owned();
    }
    let end = (0..=bytes_most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pitcrew_team::DigestKey;
    use pitcrew_view::masking::secret_texts;

    use super::*;

    const KEY: &str = "sk-ant-api03-aB3dE5fG7hJ9kL1mN2pQ4rS6";

    fn masked() -> Content {
        Content::Masked(Masker::new())
    }

    fn text_of(attribute: Option<KeyValue>) -> String {
        attribute.unwrap().value.as_str().into_owned()
    }

    #[test]
    fn texts_are_left_out_unless_the_user_wants_them() {
        let input = json!({"command": "cargo test"});
        assert_eq!(Content::LeftOut.of_input(&input), None);
        assert_eq!(Content::LeftOut.of_result("ok"), None);
        assert_eq!(text_of(masked().of_input(&input)), r#"{"command":"cargo test"}"#);
        assert_eq!(text_of(masked().of_result("ok")), "ok");
    }

    #[test]
    fn secrets_in_texts_are_masked_also_at_the_place_where_a_text_is_cut() {
        let input = json!({"command": format!("curl -H 'x: {KEY}'"), "password": "hunter22"});
        let text = text_of(masked().of_input(&input));
        assert!(!text.contains(KEY) && !text.contains("hunter22"), "{text}");
        for before in [0, TEXT_BYTES_MOST - 9, SEARCHED_BYTES_MOST - 12] {
            let long = format!("{}{KEY}{}", " ".repeat(before), " ".repeat(SEARCHED_BYTES_MOST));
            for text in [
                text_of(masked().of_result(&long)),
                text_of(masked().of_input(&json!({ "text": long }))),
            ] {
                assert!(text.len() <= TEXT_BYTES_MOST + "…".len(), "{}", text.len());
                assert!(!text.contains("sk-ant-a"), "{before}");
            }
        }
    }

    #[test]
    fn the_secret_values_of_the_environment_are_masked_too() {
        let value = "correct+horse/7battery";
        let environment = BTreeMap::from([("DEPLOY_TOKEN".into(), value.into())]);
        let mut digests = SecretDigests::default();
        digests.add(&secret_texts(&environment), &DigestKey::new([0x5a; 32]));
        let content = masked().knowing(digests.clone());
        let text = text_of(content.of_result(&format!("it is {value}.")));
        assert_eq!(text, "it is [masked: value of DEPLOY_TOKEN].");
        let text = text_of(content.of_input(&json!({"command": format!("echo {value}")})));
        assert_eq!(text, r#"{"command":"echo [masked: value of DEPLOY_TOKEN]"}"#);
        assert_eq!(Content::LeftOut.knowing(digests).of_result("ok"), None);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a…");
        assert_eq!(cut("aé", 3), "aé");
    }
}
