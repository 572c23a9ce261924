//! Rebuilds every recorded result of a team tool. The tests compare the data and the text of each
//! result with the recording, byte for byte.

use std::collections::HashMap;

use pitcrew_protocol::{
    BroadcastSent, EventIds, InputError, MessageSent, RequestSent, Spawned, StreamEvent,
    TaskCreated, TaskListed, TaskShown, TaskTimes, TaskUpdated, TeamCall, TeamCreated, TeamDeleted,
    ToolAnswer, UserEvent, from_text,
};
use serde_json::{Value, json};

use crate::recordings::{fixtures, lines};

/// Returns the answer that pitcrew gives for the recorded `data`. If the answer's type has a
/// constructor for it, the constructor builds the answer. Otherwise the answer is read from `data`.
fn rebuilt(tool: &str, call: &Value, data: &Value) -> ToolAnswer {
    fn read<T: serde::de::DeserializeOwned>(data: &Value) -> T {
        serde_json::from_value(data.clone()).unwrap_or_else(|e| panic!("{e}: {data}"))
    }
    match (tool, call["type"].as_str()) {
        ("TeamCreate", _) => read::<TeamCreated>(data).into(),
        ("TeamDelete", _) => TeamDeleted::refused(
            "probe",
            &["worker".into()],
            "Use requestShutdown to gracefully terminate teammates first.",
        )
        .into(),
        ("TaskCreate", _) => read::<TaskCreated>(data).into(),
        ("TaskUpdate", _) => read::<TaskUpdated>(data).into(),
        ("TaskList", _) => read::<TaskListed>(data).into(),
        ("TaskGet", _) => read::<TaskShown>(data).into(),
        ("Task", _) => read::<Spawned>(data).into(),
        ("SendMessage", Some("message")) => {
            let answer = read::<MessageSent>(data);
            MessageSent::to(call["recipient"].as_str().unwrap(), answer.routing).into()
        }
        ("SendMessage", Some("broadcast")) => {
            let answer = read::<BroadcastSent>(data);
            BroadcastSent::to(answer.recipients, answer.routing.unwrap()).into()
        }
        ("SendMessage", Some("shutdown_request")) => {
            let answer = read::<RequestSent>(data);
            RequestSent::shutdown(&answer.target, &answer.request_id).into()
        }
        other => panic!("no answer for {other:?}"),
    }
}

/// Returns the tool calls of a recording, by the id of the call.
fn calls(lines: &[(String, Value)]) -> HashMap<String, (String, Value)> {
    let blocks =
        lines.iter().filter_map(|(_, line)| line["message"]["content"].as_array()).flatten();
    let calls = blocks.filter(|block| block["type"] == "tool_use");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    calls.map(|call| (text(&call["id"]), (text(&call["name"]), call["input"].clone()))).collect()
}

#[test]
fn every_recorded_answer_is_rebuilt_to_the_byte() {
    let mut rebuilt_tools = std::collections::BTreeMap::<String, u32>::new();
    for file in ["team-lifecycle", "errors-and-duplicates"] {
        let lines = lines(&fixtures().join(format!("claude-2.1.39/stream-json/{file}.ndjson")));
        let calls = calls(&lines);
        for (line, value) in lines.iter().filter(|(_, value)| value["type"] == "user") {
            let block = &value["message"]["content"][0];
            let tool_use_id = block["tool_use_id"].as_str().unwrap();
            let (tool, call) = &calls[tool_use_id];
            let ids = EventIds {
                session_id: value["session_id"].as_str().unwrap().into(),
                uuid: value["uuid"].as_str().unwrap().into(),
                parent_tool_use_id: None,
            };
            let event = match TeamCall::parse(tool, call.clone()) {
                None => continue,
                Some(Err(error)) => {
                    let event = UserEvent::refusal(ids, tool_use_id, &error);
                    assert_eq!(block["content"], error.text());
                    assert_eq!(value["tool_use_result"], error.data());
                    assert_eq!(event.tool_use_result, Some(serde_json::to_value(&error).unwrap()));
                    continue;
                }
                Some(Ok(_)) => UserEvent::answer(
                    ids,
                    tool_use_id,
                    &rebuilt(tool, call, &value["tool_use_result"]),
                ),
            };
            assert_eq!(StreamEvent::from(event).to_line().unwrap(), value.to_string(), "{line}");
            *rebuilt_tools.entry(tool.clone()).or_default() += 1;
        }
    }
    let tools: Vec<String> =
        rebuilt_tools.iter().map(|(tool, times)| format!("{tool} {times}")).collect();
    insta::assert_snapshot!(tools.join(", "), @"SendMessage 6, Task 4, TaskCreate 2, TaskGet 1, TaskList 1, TaskUpdate 2, TeamCreate 2, TeamDelete 1");
}

#[test]
fn every_answer_that_a_hook_was_told_is_rebuilt_to_the_byte() {
    let mut changes = 0;
    for (line, hook) in lines(&fixtures().join("claude-2.1.39/hooks.ndjson")) {
        let (Some(tool), Some(data)) = (hook["tool_name"].as_str(), hook.get("tool_response"))
        else {
            continue;
        };
        if tool == "Bash" {
            continue;
        }
        let answer = rebuilt(tool, &hook["tool_input"], data);
        assert_eq!(serde_json::to_string(&answer).unwrap(), data.to_string(), "{line}");
        changes += u32::from(
            matches!(&answer, ToolAnswer::TaskUpdated(update) if update.status_change.is_some()),
        );
    }
    assert_eq!(changes, 2, "changes of status");
}

