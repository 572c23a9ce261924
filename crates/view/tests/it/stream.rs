//! Tests the lines of JSON that are written for a run.

use pitcrew_model::Block;
use pitcrew_protocol::{Status, TeamEvent};
use pitcrew_runtime::events::RunEvent;
use pitcrew_view::stream::Stream;
use pitcrew_view::{TeamState, ViewEvent, fold};
use serde_json::{Value, json};

use crate::script::*;

/// Returns the lines of JSON that are written for a script of events.
fn lines(team_events: bool, script: &[RunEvent]) -> Vec<Value> {
    let mut stream = Stream::new(team_events, || "id".to_owned());
    let mut state = TeamState::default();
    let mut lines = Vec::new();
    for event in script {
        state = fold(state, &ViewEvent::Run(event));
        let of = stream.lines(&state, event);
        lines.extend(of.iter().map(|line| serde_json::to_value(line).unwrap()));
    }
    lines
}

#[test]
fn the_stream_has_the_turns_of_the_lead_and_of_its_subagents_only() {
    let mut subagent = answers("sub", vec![Block::text("found")], None);
    let mut strange = answers("sub", vec![Block::text("of a teammate")], None);
    if let RunEvent::Answered(answered) = &mut subagent {
        answered.parent_call = Some("1".to_owned());
    }
    if let RunEvent::Answered(answered) = &mut strange {
        answered.parent_call = Some("9".to_owned());
    }
    let script = [
        started(),
        answers("ann", vec![call("1", "Task")], None),
        subagent,
        strange,
        answers("bob", vec![Block::text("a teammate's")], None),
    ];
    let lines = lines(false, &script);
    let kinds: Vec<(&str, &Value)> = lines
        .iter()
        .map(|line| (line["type"].as_str().unwrap(), &line["parent_tool_use_id"]))
        .collect();
    let (none, of_call) = (Value::Null, json!("1"));
    assert_eq!(kinds, [("system", &none), ("assistant", &none), ("assistant", &of_call)]);
    assert!(lines.iter().all(|line| line["session_id"] == "session" && line["uuid"] == "id"));
}

#[test]
fn what_an_agent_elsewhere_does_is_a_team_event_as_if_it_were_here() {
    let elsewhere = RunEvent::TurnEnded { agent: name("bob"), spending: spending(2, Some(0.25)) };
    let script = [
        started(),
        joins("bob", None),
        changes("bob", Status::Active, None),
        answers("bob", Vec::new(), Some(0.25)),
        elsewhere,
    ];
    let lines = lines(true, &script);
    let told: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["subtype"] == TeamEvent::SUBTYPE)
        .map(|line| {
            (line["event"].as_str().unwrap_or("?"), line["teammate_id"].as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        told,
        [
            ("started", "-"),
            ("agent_started", "bob@demo"),
            ("agent_changed", "bob@demo"),
            ("turn_ended", "bob@demo"),
            ("turn_ended", "bob@demo"),
        ]
    );
}
