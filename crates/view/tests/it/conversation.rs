//! Tests the conversation of an agent as a person reads it.

use pitcrew_agent::transcript::{Entry, Grant, Step};
use pitcrew_model::{Block, Usage};
use pitcrew_protocol::{Injected, MessageId, Status, render};
use pitcrew_view::conversation::{Conversation, Part, Permission};
use serde_json::{Value, json};

fn of_steps(steps: Vec<Step>) -> Conversation {
    let entries = (1..).zip(steps).map(|(seq, step)| Entry { seq, step });
    let lines: Vec<String> = entries.map(|entry| serde_json::to_string(&entry).unwrap()).collect();
    Conversation::of_transcript(&lines).unwrap()
}

fn told(text: &str) -> Step {
    Step::Told { text: text.to_owned() }
}

fn message(from: &str, text: &str) -> String {
    let (from, text) = (from.to_owned(), text.to_owned());
    render(&[Injected { from, color: None, summary: None, text }])
}

fn mail(id: &str, text: String) -> Step {
    Step::Mail { ids: vec![MessageId(id.to_owned())], text }
}

fn answers(blocks: Vec<Block>) -> Step {
    Step::Assistant { blocks, usage: Usage::default(), cost_usd: None, fault: None }
}

fn result(call: &str, text: &str, is_error: bool) -> Step {
    let (call, text) = (call.to_owned(), text.to_owned());
    Step::Result { call, text, is_error, context: Vec::new(), seen: Vec::new() }
}

fn writes(id: &str, path: &str) -> Block {
    Block::tool_use(id, "Write", json!({"file_path": path, "content": "x"}))
}

/// Returns the parts as short texts.
fn short(conversation: &Conversation) -> Vec<String> {
    let short = |part: &Part| match part {
        Part::Prompt { text } => format!("prompt {text}"),
        Part::Mail { from, frame, text, .. } => format!("mail {from} {frame:?} {text}"),
        Part::Notice { text } => format!("notice {text}"),
        Part::Text { text } => format!("text {text}"),
        Part::Thinking { text } => format!("thinking {text}"),
        Part::Call(call) => {
            let result = call.result.as_ref().map(|it| (it.text.as_str(), it.is_error));
            format!("call {} {:?} {result:?}", call.tool, call.permission)
        }
        Part::Summary { text, briefing } => format!("summary {text} {briefing:?}"),
        Part::Event { text } => format!("event {text}"),
        Part::Ended { status, reason } => format!("ended {status} {reason:?}"),
    };
    conversation.parts.iter().map(short).collect()
}

#[test]
fn a_transcript_reads_in_order_with_each_result_at_its_call() {
    let refused = Grant::Denied { reason: "too wide".to_owned() };
    let conversation = of_steps(vec![
        told("mend it"),
        told("<system-reminder>\nbe careful\n</system-reminder>"),
        answers(vec![
            Block::thinking("hm", "s"),
            Block::text("I look."),
            Block::tool_use("a", "Bash", json!({"command": "ls"})),
            Block::tool_use("b", "Bash", json!({"command": "rm -r /"})),
        ]),
        Step::Asked { call: "b".to_owned(), request: "r".to_owned() },
        mail("m", message("bob", "wait")),
        result("a", "src", false),
        Step::Granted { ids: Vec::new(), call: "b".to_owned(), grant: refused },
        result("b", "denied", true),
        mail("m", message("bob", "wait")),
        Step::Rested,
        Step::Ended { status: Status::Failed, reason: Some("no key".to_owned()) },
    ]);
    assert_eq!(
        short(&conversation),
        [
            "prompt mend it",
            "notice be careful",
            "thinking hm",
            "text I look.",
            "call Bash None Some((\"src\", false))",
            "call Bash Some(Denied(\"too wide\")) Some((\"denied\", true))",
            "mail bob None wait",
            "ended failed Some(\"no key\")",
        ]
    );
}

#[test]
fn a_call_whose_input_a_hook_replaced_shows_what_ran_and_keeps_what_the_model_wrote() {
    let conversation = of_steps(vec![
        told("mend it"),
        answers(vec![Block::tool_use("a", "Bash", json!({"command": "rm -r /"}))]),
        Step::Replaced { call: "a".to_owned(), input: json!({"command": "ls"}) },
    ]);
    let call = conversation.open_calls().next().unwrap();
    assert_eq!(call.input, json!({"command": "ls"}));
    assert_eq!(call.original_input, Some(json!({"command": "rm -r /"})));
}

