use pitcrew_model::Block;
use pitcrew_protocol::Status;

use super::super::tests::{Play, allowed, calls, done, idle_teammate, mail, says};
use super::super::tests_approval::asking_teammate;
use super::super::{Event, ModelFailure};
use super::*;
use crate::transcript::Grant;

#[test]
fn an_interrupted_model_call_is_dropped_and_the_teammate_is_idle() {
    let mut play = Play::teammate();
    play.then(
        Event::Interrupted,
        &[
            "cut off",
            "write told",
            "send idle interrupted: nothing",
            "write rested",
            "announce idle",
        ],
    )
    .then(says("too late"), &[]);
    assert_eq!(play.last_blocks(), [Block::text("work"), Block::text(CUT_OFF)]);
    play.crashed().then(Event::Resumed, &["take mail", "announce idle"]);
}

fn unavailable() -> Event {
    let retry_after = Some(Duration::from_secs(3600));
    Event::ModelFailed {
        reason: "come later".to_owned(),
        failure: ModelFailure::Unavailable { retry_after },
    }
}

#[test]
fn a_teammate_whose_model_is_unavailable_tells_its_lead_and_tries_again_with_the_next_message() {
    let mut play = Play::teammate();
    let told = "send idle come later. It is still on the team, and tries again when it gets a message: nothing";
    play.then(unavailable(), &[told, "announce idle"]).then(says("too late"), &[]).then(
        mail(&[("m1", "try again")]),
        &["announce running", "write mail", "acknowledge m1", "call model"],
    );
    assert!(matches!(&play.last_blocks()[..], [Block::Text { text, .. }, _] if text == "work"));
    play.then(Event::MailWaiting, &["take mail"])
        .then(mail(&[("m2", "and this")]), &[])
        .then(unavailable(), &[told, "write mail", "acknowledge m2", "call model"]);
    let mut play = Play::teammate();
    play.then(unavailable(), &[told, "announce idle"]);
    play.crashed()
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["call model"]);
}

#[test]
fn a_lead_whose_model_is_unavailable_parks_and_asks_its_model_again_when_it_is_resumed() {
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(unavailable(), &["park (come later, 3600 s)"])
    .then(says("too late"), &[])
    .then(Event::MailWaiting, &[]);
    assert_eq!(play.agent.status(), Status::Parked);
    play.crashed()
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["call model"]);
}

#[test]
fn every_open_call_of_an_interrupted_turn_has_a_result() {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash"), ("b", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(
            Event::Interrupted,
            &[
                "cut off",
                "write result",
                "report a failed",
                "write result",
                "report b failed",
                "send idle interrupted: nothing",
                "write rested",
                "announce idle",
            ],
        )
        .then(done("a"), &[]);
    assert_eq!(
        play.last_blocks(),
        [Block::tool_error("a", CALL_CUT_OFF), Block::tool_error("b", CALL_CUT_OFF)]
    );
    play.then(
        mail(&[("m1", "do something else")]),
        &["announce running", "write mail", "acknowledge m1", "call model"],
    );
}

#[test]
fn a_question_of_an_interrupted_turn_is_taken_back() {
    let late = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success"}"#;
    asking_teammate()
        .then(
            Event::Interrupted,
            &[
                "cut off",
                "write result",
                "report a failed",
                "settle a the user interrupted the turn (Here)",
                "send idle interrupted: nothing",
                "write rested",
                "announce idle",
            ],
        )
        .then(mail(&[("m1", late)]), &["write mail", "acknowledge m1"]);
}

#[test]
fn mail_that_waited_for_the_interrupted_turn_starts_the_next_one() {
    let mut play = Play::teammate();
    play.then(Event::MailWaiting, &["take mail"]).then(mail(&[("m1", "stop that")]), &[]).then(
        Event::Interrupted,
        &[
            "cut off",
            "write told",
            "send idle interrupted: nothing",
            "write rested",
            "write mail",
            "acknowledge m1",
            "call model",
        ],
    );
}

