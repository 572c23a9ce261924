//! Tests of an idle lead that receives several idle notices of one teammate. The lead's model reads
//! only the newest notice, and each notice that reports a completed task. Each test is a list of
//! events and of expected effects.

use serde_json::json;

use super::tests::{Play, mail, says};
use super::{Event, Role};

fn idle(task: Option<&str>) -> String {
    json!({"type": "idle_notification", "from": "bob", "idleReason": "available", "completedTaskId": task}).to_string()
}

/// Returns a lead that has ended its turn.
fn rested() -> Play {
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(says("waiting"), &["write assistant", "take mail"])
    .then(mail(&[]), &["end turn"])
    .then(Event::HookAnswered { keep_going: None }, &["write rested", "announce idle"]);
    play
}

#[test]
fn of_many_idle_notices_of_one_teammate_the_lead_reads_the_newest_and_each_that_tells_of_a_task() {
    let (plain, task) = (idle(None), idle(Some("7")));
    let mut play = rested();
    play.then(mail(&[("m1", &plain)]), &[])
        .then(mail(&[("m1", &plain), ("m2", &task)]), &[])
        .then(mail(&[("m1", &plain), ("m2", &task), ("m3", &plain)]), &[])
        .then(mail(&[("m1", &plain), ("m2", &task), ("m3", &plain), ("m4", &plain)]), &[])
        .then(Event::Wake, &["take mail"])
        .then(
            mail(&[]),
            &["announce running", "write mail", "acknowledge m2 m4 m1 m3", "call model"],
        );
}

#[test]
fn superseded_notices_are_marked_read_by_the_dozen_while_the_lead_rests() {
    let plain = idle(None);
    let mut play = rested();
    for n in 1..=32 {
        play.then(mail(&[(&format!("m{n}"), &plain)]), &[]);
    }
    let first: Vec<String> = (1..=32).map(|n| format!("m{n}")).collect();
    play.then(mail(&[("m33", &plain)]), &[&format!("acknowledge {}", first.join(" "))])
        .then(mail(&[("m1", &plain), ("m33", &plain)]), &[]);
}
