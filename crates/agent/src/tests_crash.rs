//! Tests of crashes during tool calls, of answers that arrive before the permission request is on
//! disk, and of mail that arrives while an agent approves its shutdown. Each test is a list of
//! events and of expected effects.

use pitcrew_model::Block;
use pitcrew_protocol::{AgentName, MessageId, PermissionMode, Status};
use serde_json::json;

use super::tests::{Play, allowed, answer, calls, done, done_with, mail, question, replaced, says};
use super::{Event, Inspection, Role};

const ASKED_TO_SHUT_DOWN: &str =
    r#"{"type":"shutdown_request","requestId":"s-1","from":"team-lead"}"#;

fn asks(call: &str) -> Event {
    Event::Judged {
        call: call.to_owned(),
        replaced: None,
        judgement: question(),
        context: Vec::new(),
    }
}

#[test]
fn an_answer_that_comes_before_the_question_is_on_disk_waits_until_it_is() {
    let yes = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success"}"#;
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(asks("a"), &["ask for a"]);
    // The permission request was sent, but the crash came before the request was in the transcript.
    let mut again = play.crashed();
    again
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m1", yes)]), &["judge a in default"])
        .then(asks("a"), &["ask for a"])
        .then(
            Event::PermissionAsked { call: "a".to_owned(), request: "perm-1".to_owned() },
            &["write asked", "take mail"],
        )
        .then(
            mail(&[("m1", yes)]),
            &[
                "write granted",
                "acknowledge m1",
                "settle a allowed (Lead)",
                "write began",
                "run a {}",
            ],
        )
        .then(done("a"), &["write result", "report a done", "take mail"]);
}

#[test]
fn a_call_whose_input_a_hook_replaced_is_judged_anew_as_the_model_wrote_it_and_asked_about_as_replaced()
 {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(replaced("a", "ls", question()), &["write replaced", "ask for a"]);
    // The request is not in the transcript, so the hooks are asked once more. They get the input
    // that the model wrote, and need not replace it again.
    let mut again = play.crashed();
    again
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write replaced", "write began", "run a {}"]);
    play.then(
        Event::PermissionAsked { call: "a".to_owned(), request: "perm-1".to_owned() },
        &["write asked"],
    );
    let mut again = play.crashed();
    again
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["ask for a"])
        .then(
            mail(&[(
                "m1",
                r#"{"type":"permission_response","request_id":"perm-1","subtype":"success"}"#,
            )]),
            &[
                "write granted",
                "acknowledge m1",
                "settle a allowed (Lead)",
                "write began",
                r#"run a {"command":"ls"}"#,
            ],
        );
}

