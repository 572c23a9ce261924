//! The OpenAPI document of the API: one list of operations, from which the document is made. A test
//! calls each operation and compares its answers with the document.

mod operation;
mod operations;
mod schemas;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Returns the document.
pub(crate) fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations::all() {
        let methods = paths.entry(operation.path).or_default();
        methods.insert(operation.method.to_owned(), operation.described());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pitcrew",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Teams of coding agents below one root: running, stopped and archived.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "security": [{"token": []}, {"browser": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token in the file that `pitcrew serve` names.",
                },
                "browser": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "pitcrew-PORT",
                    "description": "The cookie that a browser gets from the one-time link.",
                },
            },
            "schemas": schemas::all(),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::operation::Operation;
    use super::*;

    /// Collects the names of the schemas to which a value refers.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(name) = object.get("$ref").and_then(Value::as_str) {
                    found.insert(name.trim_start_matches("#/components/schemas/").to_owned());
                }
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(all) => all.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_schema_is_used_and_exists() {
        let document = document();
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let there = document["components"]["schemas"].as_object().unwrap();
        assert_eq!(used, there.keys().cloned().collect());
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let all = operations::all();
        let names: BTreeSet<String> = all.iter().map(Operation::id).collect();
        assert_eq!(names.len(), all.len());
    }
}
