//! The digest of the data that a permission request shows, for example of a tool call. The answer
//! to the request contains the same digest. The digest therefore shows for which data the answer
//! was given.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Returns the digest of a tool call: the name of the tool and the input. The order of the
    /// fields in the input makes no difference.
    #[must_use]
    pub fn of_call(tool: &str, input: &Value) -> Self {
        let mut canonical = String::new();
        write_canonical(input, &mut canonical);
        Self::of_texts([tool, &canonical])
    }

    /// Returns the digest of several texts. The same characters give another digest if they are
    /// divided into texts differently.
    pub fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            // Without the lengths, the texts "ab" and "c" would give the same digest as "a" and
            // "bc".
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        Self(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the digest as hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Digest {
    fn from(digits: String) -> Self {
        Self(digits)
    }
}

/// Writes JSON with the fields of every object sorted by name.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            // Two equal objects can have their fields in different orders. Sort the fields by name.
            fields.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (name, value) in fields {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_follows_tool_and_input_and_not_the_order_of_fields() {
        let digest = |tool: &str, input: Value| Digest::of_call(tool, &input);
        let first = digest("Bash", json!({"command": "ls", "timeout": {"a": 1, "b": [1, 2]}}));
        assert_eq!(
            first,
            digest("Bash", json!({"timeout": {"b": [1, 2], "a": 1}, "command": "ls"}))
        );
        assert_eq!(first.as_str().len(), 64);
        for (tool, input) in [
            ("Bash", json!({"command": "ls ", "timeout": {"a": 1, "b": [1, 2]}})),
            ("Bash", json!({"command": "ls", "timeout": {"a": 1, "b": [2, 1]}})),
            ("Bash", json!({"command": "ls"})),
            ("Read", json!({"command": "ls", "timeout": {"a": 1, "b": [1, 2]}})),
        ] {
            assert_ne!(first, digest(tool, input.clone()), "{tool} {input}");
        }
        assert_ne!(Digest::of_texts(["ab", "c"]), Digest::of_texts(["a", "bc"]));
    }
}
