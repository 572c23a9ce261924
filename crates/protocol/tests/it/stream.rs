//! Tests of stream events: reads events of other clients, and writes pitcrew's own events.

use pitcrew_protocol::{
    AssistantEvent, Block, Content, EventIds, ResultEvent, RunSummary, StreamEvent, StreamUsage,
    SystemInit, TeamEvent, UserEvent, from_text, normalised_id,
};
use serde_json::{Map, Value, json};

use crate::recordings::{fixtures, lines};

fn event(line: &str) -> StreamEvent {
    from_text(line).unwrap_or_else(|e| panic!("{e}: {}", e.source))
}

fn ids(line: &Value) -> EventIds {
    let text = |key: &str| line[key].as_str().unwrap().to_owned();
    EventIds { session_id: text("session_id"), uuid: text("uuid"), parent_tool_use_id: None }
}

#[test]
fn our_events_have_the_recorded_fields_in_the_recorded_order() {
    let lines = lines(&fixtures().join("claude-2.1.39/stream-json/team-lifecycle.ndjson"));
    let (_, init) = &lines[0];
    let tools = serde_json::from_value(init["tools"].clone()).unwrap();
    let model = init["model"].as_str().unwrap();
    let ours =
        SystemInit::new(ids(init), init["cwd"].as_str().unwrap(), tools, model, "acceptEdits");
    check_fields(ours.into(), init);

    let (_, said) = &lines[1];
    let call = &said["message"]["content"][0];
    let block = Block::tool_use(call["id"].as_str().unwrap(), "TeamCreate", call["input"].clone());
    let id = said["message"]["id"].as_str().unwrap();
    check_fields(
        AssistantEvent::new(ids(said), id, model, block, StreamUsage::new(10, 0, 0, 1)).into(),
        said,
    );

    let (_, end) = lines.last().unwrap();
    let run = RunSummary {
        subtype: "success".into(),
        is_error: false,
        duration_ms: end["duration_ms"].as_u64().unwrap(),
        duration_api_ms: end["duration_api_ms"].as_u64().unwrap(),
        num_turns: end["num_turns"].as_u64().unwrap(),
        result: end["result"].as_str().unwrap().into(),
        total_cost_usd: end["total_cost_usd"].as_f64().unwrap(),
        usage: StreamUsage::new(
            end["usage"]["input_tokens"].as_u64().unwrap(),
            0,
            0,
            end["usage"]["output_tokens"].as_u64().unwrap(),
        )
        .of_run(),
        model_usage: end["modelUsage"].as_object().unwrap().clone(),
        permission_denials: Vec::new(),
        failed_agents: Vec::new(),
    };
    check_fields(ResultEvent::new(ids(end), run).into(), end);
}

/// Checks that the fields of our event are in the recorded event, in the same order. Our event is
/// allowed to omit fields that only the reference client has.
fn check_fields(ours: StreamEvent, recorded: &Value) {
    fn within(ours: &Value, recorded: &Value, at: &str) {
        let (Value::Object(ours), Value::Object(recorded)) = (ours, recorded) else {
            return assert_eq!(ours, recorded, "{at}");
        };
        let order: Vec<&String> = recorded.keys().filter(|key| ours.contains_key(*key)).collect();
        if at != ".message.usage" {
            assert_eq!(ours.keys().collect::<Vec<_>>(), order, "{at}");
        }
        ours.iter().for_each(|(key, value)| within(value, &recorded[key], &format!("{at}.{key}")));
    }
    let written: Value = serde_json::from_str(&ours.to_line().unwrap()).unwrap();
    within(&written, recorded, "");
}

#[test]
fn a_team_event_is_a_system_event_of_its_own_subtype() {
    let ids = EventIds { session_id: "s".into(), uuid: "u".into(), parent_tool_use_id: None };
    let mut data = Map::new();
    data.insert("message_id".into(), json!("m"));
    let ours = StreamEvent::from(TeamEvent::new(
        ids,
        "message_injected",
        "probe",
        Some("worker@probe"),
        data,
    ));
    let line = ours.to_line().unwrap();
    insta::assert_snapshot!(line, @r#"
    {"type":"system","subtype":"pitcrew_team_event","event":"message_injected","team_name":"probe","teammate_id":"worker@probe","data":{"message_id":"m"},"session_id":"s","uuid":"u"}
    "#);
    assert_eq!(event(&line), ours);
}

#[test]
fn a_prompt_is_a_text_and_names_its_call() {
    let ids = EventIds {
        session_id: "s".into(),
        uuid: "u".into(),
        parent_tool_use_id: Some("toolu_1".into()),
    };
    let line = StreamEvent::from(UserEvent::prompt(ids, "go")).to_line().unwrap();
    insta::assert_snapshot!(line, @r#"
    {"type":"user","message":{"role":"user","content":"go"},"parent_tool_use_id":"toolu_1","session_id":"s","uuid":"u"}
    "#);
}

#[test]
fn the_lines_of_the_stream_document_are_read() {
    let call = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Teammate","input":{"operation":"spawnTeam","team_name":"t","agent_type":"architect"}}]}}"#;
    let StreamEvent::Assistant(said) = event(call) else { panic!("{call}") };
    let [Block::ToolUse(tool)] = said.message.content.blocks() else { panic!("{said:?}") };
    assert_eq!(
        (tool.name.as_str(), tool.input["operation"].as_str()),
        ("Teammate", Some("spawnTeam"))
    );

    let result = r#"{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"Cleanup complete."}]},"tool_use_result":{"success":true,"team_name":"t"}}"#;
    let StreamEvent::User(told) = event(result) else { panic!("{result}") };
    let [Block::ToolResult(block)] = told.message.content.blocks() else { panic!("{told:?}") };
    assert_eq!(block.content, Some(Content::Text("Cleanup complete.".into())));
    assert_eq!(told.tool_use_result.unwrap()["team_name"], "t");
}

#[test]
fn what_is_not_known_is_kept() {
    for line in [
        r#"{"type":"system","subtype":"compact_boundary","x":[1,{"b":null,"a":2}]}"#,
        r#"{"type":"stream_event","event":{}}"#,
        r#"{"no":"type"}"#,
        r#"{"type":7}"#,
        r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a","citations":null}],"z":1},"y":{"k":[]}}"#,
        r#"{"type":"user","message":{"content":"hi","role":"user"},"isReplay":true}"#,
    ] {
        assert_eq!(event(line).to_line().unwrap(), line);
    }
    for bad in [
        "[]",
        "7",
        r#"{"type":"assistant"}"#,
        r#"{"type":"user","message":{"role":"user","content":5}}"#,
    ] {
        assert!(from_text::<StreamEvent>(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_agent_is_known_by_the_first_of_its_ids() {
    let id = |value: Value| normalised_id(value.as_object().unwrap()).map(str::to_owned);
    let mut all = json!({"name": "n", "agentId": "c", "agent_id": "b", "teammate_id": "a"});
    for (key, expected) in
        [("teammate_id", "a"), ("agent_id", "b"), ("agentId", "c"), ("name", "n")]
    {
        assert_eq!(id(all.clone()).as_deref(), Some(expected));
        all.as_object_mut().unwrap().shift_remove(key);
    }
    assert_eq!(id(all), None);
    assert_eq!(id(json!({"teammate_id": "", "agent_id": null, "name": "n"})).as_deref(), Some("n"));
}
