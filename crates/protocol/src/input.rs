//! Reads a tool's input and collects all faults. The model can then correct all faults of its call
//! at once.
//!
//! The error texts are worded like a recorded error text of the reference client
//! (`fixtures/claude-2.1.39/stream-json/errors-and-duplicates.ndjson`). That error is about a
//! missing parameter. The texts for other kinds of faults imitate its wording. The module `tools`
//! knows the parameters of the team tools. The input of every other tool is checked against the
//! tool's schema.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The error for an input that is not valid for the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The tool's name, as the call gave it.
    pub tool: String,
    /// The faults in the input. There is at least one.
    pub faults: Vec<InputFault>,
}

/// One fault in a tool's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputFault {
    /// A required parameter is missing.
    Missing {
        /// The parameter's name.
        parameter: String,
        /// The expected JSON type.
        expected: &'static str,
    },
    /// A parameter has the wrong JSON type.
    WrongType {
        /// The parameter's name.
        parameter: String,
        /// The expected JSON type.
        expected: &'static str,
        /// The received JSON type.
        received: &'static str,
    },
    /// A parameter has a value that is not allowed.
    Invalid {
        /// The parameter's name.
        parameter: String,
        /// A description of the allowed values.
        expected: String,
    },
    /// The input has a parameter that the tool does not have.
    Unknown {
        /// The parameter's name.
        parameter: String,
    },
    /// The input as a whole cannot be read.
    Unreadable {
        /// The reason why the input cannot be read.
        problem: String,
    },
}

impl InputFault {
    /// Returns the parameter's name, or an empty text if the fault concerns the whole input.
    #[must_use]
    pub fn parameter(&self) -> &str {
        match self {
            Self::Missing { parameter, .. }
            | Self::WrongType { parameter, .. }
            | Self::Invalid { parameter, .. }
            | Self::Unknown { parameter } => parameter,
            Self::Unreadable { .. } => "",
        }
    }

    fn data(&self) -> Value {
        let path: Vec<&str> =
            Some(self.parameter()).filter(|p| !p.is_empty()).into_iter().collect();
        match self {
            Self::Missing { expected, .. } => json!({
                "expected": expected,
                "code": "invalid_type",
                "path": path,
                "message": format!("Invalid input: expected {expected}, received undefined"),
            }),
            Self::WrongType { expected, received, .. } => json!({
                "expected": expected,
                "code": "invalid_type",
                "path": path,
                "message": format!("Invalid input: expected {expected}, received {received}"),
            }),
            Self::Invalid { expected, .. } => json!({
                "code": "invalid_value",
                "path": path,
                "message": format!("Invalid input: expected {expected}"),
            }),
            Self::Unknown { parameter } => json!({
                "code": "unrecognized_keys",
                "keys": [parameter],
                "path": [],
                "message": format!("Unrecognized key: \"{parameter}\""),
            }),
            Self::Unreadable { problem } => json!({
                "code": "custom",
                "path": path,
                "message": problem,
            }),
        }
    }
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { parameter, .. } => {
                write!(f, "The required parameter `{parameter}` is missing")
            }
            Self::WrongType { parameter, expected, received } if parameter.is_empty() => {
                write!(f, "The input must be of type {expected}, not {received}")
            }
            Self::WrongType { parameter, expected, received } => {
                write!(f, "The parameter `{parameter}` must be of type {expected}, not {received}")
            }
            Self::Invalid { parameter, expected } => {
                write!(f, "The parameter `{parameter}` must be {expected}")
            }
            Self::Unknown { parameter } => write!(f, "The parameter `{parameter}` is not known"),
            Self::Unreadable { problem } => f.write_str(problem),
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issues = if self.faults.len() == 1 { "issue" } else { "issues" };
        write!(f, "{} failed due to the following {issues}:", self.tool)?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n{fault}"))
    }
}

impl std::error::Error for InputError {}

impl InputError {
    /// Returns the text of the tool's result that the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        format!("<tool_use_error>InputValidationError: {self}</tool_use_error>")
    }

    /// Returns the data of the tool's result, for programs that read the stream. As in the
    /// recordings, the data of a refused call is a text.
    #[must_use]
    pub fn data(&self) -> String {
        let faults = Value::Array(self.faults.iter().map(InputFault::data).collect());
        format!("InputValidationError: {faults:#}")
    }
}

