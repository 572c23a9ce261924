//! Tests with arbitrary texts: no text makes a reader panic, and every value that was read can be
//! written again.

use pitcrew_protocol::{
    Frame, Message, StreamEvent, Task, TaskGraph, TaskListed, TeamCall, TeamConfig, from_text,
    message_ids, parse_injected,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::tools::TEAM_TOOLS;

/// Generates texts that are JSON, nearly JSON, or arbitrary.
fn text() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\ud83d",
        "\\uDE00",
        "\\u0000",
        "null",
        "true",
        "1e999",
        "-0",
        "1",
        "\"type\"",
        "\"shutdown_request\"",
        "\"requestId\"",
        "\"from\"",
        "\"text\"",
        "\"name\"",
        "\"members\"",
        "\"id\"",
        "\"taskId\"",
        "\"user\"",
        "\"message\"",
        "\"role\"",
        "\"content\"",
        "\"x\"",
        "é",
        "\u{FEFF}",
        " ",
        "\n",
    ]);
    let pieces = proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat());
    prop_oneof![pieces, any::<String>(), value().prop_map(|value| value.to_string())]
}

/// Generates JSON values with the keys of the wire format.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z#*@0-9]{0,4}".prop_map(Value::from),
        proptest::sample::select(vec![
            "message",
            "user",
            "assistant",
            "pending",
            "shutdown_response",
            "*"
        ])
        .prop_map(Value::from),
    ];
    let key = proptest::sample::select(vec![
        "type",
        "to",
        "message",
        "recipient",
        "content",
        "summary",
        "request_id",
        "approve",
        "taskId",
        "id",
        "subject",
        "description",
        "status",
        "blocks",
        "blockedBy",
        "addBlocks",
        "owner",
        "metadata",
        "role",
        "from",
        "text",
        "name",
        "members",
        "prompt",
        "tool_use_result",
        "subtype",
    ]);
    leaf.prop_recursive(4, 48, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..8).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

fn check_written_back<
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
>(
    text: &str,
) {
    if let Ok(read) = from_text::<T>(text) {
        let written = serde_json::to_string(&read).unwrap();
        let again =
            from_text::<T>(&written).unwrap_or_else(|e| panic!("{e}: {}: {written}", e.source));
        assert_eq!(serde_json::to_string(&again).unwrap(), written);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_can_be_read_can_be_written_and_read_again(text in text()) {
        check_written_back::<Message>(&text);
        check_written_back::<Vec<Message>>(&text);
        check_written_back::<TeamConfig>(&text);
        check_written_back::<Task>(&text);
        check_written_back::<StreamEvent>(&text);
        if let Some(frame) = Frame::detect(&text) {
            prop_assert_eq!(Frame::detect(&frame.to_text().unwrap()), Some(frame));
        }
        prop_assert!(parse_injected(&text).is_empty() || text.contains('<'));
    }

    #[test]
    fn any_input_is_a_call_or_a_refusal_with_faults(input in value()) {
        for tool in TEAM_TOOLS {
            if let Err(error) = TeamCall::parse(tool, input.clone()).unwrap() {
                prop_assert!(!error.faults.is_empty());
                prop_assert!(error.to_string().starts_with(tool));
                prop_assert!(error.data().starts_with("InputValidationError: ["));
            }
        }
    }

    #[test]
    fn any_tasks_can_be_asked(ids in proptest::collection::vec(("[0-9]{0,3}|[a-z]", "[0-9]{0,2}"), 0..12)) {
        let tasks: Vec<Task> = ids.iter().map(|(id, blocker)| {
            let value = serde_json::json!({
                "id": id, "subject": "s", "description": "d", "status": "pending", "blocks": [], "blockedBy": [blocker],
            });
            from_text(&value.to_string()).unwrap()
        }).collect();
        let graph = TaskGraph::of(&tasks);
        prop_assert!(graph.ready().iter().all(|id| graph.open_blockers(id).is_empty()));
        prop_assert_eq!(TaskListed::of(&tasks).tasks.len(), tasks.len());
    }

    #[test]
    fn messages_keep_their_ids_while_the_inbox_grows(texts in proptest::collection::vec("[ab]", 1..8)) {
        let messages: Vec<Message> = texts.iter().map(|text| Message::new("w", text.clone(), "t".into())).collect();
        let ids = message_ids(&messages);
        let (_, fewer) = messages.split_last().unwrap();
        prop_assert_eq!(message_ids(fewer), ids[..fewer.len()].to_vec());
    }
}

#[test]
fn a_text_that_is_nested_too_deep_is_refused() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let text = format!(r#"{{"type":"other","deep":{deep}}}"#);
    assert!(from_text::<StreamEvent>(&text).is_err());
    assert!(from_text::<Task>(&deep).is_err());
    assert_eq!(Frame::detect(&text), None);
}
