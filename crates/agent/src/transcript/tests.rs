use pitcrew_model::Usage;
use serde_json::json;

use super::*;

fn id(text: &str) -> MessageId {
    MessageId(text.to_owned())
}

fn mail(ids: &[&str], text: &str) -> Step {
    Step::Mail { ids: ids.iter().map(|i| id(i)).collect(), text: text.to_owned() }
}

fn calls(ids: &[&str]) -> Step {
    let blocks = ids.iter().map(|i| Block::tool_use(*i, "Bash", json!({"command": i}))).collect();
    Step::Assistant { blocks, usage: Usage::default(), cost_usd: None, fault: None }
}

fn result(call: &str) -> Step {
    Step::Result {
        call: call.to_owned(),
        text: format!("{call} done"),
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    }
}

fn folded(steps: &[Step]) -> Conversation {
    let mut conversation = Conversation::default();
    for step in steps {
        conversation.apply(step);
    }
    conversation
}

#[test]
fn mail_between_two_calls_stands_after_the_results_of_the_turn() {
    let conversation = folded(&[
        calls(&["a", "b"]),
        result("a"),
        mail(&["m1"], "hello"),
        result("b"),
        mail(&["m2"], "again"),
    ]);
    let blocks = &conversation.messages().last().unwrap().blocks;
    let expected = [
        Block::tool_result("a", "a done"),
        Block::tool_result("b", "b done"),
        Block::text("hello"),
        Block::text("again"),
    ];
    assert_eq!(blocks, &expected);
    assert!(conversation.wants_answer());
}

#[test]
fn a_message_is_in_the_conversation_once() {
    let conversation = folded(&[mail(&["m1"], "hello"), mail(&["m1"], "hello")]);
    assert_eq!(conversation.messages(), [Message::user(vec![Block::text("hello")])]);
    assert!(conversation.holds(&id("m1")));
}

#[test]
fn a_request_shares_the_messages_and_no_later_step_changes_what_it_sends() {
    let mut conversation = folded(&[mail(&["m1"], "hello")]);
    let request = conversation.share_messages();
    assert!(std::ptr::eq(request.as_slice(), conversation.messages()), "nothing is copied");
    conversation.apply(&mail(&["m2"], "again"));
    assert_eq!(*request, [Message::user(vec![Block::text("hello")])]);
    assert_eq!(
        conversation.messages(),
        [Message::user(vec![Block::text("hello"), Block::text("again")])]
    );
}

#[test]
fn a_call_without_a_result_is_open_and_knows_how_far_it_came() {
    let asked = Step::Asked { call: "b".to_owned(), request: "perm-1".to_owned() };
    let conversation = folded(&[calls(&["a", "b"]), Step::Began { call: "a".to_owned() }, asked]);
    let reached: Vec<_> =
        conversation.open_calls().iter().map(|open| open.reached.clone()).collect();
    assert_eq!(reached, [Reached::Began, Reached::Asked { request: "perm-1".to_owned() }]);
    assert!(!conversation.wants_answer());
}

#[test]
fn a_cut_takes_the_older_half_of_the_long_results_each_time() {
    let long = |call: &str| Step::Result {
        call: call.to_owned(),
        text: "x".repeat(1000),
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    };
    let mut conversation = folded(&[calls(&["a", "b", "c"]), long("a"), long("b"), long("c")]);
    let whole = |conversation: &Conversation| {
        conversation
            .messages()
            .iter()
            .flat_map(|m| &m.blocks)
            .filter(|block| is_whole_result(block))
            .count()
    };
    let keep = conversation.next_cut().unwrap();
    conversation.apply(&Step::Cut { keep });
    assert_eq!(whole(&conversation), 1);
    assert_eq!(conversation.next_cut(), None);
}

#[test]
fn a_result_that_comes_twice_is_taken_once() {
    let conversation = folded(&[calls(&["a"]), result("a"), result("a")]);
    assert_eq!(conversation.messages().last().unwrap().blocks.len(), 1);
}

#[test]
fn every_step_comes_back_from_its_line() {
    let granted =
        Grant::Allowed { input: Some(json!({})), updates: vec![json!({"type": "setMode"})] };
    let steps = [
        Step::Told { text: "go".to_owned() },
        Step::Instructed { text: "and this".to_owned() },
        mail(&["m"], "hi"),
        calls(&["a"]),
        Step::Replaced { call: "a".to_owned(), input: json!({"command": "ls"}) },
        Step::Began { call: "a".to_owned() },
        Step::Asked { call: "a".to_owned(), request: "r".to_owned() },
        Step::Granted { ids: vec![id("g")], call: "a".to_owned(), grant: granted },
        Step::Result {
            call: "a".to_owned(),
            text: "x".to_owned(),
            is_error: true,
            context: vec!["c".to_owned()],
            seen: vec![FileSeen { path: "/f".into(), sha256: "00".to_owned() }],
        },
        Step::PlanSent { request: "p".to_owned() },
        Step::PlanAnswered { request: "p".to_owned() },
        Step::ShutdownAsked { request: "s".to_owned() },
        Step::ShutdownRefused,
        Step::Cut { keep: 3 },
        Step::Shortened { most: 5 },
        Step::Compacted {
            briefing: "b".to_owned(),
            summary: "s".to_owned(),
            kept_chars: Some(7),
            usage: Usage::default(),
            cost_usd: Some(0.5),
        },
        Step::NotCompacted { usage: Usage::default(), cost_usd: None },
        Step::Rested,
        Step::Ended { status: Status::Failed, reason: Some("r".to_owned()) },
    ];
    let entries: Vec<_> = (1..).zip(steps).map(|(seq, step)| Entry { seq, step }).collect();
    let lines: Vec<_> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    assert_eq!(read(&lines).unwrap(), Read { entries, unread: Vec::new() });
}

#[test]
fn a_conversation_that_lost_lines_is_one_that_a_model_takes() {
    let lost_result = folded(&[mail(&["m1"], "go"), calls(&["a"]), calls(&["b"]), result("b")]);
    let roles: Vec<Role> = lost_result.messages().iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
    assert_eq!(lost_result.messages()[2].blocks, [Block::tool_error("a", LOST_RESULT)]);
    assert!(lost_result.wants_answer());
    let lost_beginning = folded(&[calls(&["a"]), result("a")]);
    assert_eq!(lost_beginning.messages()[0], Message::user(vec![Block::text(LOST_BEGINNING)]));
    let lost_call = folded(&[mail(&["m1"], "go"), result("a")]);
    assert_eq!(lost_call.messages(), [Message::user(vec![Block::text("go")])]);
}
