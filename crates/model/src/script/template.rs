//! The variables of a script, and texts that contain them. In a text, `${name}` is a variable, and
//! `$${` stands for the characters `${`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::AgentTag;

/// The variables of the script for one agent, with their values.
#[derive(Debug)]
pub(super) struct Variables {
    values: BTreeMap<String, Value>,
}

impl Variables {
    /// Creates the variables. `agent` is always set, and `team` is set if the agent is in a team.
    pub(super) fn of(agent: &AgentTag) -> Self {
        let mut values = BTreeMap::new();
        values.insert("agent".to_owned(), Value::String(agent.name.clone()));
        if let Some(team) = &agent.team {
            values.insert("team".to_owned(), Value::String(team.clone()));
        }
        Self { values }
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Replaces the variables in a text by their values.
    ///
    /// # Errors
    /// An error if a variable has no value, or if its closing brace is missing.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        self.fill_with(text, str::to_owned)
    }

    /// Replaces the variables in a regular expression. Their values are escaped, so that they match
    /// literally.
    ///
    /// # Errors
    /// The same errors as [`Variables::fill`].
    pub(super) fn fill_escaped(&self, text: &str) -> Result<String, String> {
        self.fill_with(text, regex::escape)
    }

    /// Replaces the variables in every string of a JSON value. If a string consists of exactly one
    /// variable, it becomes the value of that variable, which can have any type.
    ///
    /// # Errors
    /// The same errors as [`Variables::fill`].
    pub(super) fn fill_value(&self, value: &Value) -> Result<Value, String> {
        match value {
            Value::String(text) => {
                let alone = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
                match alone.and_then(|name| self.values.get(name)) {
                    Some(value) => Ok(value.clone()),
                    None => self.fill(text).map(Value::String),
                }
            }
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                let fill = |(key, value): (&String, &Value)| {
                    self.fill_value(value).map(|value| (key.clone(), value))
                };
                fields.iter().map(fill).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        }
    }

    fn fill_with(&self, text: &str, write: impl Fn(&str) -> String) -> Result<String, String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            // `$${` is an escape, and stands for the characters `${`.
            if let Some(before) = before.strip_suffix('$') {
                filled.push_str(before);
                filled.push_str("${");
                rest = after;
                continue;
            }
            filled.push_str(before);
            let (name, after) =
                after.split_once('}').ok_or_else(|| format!("a ${{ in {text:?} is not closed"))?;
            let value = self.values.get(name).ok_or_else(|| {
                format!("${{{name}}} has no value; capture it first, or write $${{ for a plain ${{")
            })?;
            match value {
                Value::String(value) => filled.push_str(&write(value)),
                other => filled.push_str(&write(&other.to_string())),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn variables() -> Variables {
        let mut variables =
            Variables::of(&AgentTag { name: "bob".to_owned(), team: Some("t".to_owned()) });
        variables.set("n", json!(7));
        variables.set("dot", json!("a.b"));
        variables
    }

    #[test]
    fn texts_are_filled_and_a_doubled_dollar_is_plain() {
        let filled = variables().fill("${agent}@${team} ${n} $${HOME} $5 {x}").unwrap();
        assert_eq!(filled, "bob@t 7 ${HOME} $5 {x}");
        assert_eq!(variables().fill_escaped("^${dot}$").unwrap(), r"^a\.b$");
    }

    #[test]
    fn a_variable_alone_keeps_its_type() {
        let filled = variables().fill_value(&json!({"a": ["${n}", "n=${n}"], "b": true})).unwrap();
        assert_eq!(filled, json!({"a": [7, "n=7"], "b": true}));
    }

    #[test]
    fn a_variable_without_a_value_is_an_error_that_names_it() {
        insta::assert_snapshot!(
            variables().fill("x ${plan}").unwrap_err(),
            @"${plan} has no value; capture it first, or write $${ for a plain ${"
        );
        assert!(variables().fill("${plan").is_err());
    }
}