#[test]
fn an_idle_agent_cannot_be_interrupted() {
    idle_teammate().then(Event::Interrupted, &[]);
}

#[test]
fn the_first_answer_counts_and_the_second_is_passed_over() {
    let late =
        r#"{"type":"permission_response","request_id":"perm-1","subtype":"error","error":"no"}"#;
    let yes = Grant::Allowed { input: None, updates: Vec::new() };
    let answered = || Event::Answered { call: "a".to_owned(), grant: yes.clone() };
    let mut play = asking_teammate();
    play.then(answered(), &["write granted", "settle a allowed (Here)", "write began", "run a {}"])
        .then(mail(&[("m1", late)]), &["write mail", "acknowledge m1"])
        .then(answered(), &[])
        .then(done("a"), &["write result", "report a done", "take mail"]);
}

#[test]
fn a_parked_teammate_takes_no_mail_until_it_is_led_again() {
    let mut play = idle_teammate();
    play.then(Event::Parked, &["announce parked"])
        .then(Event::MailWaiting, &[])
        .then(Event::Wake, &[])
        .then(Event::Unparked, &["take mail", "announce idle"])
        .then(
            mail(&[("m1", "hello")]),
            &["announce running", "write mail", "acknowledge m1", "call model"],
        );
}

#[test]
fn a_teammate_that_is_parked_in_a_turn_ends_it_and_leaves_its_mail_for_later() {
    let mut play = Play::teammate();
    play.then(Event::Parked, &[])
        .then(calls(&[("a", "Read")]), &["write assistant", "take mail"])
        .then(mail(&[("m1", "hello")]), &["judge a in default"])
        .then(allowed("a"), &["run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[("m1", "hello")]), &["call model"])
        .then(says("all done"), &["write assistant", "take mail"])
        .then(mail(&[("m1", "hello")]), &["end turn"])
        .then(
            Event::HookAnswered { keep_going: None },
            &["send idle available: all done", "write rested", "announce parked"],
        );
    assert_eq!(play.agent.status(), Status::Parked);
    play.then(Event::Unparked, &["take mail", "announce idle"]).then(
        mail(&[("m1", "hello")]),
        &["announce running", "write mail", "acknowledge m1", "call model"],
    );
}

#[test]
fn a_held_lead_does_no_more_and_still_refers_mail_until_it_is_resumed() {
    let goodbye =
        r#"{"type":"shutdown_approved","requestId":"shutdown-1@bob","from":"bob","timestamp":"t"}"#;
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(Event::Held, &["cut off"])
    .then(says("too late"), &[])
    .then(Event::MailWaiting, &["take mail"])
    .then(mail(&[("m1", goodbye), ("m2", "hello")]), &["refer m1"])
    .then(Event::Told { text: "bob has left".to_owned() }, &[]);
    play.crashed()
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m2", "hello")]), &["write mail", "acknowledge m2", "call model"]);
}

#[test]
fn a_call_of_a_held_lead_is_dropped_where_it_was() {
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
    .then(mail(&[]), &["judge a in default"])
    .then(Event::Held, &["cut off"])
    .then(allowed("a"), &[])
    .then(mail(&[("m1", "hello")]), &[]);
    assert_eq!(play.agent.conversation().open_calls().len(), 1);
}

#[test]
fn a_teammate_begins_with_the_mail_in_its_inbox() {
    let mut play = Play::of(Role::Teammate);
    play.then(Event::Resumed, &["take mail"]).then(mail(&[]), &["announce idle"]).then(
        mail(&[("m1", "work")]),
        &["announce running", "write mail", "acknowledge m1", "call model"],
    );
}

#[test]
fn a_teammate_that_nobody_leads_does_not_begin() {
    let mut play = Play::of(Role::Teammate);
    play.then(Event::Parked, &[])
        .then(Event::Resumed, &["announce parked"])
        .then(Event::Unparked, &["take mail", "announce idle"])
        .then(
            mail(&[("m1", "work")]),
            &["announce running", "write mail", "acknowledge m1", "call model"],
        );
}