impl InputError {
    /// Renames the parameters in the error. `name_of` returns the new name of a parameter, or
    /// `None` if the parameter keeps its name.
    pub(crate) fn renamed(mut self, name_of: impl Fn(&str) -> Option<&'static str>) -> Self {
        for fault in &mut self.faults {
            let parameter = match fault {
                InputFault::Missing { parameter, .. }
                | InputFault::WrongType { parameter, .. }
                | InputFault::Invalid { parameter, .. }
                | InputFault::Unknown { parameter } => parameter,
                InputFault::Unreadable { .. } => continue,
            };
            if let Some(name) = name_of(parameter) {
                name.clone_into(parameter);
            }
        }
        self
    }
}

impl Serialize for InputError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.data())
    }
}

/// Checks an input against the schema of a tool: the parameters at the top level, with their types
/// and allowed values.
///
/// # Errors
/// [`InputError`] with every fault.
pub fn check_input(tool: &str, schema: &Value, input: &Value) -> Result<(), InputError> {
    let error = |faults| InputError { tool: tool.to_owned(), faults };
    let Value::Object(given) = input else {
        return Err(error(vec![wrong_type("", "object", input)]));
    };
    let no_parameters = Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_parameters);
    let mut faults = Vec::new();
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = name.as_str()
            && !given.contains_key(name)
        {
            let expected = known.get(name).map_or("object", expected_type);
            faults.push(InputFault::Missing { parameter: name.to_owned(), expected });
        }
    }
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in given {
        match known.get(name) {
            Some(property) => faults.extend(mismatch(name, property, value)),
            None if is_closed => faults.push(InputFault::Unknown { parameter: name.clone() }),
            None => {}
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(error(faults)) }
}

fn mismatch(name: &str, property: &Value, value: &Value) -> Option<InputFault> {
    let named = property.get("type").and_then(Value::as_str)?;
    let fits = match named {
        "integer" => value.is_i64() || value.is_u64(),
        other => type_of(value) == other,
    };
    if !fits {
        return Some(wrong_type(name, expected_type(property), value));
    }
    let choices = property.get("enum").and_then(Value::as_array)?;
    if choices.contains(value) {
        return None;
    }
    let choices: Vec<_> = choices.iter().filter_map(Value::as_str).collect();
    Some(invalid(name, &format!("one of `{}`", choices.join("`, `"))))
}

/// Returns the JSON type that a schema gives for a property, or `object` if it gives no known type.
fn expected_type(property: &Value) -> &'static str {
    match property.get("type").and_then(Value::as_str) {
        Some("string") => "string",
        Some("number") => "number",
        Some("integer") => "integer",
        Some("boolean") => "boolean",
        Some("array") => "array",
        Some(_) | None => "object",
    }
}

/// The parameters of one call that are not read yet. Code that reads the call removes each
/// parameter when it reads the parameter. A parameter with the value `null` counts as absent.
pub(crate) struct Parameters {
    tool: String,
    left: Map<String, Value>,
    faults: Vec<InputFault>,
}

impl Parameters {
    pub(crate) fn of(tool: &str, input: Value) -> Self {
        let (left, faults) = match input {
            Value::Object(map) => (map, Vec::new()),
            Value::Null => (Map::new(), Vec::new()),
            other => (Map::new(), vec![wrong_type("", "object", &other)]),
        };
        Self { tool: tool.to_owned(), left, faults }
    }

    pub(crate) fn fault(&mut self, fault: InputFault) {
        self.faults.push(fault);
    }

    /// Records that a parameter is missing. If the input is not an object, this method records
    /// nothing: all parameters are missing then, and the wrong input is already recorded as a
    /// fault.
    pub(crate) fn missing(&mut self, parameter: &str, expected: &'static str) {
        if self.faults.iter().any(|fault| fault.parameter().is_empty()) {
            return;
        }
        self.fault(InputFault::Missing { parameter: parameter.to_owned(), expected });
    }

    pub(crate) fn refuse<T>(&mut self, fault: InputFault) -> Option<T> {
        self.fault(fault);
        None
    }

    pub(crate) fn peek(&self, parameter: &str) -> Option<&Value> {
        self.left.get(parameter).filter(|value| !value.is_null())
    }

    /// Sets `parameter` to a value that the caller gave under another name, `said`. If `parameter`
    /// already has a different value, this method records a fault.
    pub(crate) fn put(&mut self, parameter: &str, value: Value, said: &str) {
        if self.peek(parameter).is_some_and(|other| *other != value) {
            self.fault(invalid(said, &format!("the same as `{parameter}`")));
        } else {
            self.left.insert(parameter.to_owned(), value);
        }
    }

