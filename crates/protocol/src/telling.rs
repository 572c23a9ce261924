//! The part of a tool call that tells a person most about it.

use serde_json::Value;

/// The fields of a tool's input that say most about a call, the most informative first.
pub const TELLING: [&str; 10] = [
    "command",
    "file_path",
    "pattern",
    "recipient",
    "to",
    "name",
    "subject",
    "taskId",
    "team_name",
    "request_id",
];

/// The maximum number of characters that [`telling`] returns.
const CHARS_MOST: usize = 200;

/// Returns the beginning of the most informative field of a tool's input. A text of several lines ends
/// with its first line.
#[must_use]
pub fn telling(input: &Value) -> Option<String> {
    let text = TELLING.iter().find_map(|field| input.get(*field).and_then(Value::as_str))?;
    let line = text.lines().next().unwrap_or_default();
    let mut told: String = line.chars().take(CHARS_MOST).collect();
    if told.len() < text.trim_end().len() {
        told.push('…');
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_beginning_of_the_most_informative_field_is_told() {
        let told = |input: Value| telling(&input);
        assert_eq!(told(json!({"command": "npm test", "name": "x"})).as_deref(), Some("npm test"));
        assert_eq!(told(json!({"command": "cat <<E\nx"})).as_deref(), Some("cat <<E…"));
        assert_eq!(told(json!({"command": "x".repeat(999)})).unwrap().chars().count(), 201);
        assert_eq!(told(json!({"n": 1})), None);
    }
}
