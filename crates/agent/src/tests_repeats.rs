//! Tests of an agent that repeats the same tool call. Each test is a list of events and of expected
//! effects.

use pitcrew_model::Block;
use pitcrew_protocol::Status;
use serde_json::{Value, json};

use super::tests::{Play, allowed, answer, mail};
use super::*;
use crate::transcript::Grant;

/// Makes a tool call. The permission gate allows the call. If the agent requests a permission for
/// the repeated call, the request is refused. Returns the kinds of the effects that the agent
/// returned.
fn call(play: &mut Play, nth: usize, input: &Value, result: &str) -> Vec<&'static str> {
    let id = format!("c{nth}");
    let mut kinds = Vec::new();
    let mut take = |play: &mut Play, event: Event| {
        let effects: Vec<Effect> = play.agent.handle(event).into_iter().collect();
        kinds.extend(effects.iter().filter_map(|effect| match effect {
            Effect::AskPermission { .. } => Some("ask"),
            Effect::Run(..) => Some("run"),
            Effect::End { .. } => Some("end"),
            Effect::Append(steps)
                if format!("{steps:?}").contains("each time the result was the same") =>
            {
                Some("told")
            }
            _ => None,
        }));
    };
    take(play, answer(vec![Block::tool_use(id.as_str(), "Write", input.clone())]));
    take(play, mail(&[]));
    take(play, allowed(&id));
    if play.agent.is_over() {
        return kinds;
    }
    take(
        play,
        Event::Answered {
            call: id.clone(),
            grant: Grant::Denied { reason: "nobody is here".to_owned() },
        },
    );
    let ending = Ending {
        text: result.to_owned(),
        data: Value::Null,
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    };
    take(play, Event::ToolFinished { call: id, ending });
    take(play, mail(&[]));
    kinds
}

#[test]
fn who_repeats_itself_is_told_after_five_calls_asked_about_after_ten_and_stopped_after_three_answers()
 {
    let mut play = Play::teammate();
    let made: Vec<String> = (0..14)
        .map(|nth| call(&mut play, nth, &json!({"file_path": "a"}), "written").join(" "))
        .collect();
    let expected = [
        "run", "run", "run", "run", "run told", "run", "run", "run", "run", "run", "ask", "ask",
        "ask", "end",
    ];
    assert_eq!(made, expected);
    assert_eq!(play.agent.status(), Status::Failed);
}

#[test]
fn calls_in_turn_that_bring_nothing_new_are_repetitions_too() {
    let mut play = Play::teammate();
    let inputs = [json!({"file_path": "a"}), json!({"file_path": "b"})];
    let made: Vec<String> =
        (0..20).map(|nth| call(&mut play, nth, &inputs[nth % 2], "written").join(" ")).collect();
    assert_eq!(made.iter().filter(|made| *made == "run told").count(), 2);
    assert!(
        call(&mut play, 20, &inputs[0], "written").contains(&"ask")
            || call(&mut play, 21, &inputs[1], "written").contains(&"ask")
    );
}

#[test]
fn the_same_result_after_something_new_each_time_is_work() {
    let mut play = Play::teammate();
    for nth in 0..20 {
        let edited =
            call(&mut play, 2 * nth, &json!({"file_path": "a", "content": nth}), "written");
        let tested = call(&mut play, 2 * nth + 1, &json!({"file_path": "test"}), "3 tests fail");
        assert_eq!((edited, tested), (vec!["run"], vec!["run"]));
    }
}

#[test]
fn a_user_who_says_something_begins_the_count_anew() {
    let mut play = Play::teammate();
    let input = json!({"file_path": "a"});
    for nth in 0..10 {
        call(&mut play, nth, &input, "written");
    }
    let _told = play.agent.handle(Event::Instructed { text: "go on".to_owned() });
    assert_eq!(call(&mut play, 10, &input, "written"), ["run"]);
}