#[test]
fn a_prompt_of_the_lead_is_mail_and_a_goal_that_quotes_a_message_stays_whole() {
    let quoted = format!("What does this mean?\n{}", message("bob", "wait"));
    assert_eq!(short(&of_steps(vec![told(&quoted)])), [format!("prompt {quoted}")]);
    let frame = r#"{"type":"shutdown_request","requestId":"s"}"#;
    let both =
        format!("{}\n\n{}", message("team-lead", "go <b>on</b>"), message("team-lead", frame));
    assert_eq!(
        short(&of_steps(vec![told(&both)])),
        [
            "mail team-lead None go <b>on</b>".to_owned(),
            format!("mail team-lead Some(\"shutdown_request\") {frame}"),
        ]
    );
}

#[test]
fn calls_without_a_result_are_open_and_a_summary_ends_what_came_before() {
    let calls = || answers(vec![writes("a", "/w/one"), writes("b", "/w/two")]);
    let mut steps = vec![told("go"), calls(), result("b", "ok", false)];
    let conversation = of_steps(steps.clone());
    let open: Vec<&str> = conversation.open_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(open, ["a"]);
    assert_eq!(conversation.open_calls().next().unwrap().permission, None::<Permission>);
    steps.push(Step::Compacted {
        briefing: "you are bob".to_owned(),
        summary: "two is done".to_owned(),
        kept_chars: None,
        usage: Usage { input_tokens: 1200, ..Usage::default() },
        cost_usd: None,
    });
    let parts = short(&of_steps(steps));
    assert_eq!(
        parts[3..],
        ["event a summary was made of 1.2k tokens", "summary two is done Some(\"you are bob\")"]
    );
}

#[test]
fn files_that_were_written_are_counted_and_failures_are_not() {
    let edit = Block::tool_use("c", "Edit", json!({"file_path": "/w/one"}));
    let read = Block::tool_use("d", "Read", json!({"file_path": "/w/three"}));
    let conversation = of_steps(vec![
        told("go"),
        answers(vec![writes("a", "/w/one"), writes("b", "/w/two"), edit, read]),
        result("a", "", false),
        result("b", "no", true),
        result("c", "", false),
        result("d", "", false),
    ]);
    let files: Vec<_> = conversation.files_changed().into_iter().collect();
    assert_eq!(files, [("/w/one".to_owned(), 2)]);
}

#[test]
fn lines_that_cannot_be_read_are_numbered() {
    let lines = [r#"{"seq":1,"kind":"told","text":"go"}"#, "{", r#"{"seq":3,"kind":"sang"}"#];
    let conversation = Conversation::of_transcript(&lines.map(str::to_owned)).unwrap();
    assert_eq!((conversation.parts.len(), conversation.unread_lines), (1, vec![2, 3]));
    let newer = [r#"{"v":9,"seq":1,"kind":"told","text":"go"}"#.to_owned()];
    assert!(Conversation::of_transcript(&newer).is_err());
}

#[test]
fn the_conversation_of_another_client_reads_the_same_way() {
    let user = |content: Value| json!({"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": content}});
    let answer = |block: Value| json!({"type": "assistant", "message": {"id": "m", "model": "claude-x", "content": [block]}});
    let mut sidechain = user(json!("for a subagent"));
    sidechain["isSidechain"] = true.into();
    let mut summary = user(json!("what was done"));
    summary["isCompactSummary"] = true.into();
    let queued = json!({"type": "attachment", "attachment": {"type": "queued_command",
        "prompt": "<cross-session-message from=\"ann\" from-name=\"ann\">\nin the turn\n</cross-session-message>"}});
    let lines = [
        json!({"type": "queue-operation", "operation": "enqueue"}),
        user(json!(message("team-lead", "go"))),
        sidechain,
        answer(json!({"type": "text", "text": "So."})),
        answer(json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}})),
        queued,
        user(
            json!([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "src"}], "is_error": false}]),
        ),
        summary,
        user(json!("typed by the user")),
    ];
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.push_str("{\"type\":\"us");
    let conversation = Conversation::of_client(&text);
    assert_eq!(
        short(&conversation),
        [
            "mail team-lead None go",
            "text So.",
            "call Bash None Some((\"src\", false))",
            "mail ann None in the turn",
            "summary what was done None",
            "prompt typed by the user",
        ]
    );
    assert_eq!(conversation.unread_lines, [10]);
}
