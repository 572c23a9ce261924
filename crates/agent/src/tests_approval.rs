//! Tests of agents that wait for the answer to a permission request or to a plan. Each test is a
//! list of events and of expected effects.

use pitcrew_model::Block;
use pitcrew_protocol::PermissionMode;
use serde_json::json;

use super::tests::{Play, allowed, calls, done, done_with, idle_teammate, mail, question};
use super::*;
use crate::Digest;
use crate::transcript::Grant;

#[test]
fn a_teammate_waits_for_a_permission_and_goes_on_when_the_answer_is_in_its_inbox() {
    let yes = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success","response":{"updated_input":{"x":1},"permission_updates":[{"type":"setMode","mode":"acceptEdits"}]}}"#;
    let mut play = asking_teammate();
    play.then(
        mail(&[("m1", yes), ("m2", "by the way")]),
        &[
            "write granted",
            "acknowledge m1",
            r#"permit [{"type":"setMode","mode":"acceptEdits"}]"#,
            "settle a allowed (Lead)",
            "write began",
            r#"run a {"x":1}"#,
        ],
    )
    .then(done("a"), &["write result", "report a done", "take mail"]);
}

pub(super) fn asking_teammate() -> Play {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(
            Event::Judged {
                call: "a".to_owned(),
                replaced: None,
                judgement: question(),
                context: Vec::new(),
            },
            &["ask for a"],
        )
        .then(
            Event::PermissionAsked { call: "a".to_owned(), request: "perm-1".to_owned() },
            &["write asked"],
        );
    play
}

#[test]
fn an_answer_to_another_call_than_the_one_that_asked_is_a_refusal() {
    let answer = |digest: &Digest| {
        let response = json!({"updated_input": {}, "permission_updates": [], "digest": digest});
        json!({"type": "permission_response", "request_id": "perm-1", "subtype": "success", "response": response})
            .to_string()
    };
    let mut play = asking_teammate();
    let other = answer(&Digest::of_call("Bash", &json!({"command": "ls"})));
    play.then(
        mail(&[("m1", &other)]),
        &[
            "write granted",
            "acknowledge m1",
            "settle a the person who allowed it was shown a different call (Lead)",
            "write result",
            "report a failed",
            "take mail",
        ],
    );
    let mut play = asking_teammate();
    let same = answer(&Digest::of_call("Bash", &json!({})));
    let allowed =
        ["write granted", "acknowledge m1", "settle a allowed (Lead)", "write began", "run a {}"];
    play.then(mail(&[("m1", &same)]), &allowed);
}

#[test]
fn a_denied_permission_is_told_to_the_model_with_its_reason() {
    let no = r#"{"type":"permission_response","request_id":"perm-1","subtype":"error","error":"not today"}"#;
    let mut play = asking_teammate();
    play.then(
        mail(&[("m1", no)]),
        &[
            "write granted",
            "acknowledge m1",
            "settle a not today (Lead)",
            "write result",
            "report a failed",
            "take mail",
        ],
    );
    assert_eq!(
        play.last_blocks(),
        [Block::tool_error("a", "Permission denied for Bash: not today")]
    );
}

#[test]
fn a_permission_that_was_asked_for_before_a_crash_is_still_waited_for_after_it() {
    let yes = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success"}"#;
    let mut play = asking_teammate().crashed();
    play.then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["ask for a"])
        .then(Event::PermissionAsked { call: "a".to_owned(), request: "perm-1".to_owned() }, &[])
        .then(
            mail(&[("m1", yes)]),
            &[
                "write granted",
                "acknowledge m1",
                "settle a allowed (Lead)",
                "write began",
                "run a {}",
            ],
        );
    let mut answered_meanwhile = asking_teammate().crashed();
    answered_meanwhile.then(Event::Resumed, &["announce running", "take mail"]).then(
        mail(&[("m1", yes)]),
        &["write granted", "acknowledge m1", "settle a allowed (Lead)", "write began", "run a {}"],
    );
}

#[test]
fn an_answer_to_a_question_nobody_asked_is_passed_over() {
    let yes = r#"{"type":"permission_response","request_id":"perm-9","subtype":"success"}"#;
    idle_teammate().then(mail(&[("m1", yes)]), &["write mail", "acknowledge m1"]);
}

#[test]
fn a_permission_of_the_lead_is_answered_without_mail() {
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
    .then(mail(&[]), &["judge a in default"])
    .then(
        Event::Judged {
            call: "a".to_owned(),
            replaced: None,
            judgement: question(),
            context: Vec::new(),
        },
        &["ask for a"],
    )
    .then(
        Event::Answered {
            call: "a".to_owned(),
            grant: Grant::Allowed { input: None, updates: Vec::new() },
        },
        &["write granted", "write began", "run a {}"],
    );
}

#[test]
fn a_plan_waits_with_the_lead_until_it_is_answered() {
    let mut play = planning_teammate();
    let later = r#"{"type":"plan_approval_response","requestId":"plan-1","approved":true,"permissionMode":"acceptEdits"}"#;
    play.then(
        mail(&[("m1", later)]),
        &[
            "announce running",
            "set mode acceptEdits",
            "write plan_answered mail",
            "acknowledge m1",
            "call model",
        ],
    );
    assert_eq!(play.agent.mode(), PermissionMode::AcceptEdits);
}

fn planning_teammate() -> Play {
    let mut play = Play::teammate();
    play.then(Event::ModeChanged(PermissionMode::Plan), &["stop commands"])
        .then(calls(&[("p", "ExitPlanMode")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge p in plan"])
        .then(allowed("p"), &["run p {}"])
        .then(
            done_with("p", json!({"requestId": "plan-1"})),
            &["write result plan_sent", "report p done", "take mail"],
        )
        .then(
            mail(&[]),
            &["send idle available: nothing", "write rested", "announce awaiting_plan_approval"],
        );
    play
}

#[test]
fn a_rejected_plan_leaves_the_teammate_in_plan_mode() {
    let no = r#"{"type":"plan_approval_response","requestId":"plan-1","approved":false,"feedback":"more tests"}"#;
    let mut play = planning_teammate();
    play.then(
        mail(&[("m1", no)]),
        &["announce running", "write plan_answered mail", "acknowledge m1", "call model"],
    );
    assert_eq!(play.agent.mode(), PermissionMode::Plan);
}

#[test]
fn an_approval_of_another_plan_changes_no_mode() {
    let other = r#"{"type":"plan_approval_response","requestId":"plan-9","approved":true,"permissionMode":"bypassPermissions"}"#;
    let mut play = planning_teammate();
    play.then(
        mail(&[("m1", other)]),
        &["announce running", "write plan_answered mail", "acknowledge m1", "call model"],
    );
    assert_eq!(play.agent.mode(), PermissionMode::Plan);
}
