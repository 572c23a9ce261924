//! Tests the inputs and schemas of the team tools against the recordings.

use pitcrew_protocol::{
    SendMessageInput, SpawnInput, StatusChange, TaskStatus, TaskUpdateInput, TeamCall, tool_schema,
};
use serde_json::{Map, Value, json};

use crate::recordings::{fixtures, lines};

/// The names of the team tools. `Agent` is another name of Task.
pub(crate) const TEAM_TOOLS: [&str; 10] = [
    "TeamCreate",
    "TeamDelete",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskUpdate",
    "TaskList",
    "SendMessage",
    "ExitPlanMode",
    "TaskStop",
];

fn recorded_schemas() -> Map<String, Value> {
    let text =
        std::fs::read_to_string(fixtures().join("claude-2.1.39/tool-input-schemas.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the schema without the keys `description` and `$schema`, which do not restrict an input.
fn bare(mut schema: Value) -> Value {
    fn strip(value: &mut Value, is_properties: bool) {
        if let Value::Object(map) = value {
            if !is_properties {
                map.shift_remove("description");
                map.shift_remove("$schema");
            }
            map.iter_mut().for_each(|(key, value)| strip(value, key == "properties"));
        } else if let Value::Array(items) = value {
            items.iter_mut().for_each(|item| strip(item, false));
        }
    }
    strip(&mut schema, false);
    schema
}

/// Returns every recorded call of a team tool.
fn recorded_calls() -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    for (_, hook) in lines(&fixtures().join("claude-2.1.39/hooks.ndjson")) {
        if let Some(name) = hook["tool_name"].as_str() {
            calls.push((name.to_owned(), hook["tool_input"].clone()));
        }
    }
    for file in ["team-lifecycle", "errors-and-duplicates"] {
        for (_, line) in lines(&fixtures().join(format!("claude-2.1.39/stream-json/{file}.ndjson")))
        {
            for block in line["message"]["content"].as_array().into_iter().flatten() {
                if let Some(name) = block["name"].as_str() {
                    calls.push((name.to_owned(), block["input"].clone()));
                }
            }
        }
    }
    calls.retain(|(name, _)| TEAM_TOOLS.contains(&name.as_str()));
    calls
}

fn parsed(tool: &str, input: Value) -> TeamCall {
    TeamCall::parse(tool, input).unwrap().unwrap_or_else(|e| panic!("{e}"))
}

fn sent(input: Value) -> SendMessageInput {
    SendMessageInput::parse(input).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn schemas_are_the_recorded_ones_but_for_what_is_listed() {
    let recorded = recorded_schemas();
    for tool in TEAM_TOOLS {
        let mut ours = bare(tool_schema(tool).unwrap());
        let mut theirs = bare(recorded[tool].clone());
        let taken = |schema: &mut Value, name| {
            schema["properties"].as_object_mut().unwrap().shift_remove(name)
        };
        match tool {
            "Task" => {
                assert_eq!(
                    taken(&mut ours, "isolation"),
                    Some(json!({"type": "string", "enum": ["worktree"]}))
                );
                assert_eq!(taken(&mut ours, "backend"), Some(json!({"type": "string"})));
                assert_eq!(
                    taken(&mut ours, "program"),
                    Some(json!({"type": "string", "enum": ["pitcrew", "claude"]}))
                );
                // The reference schema lists one vendor's models. A pitcrew run can use other
                // models too.
                theirs["properties"]["model"].as_object_mut().unwrap().shift_remove("enum");
            }
            "TeamDelete" => {
                assert_eq!(taken(&mut ours, "team_name"), Some(json!({"type": "string"})))
            }
            "ExitPlanMode" => {
                assert_eq!(taken(&mut ours, "plan"), Some(json!({"type": "string"})));
                // Our schema omits these properties, because pitcrew reads none of them.
                for name in [
                    "allowedPrompts",
                    "pushToRemote",
                    "remoteSessionId",
                    "remoteSessionUrl",
                    "remoteSessionTitle",
                ] {
                    assert!(taken(&mut theirs, name).is_some(), "{name}");
                }
            }
            _ => {}
        }
        assert_eq!(ours, theirs, "{tool}");
        assert!(ours["type"] == "object" && ours.get("oneOf").is_none());
    }
    assert_eq!(tool_schema("Agent"), tool_schema("Task"));
    assert_eq!(tool_schema("BashOutput"), None);
}

/// Returns a value that a property's schema allows.
fn sample(property: &Value) -> Value {
    let property = property["anyOf"].get(0).unwrap_or(property);
    match (property["enum"].get(0), property["type"].as_str()) {
        (Some(first), _) => first.clone(),
        (None, Some("string")) => json!("a"),
        (None, Some("boolean")) => json!(true),
        (None, Some("integer")) => json!(3),
        (None, Some("array")) => json!(["1"]),
        (None, Some("object")) => json!({"k": 1}),
        (None, other) => panic!("{other:?} in {property}"),
    }
}

#[test]
fn no_schema_offers_what_nothing_reads() {
    let base = |tool: &str| match tool {
        "TeamCreate" => json!({"team_name": "t"}),
        "Task" => json!({"description": "d", "prompt": "p", "subagent_type": "s"}),
        "TaskCreate" => json!({"subject": "s", "description": "d"}),
        "TaskGet" | "TaskUpdate" => json!({"taskId": "1"}),
        "TaskStop" => json!({"task_id": "b"}),
        _ => json!({}),
    };
    // SendMessage needs its own samples, because its other parameters depend on the parameter
    // `type`.
    let messages = [
        json!({"type": "message", "recipient": "b", "content": "c", "summary": "s"}),
        json!({"type": "shutdown_response", "request_id": "r", "approve": false, "content": "c"}),
    ];
    for tool in TEAM_TOOLS {
        let schema = tool_schema(tool).unwrap();
        for (name, property) in schema["properties"].as_object().unwrap() {
            let bases = if tool == "SendMessage" { messages.to_vec() } else { vec![base(tool)] };
            let is_read = bases.into_iter().any(|without| {
                let mut with = without.clone();
                let mut other = sample(property);
                if with.get(name) == Some(&other) {
                    other = json!("z");
                }
                if tool == "SendMessage" && name == "type" {
                    other = json!("broadcast");
                    with.as_object_mut().unwrap().shift_remove("recipient");
                }
                if tool == "SendMessage" && !without.as_object().unwrap().contains_key(name) {
                    return false;
                }
                if name == "shell_id" {
                    with.as_object_mut().unwrap().shift_remove("task_id");
                    other = json!("z");
                }
                with[name] = other;
                let read = TeamCall::parse(tool, with.clone()).unwrap();
                let unread = match &read {
                    Ok(TeamCall::ExitPlanMode(input)) => input.rest.contains_key(name),
                    Ok(_) | Err(_) => false,
                };
                read.is_ok_and(|read| {
                    !unread && Some(read) != TeamCall::parse(tool, without).unwrap().ok()
                })
            });
            assert!(is_read, "{tool} offers {name}, and nothing reads it");
        }
    }
}

#[test]
fn recorded_calls_are_valid_and_read() {
    let calls = recorded_calls();
    assert!(calls.len() > 50, "only {} calls were seen", calls.len());
    for (tool, input) in calls {
        let schema = tool_schema(&tool).unwrap();
        assert!(jsonschema::is_valid(&schema, &input), "{tool} {input}");
        match TeamCall::parse(&tool, input.clone()).unwrap() {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(input["recipient"], "worker@probe", "{error}");
                assert_eq!(
                    error.to_string(),
                    "SendMessage failed due to the following issue:\nThe required parameter `summary` is missing"
                );
            }
        }
    }
}

#[test]
fn what_a_strict_schema_refuses_is_refused() {
    let minimal = [
        ("TeamCreate", json!({"team_name": "t"})),
        ("TeamDelete", json!({})),
        ("Task", json!({"description": "d", "prompt": "p", "subagent_type": "s"})),
        ("TaskCreate", json!({"subject": "s", "description": "d"})),
        ("TaskGet", json!({"taskId": "1"})),
        ("TaskUpdate", json!({"taskId": "1"})),
        ("TaskList", json!({})),
        ("SendMessage", json!({"type": "broadcast", "content": "c", "summary": "s"})),
        ("TaskStop", json!({"task_id": "b"})),
    ];
    for (tool, input) in minimal {
        let refused = |input: &Value| TeamCall::parse(tool, input.clone()).unwrap().is_err();
        assert!(!refused(&input), "{tool}");
        let mut more = input.clone();
        more["unknown"] = json!(1);
        assert!(
            refused(&more) && !jsonschema::is_valid(&tool_schema(tool).unwrap(), &more),
            "{tool}"
        );
        for key in input.as_object().unwrap().keys().filter(|key| *key != "subagent_type") {
            let mut less = input.clone();
            less.as_object_mut().unwrap().shift_remove(key);
            assert!(refused(&less), "{tool} without {key}");
            let mut other = input.clone();
            other[key] = json!(["x"]);
            assert!(refused(&other), "{tool} with a list for {key}");
        }
    }
    let plan = TeamCall::parse("ExitPlanMode", json!({"plan": "p", "launchSwarm": true}))
        .unwrap()
        .unwrap();
    assert!(
        matches!(plan, TeamCall::ExitPlanMode(plan) if plan.plan.as_deref() == Some("p") && plan.rest.len() == 1)
    );
    assert!(TeamCall::parse("Bash", json!({})).is_none());
}

#[test]
fn both_dialects_say_the_same() {
    let pairs = [
        (
            json!({"type": "message", "recipient": "bob", "content": "hi", "summary": "s"}),
            json!({"to": "bob", "message": "hi", "summary": "s"}),
        ),
        (
            json!({"type": "broadcast", "content": "hi", "summary": "s"}),
            json!({"to": "*", "message": "hi", "summary": "s"}),
        ),
        (
            json!({"type": "shutdown_request", "recipient": "bob", "content": "done"}),
            json!({"to": "bob", "message": {"type": "shutdown_request", "reason": "done"}}),
        ),
        (
            json!({"type": "shutdown_response", "request_id": "r", "approve": true}),
            json!({"to": "team-lead", "message": {"type": "shutdown_response", "request_id": "r", "approve": true}}),
        ),
        (
            json!({"type": "plan_approval_response", "recipient": "bob", "request_id": "r", "approve": false, "content": "no"}),
            json!({"to": "bob", "message": {"type": "plan_approval_response", "request_id": "r", "approve": false, "feedback": "no"}}),
        ),
    ];
    for (named, session) in pairs {
        assert_eq!(sent(named), sent(session));
    }
    let mixed = sent(
        json!({"type": "message", "recipient": "bob", "to": "bob", "message": "hi", "summary": "s"}),
    );
    assert_eq!(mixed, sent(json!({"to": "bob", "message": "hi", "summary": "s"})));
    let everybody =
        sent(json!({"type": "message", "recipient": "*", "content": "hi", "summary": "s"}));
    assert_eq!(everybody, sent(json!({"to": "*", "message": "hi", "summary": "s"})));
    let spawn = json!({"description": "d", "prompt": "p", "isolation": "worktree", "max_turns": 3});
    assert_eq!(parsed("Agent", spawn.clone()), parsed("Task", spawn.clone()));
    assert_eq!(SpawnInput::parse(spawn).unwrap().max_turns, Some(3));
}

#[test]
fn what_contradicts_itself_or_names_nobody_is_refused() {
    for input in [
        json!({"type": "message", "recipient": "bob", "to": "eve", "content": "hi", "summary": "s"}),
        json!({"to": "bob", "message": {"type": "shutdown_request"}, "type": "broadcast"}),
        json!({"to": " ", "message": "hi", "summary": "s"}),
        json!({"type": "shutdown_response", "request_id": "r", "approve": false}),
        json!({"to": "bob", "message": {"request_id": "r"}}),
        json!({"to": "bob", "message": 5, "summary": "s"}),
    ] {
        assert!(SendMessageInput::parse(input.clone()).is_err(), "{input}");
    }
}

#[test]
fn an_update_says_only_what_changes() {
    let update =
        TaskUpdateInput::parse(json!({"taskId": "1", "status": "in_progress", "owner": null}))
            .unwrap();
    let expected = TaskUpdateInput {
        task_id: "1".into(),
        status: Some(StatusChange::To(TaskStatus::InProgress)),
        ..TaskUpdateInput::default()
    };
    assert_eq!(update, expected);
    for (name, status) in
        [("pending", Some("pending")), ("deleted", Some("deleted")), ("done", None)]
    {
        let read = TaskUpdateInput::parse(json!({"taskId": "1", "status": name}))
            .ok()
            .and_then(|update| update.status);
        assert_eq!(read.map(StatusChange::as_str), status);
    }
    for bad in [json!({"addBlocks": "2"}), json!({"addBlocks": [2]}), json!({"metadata": []})] {
        let mut input = json!({"taskId": "1"});
        input.as_object_mut().unwrap().extend(bad.as_object().unwrap().clone());
        assert!(TaskUpdateInput::parse(input).is_err(), "{bad}");
    }
}