#[test]
fn an_early_answer_whose_call_asks_no_more_is_passed_over_when_the_call_is_done() {
    let yes = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success"}"#;
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Read")]), &["write assistant", "take mail"])
        .then(mail(&[("m1", yes)]), &["judge a in default"])
        .then(allowed("a"), &["run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[("m1", yes)]), &["write mail", "acknowledge m1", "call model"]);
}

#[test]
fn an_approval_that_comes_before_the_plan_is_known_to_be_sent_waits_until_it_is() {
    let yes = r#"{"type":"plan_approval_response","requestId":"plan-1","approved":true,"permissionMode":"acceptEdits"}"#;
    let mut play = Play::teammate();
    play.then(Event::ModeChanged(PermissionMode::Plan), &["stop commands"])
        .then(calls(&[("p", "ExitPlanMode")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge p in plan"])
        .then(allowed("p"), &["run p {}"]);
    let mut again = play.crashed();
    again
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m1", yes)]), &["judge p in plan"])
        .then(allowed("p"), &["run p {}"])
        .then(
            done_with("p", json!({"requestId": "plan-1"})),
            &["write result plan_sent", "report p done", "take mail"],
        )
        .then(
            mail(&[("m1", yes)]),
            &["set mode acceptEdits", "write plan_answered mail", "acknowledge m1", "call model"],
        );
    assert_eq!(again.agent.mode(), PermissionMode::AcceptEdits);
}

/// Returns a teammate whose model approved the shutdown while more mail arrived.
fn agreeing() -> Play {
    let mut play = Play::teammate();
    let agree = json!({"type": "shutdown_response", "request_id": "s-1", "approve": true});
    play.then(calls(&[]), &["write assistant", "take mail"])
        .then(
            mail(&[("m1", ASKED_TO_SHUT_DOWN)]),
            &[
                "announce shutdown_requested",
                "write shutdown_asked mail",
                "acknowledge m1",
                "call model",
            ],
        )
        .then(
            answer(vec![Block::tool_use("a", "SendMessage", agree)]),
            &["write assistant", "take mail"],
        )
        .then(mail(&[("m2", "one thing more")]), &["judge a in default"]);
    play
}

#[test]
fn mail_that_the_model_can_not_read_any_more_is_not_marked_read() {
    let mut play = agreeing();
    play.then(
        allowed("a"),
        &[r#"run a {"type":"shutdown_response","request_id":"s-1","approve":true}"#],
    )
    .then(
        done("a"),
        &[
            "write result",
            "report a done",
            "write ended",
            "announce completed",
            "end completed (no reason): nothing",
        ],
    );
    assert_eq!(play.agent.status(), Status::Completed);
    assert_eq!(play.last_blocks().len(), 1, "the mail is in the conversation");
}

#[test]
fn one_that_had_agreed_to_shut_down_when_a_crash_came_ends_and_does_not_go_on() {
    let mut play = agreeing();
    play.then(
        allowed("a"),
        &[r#"run a {"type":"shutdown_response","request_id":"s-1","approve":true}"#],
    )
    .then(
        done("a"),
        &[
            "write result",
            "report a done",
            "write ended",
            "announce completed",
            "end completed (no reason): nothing",
        ],
    );
    play.crashed_before_the_last_step().then(
        Event::Resumed,
        &["write ended", "announce completed", "end completed (no reason): nothing"],
    );
}

#[test]
fn mail_that_waited_for_an_agreement_which_failed_is_read_after_it() {
    let denied = Event::Judged {
        call: "a".to_owned(),
        replaced: None,
        judgement: super::Judgement::Deny { reason: "not now".to_owned() },
        context: Vec::new(),
    };
    agreeing()
        .then(denied, &["write result", "report a failed", "take mail"])
        .then(mail(&[("m2", "one thing more")]), &["write mail", "acknowledge m2", "call model"]);
}

#[test]
fn a_lead_that_knows_of_an_end_is_not_woken_by_the_goodbye() {
    let gone = |ids: &[&str]| Event::Parted {
        members: vec![AgentName::new("bob").unwrap()],
        ids: ids.iter().map(|id| MessageId((*id).to_owned())).collect(),
        text: "bob has shut down".to_owned(),
    };
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(says("done"), &["write assistant", "take mail"])
    .then(mail(&[]), &["end turn"])
    .then(Event::HookAnswered { keep_going: None }, &["write rested", "announce idle"])
    .then(gone(&[]), &["announce running", "write parted", "call model"])
    .then(says("I see"), &["write assistant", "take mail"])
    .then(mail(&[]), &["end turn"])
    .then(Event::HookAnswered { keep_going: None }, &["write rested", "announce idle"])
    .then(gone(&["m1"]), &["write mail", "acknowledge m1"]);
}

#[test]
fn the_end_of_one_that_went_on_after_all_is_told_anew() {
    let bob = || vec![AgentName::new("bob").unwrap()];
    let gone =
        || Event::Parted { members: bob(), ids: Vec::new(), text: "bob has failed".to_owned() };
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(gone(), &[])
    .then(says("well"), &["write assistant", "take mail"])
    .then(mail(&[]), &["write parted", "call model"])
    .then(Event::Rejoined { members: bob(), text: "bob goes on".to_owned() }, &[])
    .then(says("good"), &["write assistant", "take mail"])
    .then(mail(&[]), &["write rejoined", "call model"])
    .then(gone(), &[])
    .then(says("well"), &["write assistant", "take mail"])
    .then(mail(&[]), &["write parted", "call model"]);
    assert_eq!(play.crashed().last_blocks(), [Block::text("bob has failed")]);
}

#[test]
fn in_another_team_the_end_of_one_of_the_same_name_is_told() {
    let bob = || vec![AgentName::new("bob").unwrap()];
    let gone =
        || Event::Parted { members: bob(), ids: Vec::new(), text: "bob has shut down".to_owned() };
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(gone(), &[])
    .then(says("well"), &["write assistant", "take mail"])
    .then(mail(&[]), &["write parted", "call model"])
    .then(Event::TeamMade, &[])
    .then(says("good"), &["write assistant", "take mail"])
    .then(mail(&[]), &["write team_made", "call model"])
    .then(gone(), &[])
    .then(says("well"), &["write assistant", "take mail"])
    .then(mail(&[]), &["write parted", "call model"]);
    assert_eq!(play.crashed().last_blocks(), [Block::text("bob has shut down")]);
}

#[test]
fn what_ran_in_a_crash_is_told_and_what_had_not_begun_is_made() {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash"), ("b", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"]);
    let mut again = play.crashed();
    again
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["write result", "report a failed", "take mail"])
        .then(mail(&[]), &["judge b in default"]);
    let Some(Block::ToolResult { content: Some(content), is_error: true, .. }) =
        again.last_blocks().first().cloned()
    else {
        panic!("the interrupted call has an error result");
    };
    assert!(content.text().contains(pitcrew_model::INTERRUPTED));
}

#[test]
fn a_write_that_a_crash_interrupted_is_looked_at() {
    let interrupted = || {
        let mut play = Play::teammate();
        play.then(calls(&[("a", "Write")]), &["write assistant", "take mail"])
            .then(mail(&[]), &["judge a in default"])
            .then(allowed("a"), &["write began", "run a {}"]);
        let mut again = play.crashed();
        again
            .then(Event::Resumed, &["announce running", "take mail"])
            .then(mail(&[]), &["inspect a"]);
        again
    };
    let found = |inspection| Event::Inspected { call: "a".to_owned(), inspection };
    interrupted().then(
        found(Inspection::Done { text: "written".to_owned(), seen: Vec::new() }),
        &["write result", "report a done", "take mail"],
    );
    interrupted().then(found(Inspection::Undone), &["write began", "run a {}"]);
    interrupted()
        .then(found(Inspection::Unknown), &["write result", "report a failed", "take mail"]);
}

#[test]
fn a_team_call_that_a_crash_interrupted_is_simply_made_again() {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "TaskUpdate")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["run a {}"]);
    play.crashed()
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["judge a in default"]);
}
