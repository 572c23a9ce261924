//! Tests the check of the events that a face with lines gets.

use pitcrew_chaos::faces::stream::Stream;

/// Checks which faults the lines of a face have.
fn check(lines: &[&str], faults: &[&str]) {
    let mut stream = Stream::default();
    let text = lines.join("\n") + "\n";
    // The lines arrive in pieces.
    let found: Vec<String> =
        text.as_bytes().chunks(7).flat_map(|piece| stream.take(piece)).collect();
    assert_eq!(found, faults, "{lines:#?}");
}

const ATTACHED: &str = r#"{"type":"attached","team":"chaos","version":"1"}"#;
const SNAPSHOT: &str = r#"{"type":"snapshot","state":{"next_seq":3,"questions":[{"id":"q1"}]}}"#;
const EVENT_3: &str = r#"{"type":"event","seq":3,"what":{"question_closed":{"id":"q1"}}}"#;
const EVENT_4: &str = r#"{"type":"event","seq":4,"what":{"run":{"event":"started"}}}"#;
const EVENT_5: &str = r#"{"type":"event","seq":5,"what":{"ended":{"end":{"kind":"success"}}}}"#;

#[test]
fn events_in_order_have_no_fault() {
    check(&[ATTACHED, SNAPSHOT, EVENT_3, EVENT_4, EVENT_5], &[]);
    check(&[ATTACHED, SNAPSHOT, EVENT_3, ATTACHED, EVENT_4, EVENT_5], &[]);
    let later = r#"{"type":"snapshot","state":{"next_seq":5,"questions":[]}}"#;
    check(&[ATTACHED, SNAPSHOT, later, EVENT_5], &[]);
    let other_run = r#"{"type":"snapshot","state":{"next_seq":0,"questions":[]}}"#;
    check(&[ATTACHED, SNAPSHOT, EVENT_3, ATTACHED, other_run], &[]);
}

#[test]
fn a_gap_a_repetition_and_a_step_back_are_faults() {
    check(&[ATTACHED, SNAPSHOT, EVENT_4], &["the event 4 comes in place of 3"]);
    check(&[ATTACHED, SNAPSHOT, EVENT_3, EVENT_3], &["the request q1 is closed, and was not open"]);
    check(&[ATTACHED, SNAPSHOT, EVENT_3, EVENT_4, EVENT_4], &["the event 4 comes in place of 5"]);
    check(&[ATTACHED, EVENT_3], &["the request q1 is closed, and was not open"]);
    check(&[ATTACHED, EVENT_4], &["the event 4 comes before a snapshot"]);
    check(&[ATTACHED, SNAPSHOT, EVENT_3, SNAPSHOT], &["a snapshot goes back from 4 to 3"]);
}

#[test]
fn a_request_stays_open_only_while_the_run_goes_on() {
    let end = r#"{"type":"event","seq":3,"what":{"ended":{}}}"#;
    check(&[ATTACHED, SNAPSHOT, end], &[r#"the run has ended, and requests are open: {"q1"}"#]);
    let after = r#"{"type":"event","seq":6,"what":{}}"#;
    check(
        &[ATTACHED, SNAPSHOT, EVENT_3, EVENT_4, EVENT_5, after],
        &[&format!("a line after the last event: {after}")],
    );
}
