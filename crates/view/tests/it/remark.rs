//! Tests which events of a run are shown as lines of text.

use pitcrew_model::Block;
use pitcrew_protocol::{AgentName, Status};
use pitcrew_runtime::events::RunEvent;
use pitcrew_view::TeamState;
use pitcrew_view::remark::follow;
use serde_json::json;

use crate::script::*;

/// Checks the lines that are shown for a script of events. bob is already on the team.
fn check(script: Vec<RunEvent>, lines: &[&str]) {
    let mut state = TeamState::default();
    let remarks = std::iter::once(joins("bob", None))
        .chain(script)
        .flat_map(|event| follow(&mut state, &event))
        .skip(1)
        .map(|remark| {
            let who = remark.agent.as_ref().map_or("-", AgentName::as_str);
            format!("{who}: {}", remark.text)
        });
    assert_eq!(remarks.collect::<Vec<_>>(), lines);
}

#[test]
fn a_run_and_its_agents_are_told_when_they_start() {
    check(
        vec![started(), joins("cat", Some("c1"))],
        &["-: team demo starts on m", "cat: joins as a subagent (tester, m, mode plan)"],
    );
}

#[test]
fn a_state_is_told_once_and_work_by_what_is_done() {
    check(
        vec![
            changes("bob", Status::Active, None),
            changes("bob", Status::Idle, None),
            changes("bob", Status::Idle, None),
            changes("bob", Status::ShutdownRequested, None),
            changes("bob", Status::Completed, Some("the work is done")),
            changes("nobody", Status::Idle, None),
        ],
        &["bob: is idle", "bob: was asked to shut down", "bob: has ended: the work is done"],
    );
}

#[test]
fn the_reason_of_a_state_is_told_whole() {
    let folders = "folder/".repeat(40);
    let reason = format!("the log of bob cannot be used:\n/{folders}x: No space left on device");
    let told = reason.replace('\n', " | ");
    check(
        vec![
            changes("bob", Status::Failed, Some(&reason)),
            RunEvent::Warning { text: reason.clone() },
        ],
        &[&format!("bob: has failed: {told}"), &format!("-: warning: {told}")],
    );
}

#[test]
fn a_wait_for_a_model_is_told_each_time() {
    let waits = || changes("bob", Status::Active, Some("waits 30 s for the model: slow down"));
    let told = "bob: waits 30 s for the model: slow down";
    check(vec![waits(), waits()], &[told, told]);
}

#[test]
fn calls_are_told_when_they_start_and_when_they_fail() {
    check(
        vec![
            answers("bob", vec![Block::text(" I look.\nThen I act."), Block::text(" ")], None),
            calls("bob", "Bash", json!({"command": "make"})),
            tool_ends("bob", "Bash", json!(null), false),
            tool_ends("bob", "Bash", json!(null), true),
        ],
        &["bob: says: I look.", "bob: Bash(make)", "bob: Bash failed: a text"],
    );
}

#[test]
fn questions_and_their_answers_are_told() {
    check(
        vec![
            asks("bob", "1", "Bash"),
            answered("bob", "1", None),
            asks("bob", "2", "Bash"),
            answered("bob", "2", Some("not now")),
        ],
        &[
            "bob: asks permission for Bash",
            "bob: was allowed",
            "bob: asks permission for Bash",
            "bob: was refused: not now",
        ],
    );
}

#[test]
fn a_compaction_is_told_with_its_effect() {
    check(
        vec![compacts("bob", 12_000), compacts("bob", 170_000)],
        &[
            "bob: sums its conversation up: 170.0k -> about 12.0k tokens",
            "bob: cannot sum its conversation up: it stays at 170.0k tokens",
        ],
    );
}

#[test]
fn mail_is_told_with_its_senders() {
    let mail = |from: &[&str]| RunEvent::MailDelivered {
        agent: name("bob"),
        from: from.iter().map(|it| (*it).to_owned()).collect(),
        ids: Vec::new(),
    };
    check(
        vec![mail(&["ann", "cat", "ann"]), mail(&[""])],
        &["bob: reads mail from ann (2), cat", "bob: reads mail"],
    );
}
