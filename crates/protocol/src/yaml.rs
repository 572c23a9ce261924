//! Reads YAML of others within bounds.
//!
//! A few lines of YAML can stand for millions of values, because an alias repeats the whole value
//! of its anchor (an alias bomb). Agent definitions are read before their project is trusted, so
//! reading them must be cheap, whatever is in them.

use serde::de::DeserializeOwned;

/// The bounds of one YAML document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YamlBounds {
    /// Most bytes of its text.
    pub bytes: usize,
    /// Most values: texts, lists and maps.
    pub values: usize,
    /// Most levels of lists and maps inside each other.
    pub depth: usize,
    /// Most aliases (`*name`).
    pub aliases: usize,
    /// Most values that all aliases together repeat.
    pub repeated: usize,
}

impl YamlBounds {
    /// The bounds of the front matter of an agent definition. Real ones have about ten values, and
    /// a description of up to some thousand bytes.
    pub const FRONT_MATTER: Self =
        Self { bytes: 64 * 1024, values: 2000, depth: 16, aliases: 50, repeated: 1000 };

    /// The bounds of the script of a scripted model. The user names the file, and the longest
    /// scripts of tests have some ten thousand turns.
    pub const SCRIPT: Self = Self {
        bytes: 8 * 1024 * 1024,
        values: 250_000,
        depth: 64,
        aliases: 1000,
        repeated: 50_000,
    };
}

/// Reads a YAML document.
///
/// # Errors
/// The reason as text, if the document is beyond the bounds, is not YAML, or does not have the
/// expected form.
pub fn from_yaml<T: DeserializeOwned>(text: &str, bounds: YamlBounds) -> Result<T, String> {
    let YamlBounds { bytes, values, depth, aliases, repeated } = bounds;
    if text.len() > bytes {
        return Err(format!("it is {} bytes long; at most {bytes} are read", text.len()));
    }
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_nodes: values,
            // A value has at most two events: its start and its end.
            max_events: values.saturating_mul(2),
            max_depth: depth,
            flow_nesting_limit: depth.min(255),
            max_aliases: aliases,
            max_anchors: aliases,
            max_recorded_anchor_events: values.saturating_mul(2),
            max_total_scalar_bytes: bytes,
            max_recorded_anchor_bytes: bytes,
            max_documents: 1,
            max_merge_keys: aliases,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: repeated,
            max_replay_stack_depth: depth,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::time::{Duration, Instant};

    use serde_json::Value;

    use super::*;

    /// Returns lists of ten aliases each, `levels` of them inside each other.
    fn bomb(levels: usize) -> String {
        let mut text = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..levels {
            let of = vec![format!("*l{}", level - 1); 10].join(", ");
            writeln!(text, "l{level}: &l{level} [{of}]").unwrap();
        }
        text
    }

    #[test]
    fn every_bound_of_a_document_is_ten_times_exceeded_and_named_at_once() {
        let bounds = YamlBounds::FRONT_MATTER;
        let many = |line: fn(usize) -> String, count| (0..count).map(line).collect::<String>();
        let attacks = [
            ("bytes", "x".repeat(bounds.bytes * 10)),
            ("values", format!("[{}]", "1,".repeat(bounds.values * 10))),
            (
                "depth",
                format!("{}{}", "[".repeat(bounds.depth * 10), "]".repeat(bounds.depth * 10)),
            ),
            ("block depth", many(|at| format!("{}a:\n", " ".repeat(at)), bounds.depth * 10)),
            ("aliases", format!("a: &a 1\nb: [{}]", "*a,".repeat(bounds.aliases * 10))),
            ("anchors", many(|at| format!("k{at}: &a{at} 1\n"), bounds.aliases * 10)),
            ("repeated values", bomb(6)),
            ("a cycle", "a: &a [*a]\n".to_owned()),
            ("documents", "---\na: 1\n".repeat(10)),
        ];
        for (bound, text) in attacks {
            let started = Instant::now();
            let fault = from_yaml::<Value>(&text, bounds).unwrap_err();
            assert!(!fault.is_empty() && fault.len() < 500, "{bound}: {fault}");
            assert!(started.elapsed() < Duration::from_secs(1), "{bound}: {:?}", started.elapsed());
        }
    }

    #[test]
    fn aliases_and_merge_keys_are_ordinary_yaml() {
        let text = "base: &base {model: opus, tools: [Read, Bash]}\na: *base\nb:\n  <<: *base\n  model: haiku\n";
        let read: Value = from_yaml(text, YamlBounds::FRONT_MATTER).unwrap();
        assert_eq!(read["a"]["tools"][1], "Bash");
        assert_eq!(
            (&read["b"]["model"], &read["b"]["tools"][0]),
            (&"haiku".into(), &"Read".into())
        );
    }
}
