//! Reads what a model gave a tool, and tells it what is wrong in words it can act on.
//!
//! The wording is the recorded one: `fixtures/claude-2.1.39/stream-json/errors-and-duplicates.ndjson`.

use std::fmt::Write as _;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{Tool, ToolOutcome};

/// Reads the input of `tool` into its own type, after checking it against the tool's schema.
pub(super) fn parse<T: DeserializeOwned>(tool: &dyn Tool, input: Value) -> Result<T, ToolOutcome> {
    check_input(tool.name(), &tool.input_schema(), &input)?;
    serde_json::from_value(input).map_err(|problem| refuse(tool.name(), &[problem.to_string()]))
}

/// Checks an input against the schema of a tool: its parameters, their types and choices, at the top.
///
/// # Errors
/// The outcome to answer with, naming every parameter that is missing, unknown or of the wrong type.
pub fn check_input(tool: &str, schema: &Value, input: &Value) -> Result<(), ToolOutcome> {
    let Value::Object(given) = input else {
        return Err(refuse(
            tool,
            &[format!("The input is expected as `object` but provided as `{}`", kind(input))],
        ));
    };
    let no_parameters = Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_parameters);
    let mut problems = Vec::new();
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = name.as_str()
            && !given.contains_key(name)
        {
            problems.push(format!("The required parameter `{name}` is missing"));
        }
    }
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in given {
        match known.get(name) {
            Some(wanted) => problems.extend(mismatch(name, wanted, value)),
            None if is_closed => {
                problems.push(format!("An unexpected parameter `{name}` was provided"));
            }
            None => {}
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(refuse(tool, &problems)) }
}

fn mismatch(name: &str, wanted: &Value, value: &Value) -> Option<String> {
    let expected = wanted.get("type").and_then(Value::as_str)?;
    let fits = match expected {
        "integer" => value.is_i64() || value.is_u64(),
        other => kind(value) == other,
    };
    if !fits {
        return Some(format!(
            "The parameter `{name}` type is expected as `{expected}` but provided as `{}`",
            kind(value)
        ));
    }
    let choices = wanted.get("enum").and_then(Value::as_array)?;
    (!choices.contains(value)).then(|| {
        let choices: Vec<_> = choices.iter().filter_map(Value::as_str).collect();
        format!("The parameter `{name}` must be one of: {}", choices.join(", "))
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn refuse(tool: &str, problems: &[String]) -> ToolOutcome {
    let issues = if problems.len() == 1 { "issue" } else { "issues" };
    let mut message = format!("InputValidationError: {tool} failed due to the following {issues}:");
    for problem in problems {
        // Writing into a string cannot fail.
        let _ = write!(message, "\n{problem}");
    }
    ToolOutcome {
        text: format!("<tool_use_error>{message}</tool_use_error>"),
        data: Value::String(message),
        is_error: true,
    }
}

/// Reads a count: models write numbers, sometimes as `10.0`; a count is whole and not below zero.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    /// Above this a double no longer tells whole numbers apart.
    const MOST: f64 = 9_007_199_254_740_991.0;
    let Some(number) = Option::<f64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if number.fract() != 0.0 || !(0.0..=MOST).contains(&number) {
        return Err(D::Error::custom(format_args!(
            "A count is a whole number and not below zero, but `{number}` was provided"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and within range, as just checked"
    )]
    Ok(Some(number as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(input: Value) -> String {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "number"},
                "mode": {"type": "string", "enum": ["a", "b"]},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        match check_input("Probe", &schema, &input) {
            Ok(()) => "fine".to_owned(),
            Err(outcome) => outcome.text,
        }
    }

    #[test]
    fn a_good_input_passes() {
        assert_eq!(check(json!({"path": "x", "limit": 2.5, "mode": "a"})), "fine");
    }

    #[test]
    fn a_missing_parameter_is_named_as_recorded() {
        insta::assert_snapshot!(check(json!({})), @r"
        <tool_use_error>InputValidationError: Probe failed due to the following issue:
        The required parameter `path` is missing</tool_use_error>
        ");
    }

    #[test]
    fn every_problem_is_told_at_once() {
        insta::assert_snapshot!(check(json!({"file": 1, "limit": "3", "mode": "c"})), @r"
        <tool_use_error>InputValidationError: Probe failed due to the following issues:
        The required parameter `path` is missing
        An unexpected parameter `file` was provided
        The parameter `limit` type is expected as `number` but provided as `string`
        The parameter `mode` must be one of: a, b</tool_use_error>
        ");
    }

    #[test]
    fn an_input_that_is_no_object_is_refused() {
        assert!(check(json!("path")).contains("expected as `object` but provided as `string`"));
    }

    #[derive(Debug, Deserialize)]
    struct Counted {
        #[serde(default, deserialize_with = "count")]
        limit: Option<usize>,
    }

    #[test]
    fn a_count_is_whole_and_not_below_zero() {
        let read = |value| serde_json::from_value::<Counted>(json!({"limit": value}));
        assert_eq!(read(json!(10.0)).unwrap().limit, Some(10));
        assert!(read(json!(-1)).is_err());
        assert!(read(json!(1.5)).is_err());
        assert!(read(json!(1e300)).is_err());
    }
}