    /// Removes the parameter and returns its value, without checking the type.
    pub(crate) fn value(&mut self, parameter: &str) -> Option<Value> {
        self.left.shift_remove(parameter).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, parameter: &str) -> Option<String> {
        match self.value(parameter)? {
            Value::String(text) => Some(text),
            other => self.refuse(wrong_type(parameter, "string", &other)),
        }
    }

    pub(crate) fn flag(&mut self, parameter: &str) -> Option<bool> {
        match self.value(parameter)? {
            Value::Bool(flag) => Some(flag),
            other => self.refuse(wrong_type(parameter, "boolean", &other)),
        }
    }

    /// Removes a parameter and returns its value, a whole number of at least 1.
    pub(crate) fn count(&mut self, parameter: &str) -> Option<u32> {
        let value = self.value(parameter)?;
        match value.as_u64().map(u32::try_from) {
            Some(Ok(count)) if count > 0 => Some(count),
            _ if !value.is_number() => self.refuse(wrong_type(parameter, "number", &value)),
            _ => self.refuse(invalid(parameter, "a whole number from 1 up")),
        }
    }

    pub(crate) fn texts(&mut self, parameter: &str) -> Vec<String> {
        let Some(value) = self.value(parameter) else { return Vec::new() };
        let Value::Array(items) = value else {
            return self.refuse(wrong_type(parameter, "array", &value)).unwrap_or_default();
        };
        let texts = items.into_iter().map(|item| match item {
            Value::String(text) => Some(text),
            _ => None,
        });
        texts
            .collect::<Option<_>>()
            .or_else(|| self.refuse(invalid(parameter, "an array of strings")))
            .unwrap_or_default()
    }

    pub(crate) fn object(&mut self, parameter: &str) -> Option<Map<String, Value>> {
        match self.value(parameter)? {
            Value::Object(map) => Some(map),
            other => self.refuse(wrong_type(parameter, "object", &other)),
        }
    }

    /// Removes a required parameter and returns its text. If the parameter is missing, the method
    /// returns a placeholder. The placeholder is never used, because [`Parameters::finish`] then
    /// fails.
    pub(crate) fn required_text(&mut self, parameter: &str) -> String {
        if self.peek(parameter).is_none() {
            self.missing(parameter, "string");
        }
        self.text(parameter).unwrap_or_default()
    }

    /// Removes a required parameter and returns its boolean. A missing parameter is handled as in
    /// [`Parameters::required_text`].
    pub(crate) fn required_flag(&mut self, parameter: &str) -> bool {
        if self.peek(parameter).is_none() {
            self.missing(parameter, "boolean");
        }
        self.flag(parameter).unwrap_or_default()
    }

    /// Removes and returns all remaining parameters, for a tool that accepts any parameter.
    pub(crate) fn rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.left)
    }

    /// Returns the error without reading more parameters. Use it when the faults so far make
    /// further reading useless.
    pub(crate) fn fail(self) -> InputError {
        InputError { tool: self.tool, faults: self.faults }
    }

    /// Returns `read`, or the error if a fault was recorded. A parameter that was not read is
    /// unknown to the tool and also counts as a fault.
    pub(crate) fn finish<T>(mut self, read: T) -> Result<T, InputError> {
        let unknown = self.left.keys().map(|key| InputFault::Unknown { parameter: key.clone() });
        self.faults.extend(unknown);
        if self.faults.is_empty() { Ok(read) } else { Err(self.fail()) }
    }
}

pub(crate) fn invalid(parameter: &str, expected: &str) -> InputFault {
    InputFault::Invalid { parameter: parameter.to_owned(), expected: expected.to_owned() }
}

fn wrong_type(parameter: &str, expected: &'static str, value: &Value) -> InputFault {
    let received = type_of(value);
    InputFault::WrongType { parameter: parameter.to_owned(), expected, received }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_good_input_passes() {
        assert_eq!(check(json!({"path": "x", "limit": 2.5, "mode": "a"})), "fine");
    }

    #[test]
    fn a_missing_parameter_is_named_as_recorded() {
        insta::assert_snapshot!(check(json!({})), @r"
        Probe failed due to the following issue:
        The required parameter `path` is missing
        ");
    }

    #[test]
    fn every_problem_is_told_at_once() {
        insta::assert_snapshot!(check(json!({"file": 1, "limit": "3", "mode": "c"})), @r"
        Probe failed due to the following issues:
        The required parameter `path` is missing
        The parameter `file` is not known
        The parameter `limit` must be of type number, not string
        The parameter `mode` must be one of `a`, `b`
        ");
    }

    #[test]
    fn an_input_that_is_no_object_is_refused() {
        assert!(check(json!("path")).contains("The input must be of type object, not string"));
    }
}
