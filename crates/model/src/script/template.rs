//! Variables, and texts that contain them: `${name}`, and `$${` for a literal `${`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::AgentTag;

/// The variables of one agent's script.
#[derive(Debug)]
pub(super) struct Variables {
    values: BTreeMap<String, Value>,
}

impl Variables {
    /// Creates the variables with `agent` and, for a team member, `team`.
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

    /// Replaces the variables in a text.
    ///
    /// # Errors
    /// When a variable has no value, or its brace is not closed.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        self.fill_with(text, str::to_owned)
    }

    /// Replaces the variables in a regular expression. The variables' values are matched literally.
    ///
    /// # Errors
    /// The same as [`Variables::fill`].
    pub(super) fn fill_escaped(&self, text: &str) -> Result<String, String> {
        self.fill_with(text, regex::escape)
    }

    /// Replaces the variables in every string of a value. A string that is exactly one variable
    /// becomes that variable's value, of any type.
    ///
    /// # Errors
    /// The same as [`Variables::fill`].
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
            // `$${` stands for a literal `${`.
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
