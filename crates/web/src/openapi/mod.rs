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

    use pitcrew_runtime::control_socket::ControlRequest;

    use super::operation::Operation;
    use super::*;

    /// The operation for each request of the control protocol.
    const FOR_REQUESTS: [(&str, &str); 16] = [
        ("answer", "post_teams_team_questions_id_answer"),
        ("compact", "post_teams_team_members_name_compact"),
        ("end_team", "post_teams_team_end"),
        ("follow", "get_teams_team_events"),
        ("hide_pane", "post_teams_team_members_name_hide_pane"),
        ("interrupt", "post_teams_team_members_name_interrupt"),
        ("mode", "post_teams_team_members_name_mode"),
        ("model", "post_teams_team_members_name_model"),
        ("permission", "post_teams_team_permissions_request"),
        ("permissions", "get_teams_team_permissions"),
        ("plan", "post_teams_team_plans_request"),
        ("show_pane", "post_teams_team_members_name_show_pane"),
        ("shutdown", "delete_teams_team_members_name"),
        ("spawn", "post_teams_team_members"),
        ("stop_member", "post_teams_team_members_name_stop"),
        ("stop_run", "post_teams_team_stop"),
    ];

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
    fn every_request_of_the_control_protocol_has_an_operation() {
        // The error about an unknown request lists all of them.
        let error = serde_json::from_value::<ControlRequest>(json!({"op": ""})).unwrap_err();
        let error = error.to_string();
        let (_, listed) = error.split_once("expected one of ").unwrap();
        let requests: BTreeSet<&str> =
            listed.split(", ").map(|name| name.trim_matches('`')).collect();
        assert_eq!(requests, FOR_REQUESTS.map(|(request, _)| request).into());
        let operations: BTreeSet<String> = operations::all().iter().map(Operation::id).collect();
        for (request, operation) in FOR_REQUESTS {
            assert!(operations.contains(operation), "{request}: {operation}");
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let all = operations::all();
        let names: BTreeSet<String> = all.iter().map(Operation::id).collect();
        assert_eq!(names.len(), all.len());
    }
}