#[test]
fn a_list_is_made_of_the_recorded_tasks() {
    let read = |id: u32| {
        let path = fixtures().join(format!("claude-2.1.39/in-process/tasks/probe/{id}.json"));
        from_text(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let tasks = [read(3), read(2), read(1)];
    insta::assert_snapshot!(TaskListed::of(&tasks).text(), @r"
    #1 [completed] Do A (worker)
    #2 [pending] Do B
    ");
    insta::assert_snapshot!(TaskShown::of(&tasks[1]).text(), @r"
    Task #2: Do B
    Status: pending
    Description: desc B
    Blocked by: #1
    ");
    insta::assert_snapshot!(TaskListed::of(&[]).text(), @"No tasks found");
}

#[test]
fn a_task_is_shown_with_all_that_is_set_of_it_and_without_what_is_ours() {
    let text = r#"{"id":"7","subject":"Do A","description":"Status: none","activeForm":"Doing A","owner":"worker",
        "status":"in_progress","blocks":["9"],"blockedBy":["3"],
        "metadata":{"p":1,"component":"au\nth","list":["POST /login"],"pitcrew":{"createdBy":"x"}}}"#;
    let task = from_text(text).unwrap();
    let times = TaskTimes { created_at: Some("2026-02-11T14:30:00Z".into()), updated_at: None };
    let shown = TaskShown::at(&task, times.clone());
    insta::assert_snapshot!(shown.text(), @r#"
    Task #7: Do A
    Status: in_progress
    Owner: worker
    Active form: Doing A
    Metadata p: 1
    Metadata component: au th
    Metadata list: ["POST /login"]
    Created: 2026-02-11T14:30:00Z
    Description: Status: none
    Blocked by: #3
    Blocks: #9
    "#);
    insta::assert_snapshot!(serde_json::to_string(&shown).unwrap(), @r#"{"task":{"id":"7","subject":"Do A","description":"Status: none","status":"in_progress","blocks":["9"],"blockedBy":["3"],"owner":"worker","activeForm":"Doing A","metadata":{"p":1,"component":"au\nth","list":["POST /login"]},"created_at":"2026-02-11T14:30:00Z"}}"#);
    let created = serde_json::to_string(&TaskCreated::of(&task, times)).unwrap();
    insta::assert_snapshot!(created, @r#"{"task":{"id":"7","subject":"Do A","description":"Status: none","status":"in_progress","owner":"worker","activeForm":"Doing A","blockedBy":["3"],"blocks":["9"],"metadata":{"p":1,"component":"au\nth","list":["POST /login"]},"created_at":"2026-02-11T14:30:00Z"}}"#);
}

#[test]
fn a_title_cannot_pass_for_a_row_of_its_own() {
    let task = json!({"id": "1", "subject": "a\n#2 [completed] b", "description": "d", "status": "pending", "blocks": [], "blockedBy": []});
    let listed = TaskListed::of(&[from_text(&task.to_string()).unwrap()]);
    assert_eq!(listed.text().lines().count(), 1);
}

#[test]
fn a_broadcast_to_nobody_has_no_way() {
    let routing = json!({"sender": "team-lead", "target": "", "content": "x"});
    let sent = BroadcastSent::to(Vec::new(), serde_json::from_value(routing).unwrap());
    let data = r#"{"success":true,"message":"No teammates to broadcast to","recipients":[]}"#;
    assert_eq!(serde_json::to_string(&sent).unwrap(), data);
}

#[test]
fn a_refusal_names_every_fault() {
    let refused = |input: Value| -> InputError {
        TeamCall::parse("SendMessage", input).unwrap().unwrap_err()
    };
    insta::assert_snapshot!(refused(json!({"type": "shutdown_response", "approve": "yes", "x": 1})), @r"
    SendMessage failed due to the following issues:
    The required parameter `request_id` is missing
    The parameter `approve` must be of type boolean, not string
    The parameter `x` is not known
    ");
    insta::assert_snapshot!(refused(json!({"to": "bob", "message": "hi"})), @r"
    SendMessage failed due to the following issue:
    The required parameter `summary` is missing
    ");
    insta::assert_snapshot!(refused(json!({"to": "bob", "message": {"type": "shutdown_response", "approve": false}})), @r"
    SendMessage failed due to the following issues:
    The required parameter `message.request_id` is missing
    The required parameter `message.reason` is missing
    ");
    insta::assert_snapshot!(refused(json!({"type": "other"})), @r"
    SendMessage failed due to the following issue:
    The parameter `type` must be one of `message`, `broadcast`, `shutdown_request`, `shutdown_response`, `plan_approval_response`
    ");
    insta::assert_snapshot!(refused(json!("text")), @r"
    SendMessage failed due to the following issue:
    The input must be of type object, not string
    ");
    insta::assert_snapshot!(refused(json!({"type": "message", "x": 1})).data(), @r#"
    InputValidationError: [
      {
        "expected": "string",
        "code": "invalid_type",
        "path": [
          "recipient"
        ],
        "message": "Invalid input: expected string, received undefined"
      },
      {
        "expected": "string",
        "code": "invalid_type",
        "path": [
          "content"
        ],
        "message": "Invalid input: expected string, received undefined"
      },
      {
        "expected": "string",
        "code": "invalid_type",
        "path": [
          "summary"
        ],
        "message": "Invalid input: expected string, received undefined"
      },
      {
        "code": "unrecognized_keys",
        "keys": [
          "x"
        ],
        "path": [],
        "message": "Unrecognized key: \"x\""
      }
    ]
    "#);
}
