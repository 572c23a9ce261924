//! Tests of the fold: events and journal entries go in, spans and measurements come out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::trace::{SpanContext, SpanId, Status as SpanStatus, TraceId};
use opentelemetry_sdk::trace::SpanData;
use pitcrew_model::{Block, StopReason, Usage};
use pitcrew_protocol::{AgentName, MessageId, PermissionMode, Status, TaskStatus};
use pitcrew_runtime::events::{
    AgentStarted, Answered, Compacted, RunEvent, RunStarted, Spending, ToolEnded,
};
use pitcrew_runtime::run::{RunLimits, RunOutcome};
use pitcrew_team::store::{Event as Noted, JournalEntry};
use pitcrew_view::host::{HostEvent, What};
use pitcrew_view::masking::Masker;
use serde_json::json;

use crate::content::Content;
use crate::conventions as key;
use crate::run_fold::{Measurement, RunFold, Signals};

const SECRET: &str = "sk-ant-api03-aB3dE5fG7hJ9kL1mN2pQ4rS6";

/// A fold with the signals that it made so far. Each input is one millisecond later.
struct Folded {
    fold: RunFold,
    now_ms: i64,
    spans: Vec<SpanData>,
    measured: Vec<Measurement>,
}

impl Folded {
    fn new(content: Content) -> Self {
        let fold = RunFold::new(TraceId::from_bytes([1; 16]), None, content);
        Self { fold, now_ms: 0, spans: Vec::new(), measured: Vec::new() }
    }

    fn run(events: Vec<RunEvent>) -> Self {
        let mut folded = Self::new(Content::LeftOut);
        events.into_iter().for_each(|event| folded.happened(What::Run(event)));
        folded
    }

    fn happened(&mut self, what: What) {
        self.now_ms += 1;
        let signals = self.fold.happened(&HostEvent { seq: 0, at_ms: self.now_ms, what });
        self.take(signals);
    }

    fn noted(&mut self, event: Noted) {
        self.now_ms += 1;
        let signals = self.fold.noted(&JournalEntry { at_ms: self.now_ms, event });
        self.take(signals);
    }

    fn take(&mut self, Signals { spans, measured }: Signals) {
        self.spans.extend(spans);
        self.measured.extend(measured);
    }

    /// Closes the fold, and returns all spans as a tree: name, kind, times, error and events.
    fn tree(mut self) -> String {
        self.spans.extend(self.fold.close(self.now_ms + 1));
        tree(&self.spans)
    }

    /// Returns an attribute of the only span with this name.
    fn attribute(&self, name: &str, key: &str) -> Option<String> {
        let spans: Vec<&SpanData> = self.spans.iter().filter(|span| span.name == name).collect();
        assert_eq!(spans.len(), 1, "{name}: {:?}", self.spans);
        attribute(spans[0], key)
    }
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let mut found = span.attributes.iter().filter(|attribute| attribute.key.as_str() == key);
    let value = found.next().map(|attribute| attribute.value.to_string());
    assert!(found.next().is_none(), "{key} is there twice: {span:?}");
    value
}

fn tree(spans: &[SpanData]) -> String {
    let mut children: BTreeMap<[u8; 8], Vec<&SpanData>> = BTreeMap::new();
    for span in spans {
        children.entry(span.parent_span_id.to_bytes()).or_default().push(span);
    }
    let ids: BTreeSet<[u8; 8]> =
        spans.iter().map(|it| it.span_context.span_id().to_bytes()).collect();
    assert_eq!(ids.len(), spans.len(), "two spans have one id: {spans:?}");
    let mut text = String::new();
    draw(&children, SpanId::INVALID, 0, &mut text);
    assert_eq!(text.lines().count(), spans.len(), "a span has no parent: {spans:?}");
    text
}

fn draw(
    children: &BTreeMap<[u8; 8], Vec<&SpanData>>,
    parent: SpanId,
    depth: usize,
    text: &mut String,
) {
    for span in children.get(&parent.to_bytes()).into_iter().flatten() {
        let ms = |at: std::time::SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_millis();
        let (start, end) = (ms(span.start_time), ms(span.end_time));
        write!(text, "{:depth$}{} {start}-{end}", "", span.name).unwrap();
        for event in span.events.iter() {
            write!(text, ", {} {}", event.name, ms(event.timestamp)).unwrap();
        }
        if !span.links.is_empty() {
            write!(text, ", {} link", span.links.len()).unwrap();
        }
        if matches!(span.status, SpanStatus::Error { .. }) {
            write!(text, ", {}", attribute(span, key::ERROR_TYPE).unwrap()).unwrap();
        }
        text.push('\n');
        draw(children, span.span_context.span_id(), depth + 2, text);
    }
}

fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

fn started() -> RunEvent {
    RunEvent::Started(RunStarted {
        agent: name("team-lead"),
        team: "demo".to_owned(),
        team_file: PathBuf::from("/home/dev/teams/demo/config.json"),
        session_id: "session-1".to_owned(),
        cwd: PathBuf::from("/home/dev/work"),
        model: "anthropic/claude-x".to_owned(),
        mode: PermissionMode::Default,
        tools: Vec::new(),
        agents: Vec::new(),
        resumed: false,
        limits: RunLimits::default(),
        spent_before_usd: 0.0,
    })
}

fn joins(agent: &str, parent_call: Option<&str>) -> RunEvent {
    RunEvent::AgentStarted(AgentStarted {
        agent: AgentName::foreign(agent),
        parent_call: parent_call.map(str::to_owned),
        agent_type: Some("tester".to_owned()),
        model: "openai/gpt-x".to_owned(),
        color: None,
        cwd: PathBuf::from("/home/dev/work"),
        mode: PermissionMode::Default,
    })
}

fn becomes(agent: &str, status: Status) -> RunEvent {
    RunEvent::AgentChanged { agent: name(agent), status, detail: Some(SECRET.to_owned()) }
}

const USAGE: Usage = Usage {
    input_tokens: 100,
    output_tokens: 7,
    cache_creation_input_tokens: 20,
    cache_read_input_tokens: 3,
};

fn answers(agent: &str) -> RunEvent {
    let text = json!({"type": "text", "text": format!("the key is {SECRET}")});
    let call = json!({"type": "tool_use", "id": "c1", "name": "Bash", "input": {"k": SECRET}});
    let block = |value| serde_json::from_value::<Block>(value).unwrap();
    RunEvent::Answered(Answered {
        agent: name(agent),
        parent_call: None,
        message_id: "msg_1".to_owned(),
        model: "claude-x-20261101".to_owned(),
        blocks: vec![block(text), block(call)],
        stop: StopReason::ToolUse,
        usage: USAGE,
        cost_usd: Some(0.5),
        took: Duration::from_millis(2),
    })
}

fn calls(agent: &str, call: &str, tool: &str) -> RunEvent {
    RunEvent::ToolStarted {
        agent: name(agent),
        call: call.to_owned(),
        tool: tool.to_owned(),
        input: json!({"file_path": "/home/dev/work/a.txt", "content": SECRET}),
    }
}

fn call_ends(agent: &str, call: &str, tool: &str, is_error: bool) -> RunEvent {
    RunEvent::ToolEnded(ToolEnded {
        agent: name(agent),
        parent_call: None,
        call: call.to_owned(),
        tool: tool.to_owned(),
        text: format!("wrote {SECRET}"),
        data: json!({"key": SECRET}),
        is_error,
    })
}

fn refused(agent: &str, call: &str) -> RunEvent {
    RunEvent::PermissionAnswered {
        agent: name(agent),
        call: call.to_owned(),
        refused: Some(SECRET.to_owned()),
        would_allow: None,
    }
}

fn id(id: &str) -> MessageId {
    MessageId(id.to_owned())
}

fn persisted(message: &str, from: &str, to: &str) -> Noted {
    Noted::MessagePersisted {
        id: id(message),
        from: from.to_owned(),
        author: None,
        to: name(to),
        frame: None,
    }
}

fn injected(message: &str, to: &str) -> Noted {
    Noted::MessageInjected { id: id(message), to: name(to) }
}

fn acknowledged(message: &str, to: &str) -> Noted {
    Noted::MessageAcknowledged { id: id(message), to: name(to) }
}

#[test]
fn each_agent_model_call_and_tool_call_has_a_span_with_its_parent() {
    let folded = Folded::run(vec![
        started(),
        joins("bob", None),
        answers("team-lead"),
        calls("team-lead", "c1", "Task"),
        joins("team-lead#explore-1", Some("c1")),
        calls("bob", "c1", "Bash"),
        call_ends("bob", "c1", "Bash", true),
        call_ends("team-lead", "c1", "Task", false),
        becomes("bob", Status::Completed),
    ]);
    insta::assert_snapshot!(folded.tree(), @r"
    invoke_workflow demo 1-10
      invoke_agent bob 2-9
        execute_tool Bash 6-7, tool_error
      invoke_agent team-lead 1-10
        chat claude-x 1-3
        execute_tool Task 4-8
          invoke_agent team-lead#explore-1 5-10
    ");
}

#[test]
fn calls_that_never_ran_or_never_ended_say_why() {
    let mut folded = Folded::run(vec![
        started(),
        refused("team-lead", "c1"),
        call_ends("team-lead", "c1", "Bash", true),
        call_ends("team-lead", "c2", "Nonsense", true),
        calls("team-lead", "c3", "Bash"),
    ]);
    folded.happened(What::Ended(Box::new(RunOutcome::broken("demo"))));
    insta::assert_snapshot!(folded.tree(), @r"
    invoke_workflow demo 1-6, broken
      invoke_agent team-lead 1-6
        execute_tool Bash 3-3, permission_denied
        execute_tool Nonsense 4-4, not_run
        execute_tool Bash 5-6, interrupted
    ");
}

#[test]
fn a_model_call_has_the_attributes_of_the_conventions() {
    let folded = Folded::run(vec![started(), joins("bob", None), answers("bob")]);
    let of = |key| folded.attribute("chat gpt-x", key).unwrap();
    assert_eq!(of(key::OPERATION), "chat");
    assert_eq!(of(key::PROVIDER), "openai");
    assert_eq!(of(key::REQUEST_MODEL), "gpt-x");
    assert_eq!(of(key::RESPONSE_MODEL), "claude-x-20261101");
    assert_eq!(of(key::RESPONSE_ID), "msg_1");
    assert_eq!(of(key::FINISH_REASONS), "[\"tool_use\"]");
    assert_eq!(of(key::INPUT_TOKENS), "123", "cached tokens are input too");
    assert_eq!(of(key::OUTPUT_TOKENS), "7");
    assert_eq!(of(key::CACHE_READ_TOKENS), "3");
    assert_eq!(of(key::CACHE_CREATION_TOKENS), "20");
    assert_eq!(of(key::CONVERSATION), "session-1");
    assert_eq!(of(key::AGENT_NAME), "bob");
    assert_eq!(of(key::AGENT_ID), "bob@demo");
    assert_eq!(of(key::COST), "0.5");
    let [Measurement::Called { input_tokens: 123, output_tokens: 7, took, .. }] =
        folded.measured.as_slice()
    else {
        panic!("{:?}", folded.measured)
    };
    assert_eq!(*took, Some(Duration::from_millis(2)));
}

#[test]
fn calls_in_other_processes_and_compactions_count_too() {
    let spending = Spending {
        model: "claude-x".to_owned(),
        usage: USAGE,
        cost_usd: None,
        tool_calls: 1,
        took: Duration::from_millis(1),
    };
    let compacted = Compacted {
        agent: name("bob"),
        model: "gpt-x".to_owned(),
        tokens_before: 9,
        tokens_after: 1,
        usage: USAGE,
        cost_usd: None,
    };
    let folded = Folded::run(vec![
        started(),
        joins("bob", None),
        RunEvent::ModelChanged { agent: name("bob"), model: "haiku".to_owned() },
        RunEvent::TurnEnded { agent: name("bob"), spending },
        RunEvent::Compacted(compacted),
    ]);
    let calls: Vec<&SpanData> =
        folded.spans.iter().filter(|span| span.name.starts_with("chat claude-haiku")).collect();
    let tokens = calls.iter().map(|span| attribute(span, key::INPUT_TOKENS).unwrap());
    assert_eq!(tokens.collect::<Vec<_>>(), ["123", "123"]);
    assert_eq!(attribute(calls[1], key::IS_COMPACTION).unwrap(), "true");
}

#[test]
fn a_message_has_a_span_from_its_sending_to_its_delivery() {
    let mut folded = Folded::run(vec![started(), joins("bob", None)]);
    folded.noted(persisted("m1", "team-lead", "bob"));
    folded.noted(injected("m1", "bob"));
    folded.noted(acknowledged("m1", "bob"));
    // The receiver wrote its entry first, and the sender is no agent of this run.
    folded.noted(injected("m2", "bob"));
    folded.noted(persisted("m2", "user", "bob"));
    // This message is read twice, and is never delivered.
    folded.noted(persisted("m3", "bob", "team-lead"));
    folded.noted(persisted("m3", "bob", "team-lead"));
    folded.noted(persisted("m4", "bob", "team-lead"));
    folded.noted(Noted::MessageDead {
        id: id("m4"),
        to: name("team-lead"),
        reason: SECRET.to_owned(),
    });
    let count = |of: &Measurement| folded.measured.iter().filter(|it| *it == of).count();
    assert_eq!((count(&Measurement::MessageSent), count(&Measurement::MessageDelivered)), (4, 2));
    insta::assert_snapshot!(folded.tree(), @r"
    invoke_workflow demo 1-12
      send bob 6-6, persisted 6, delivered 6
      invoke_agent bob 2-12
        process bob 4-5, 1 link
        send team-lead 10-11, persisted 10, dead
        process bob 6-12, 1 link
        send team-lead 8-12, persisted 8
      invoke_agent team-lead 1-12
        send bob 3-4, persisted 3, delivered 4
    ");
}

#[test]
fn the_end_of_the_run_closes_its_spans_and_later_entries_still_have_a_parent() {
    let mut folded = Folded::run(vec![started()]);
    folded.happened(What::Ended(Box::new(RunOutcome::broken("demo"))));
    assert_eq!(folded.attribute("invoke_workflow demo", key::RUN_END).unwrap(), "broken");
    folded.noted(persisted("m1", "team-lead", "bob"));
    folded.noted(persisted("m2", "user", "bob"));
    insta::assert_snapshot!(folded.tree(), @r"
    invoke_workflow demo 1-2, broken
      invoke_agent team-lead 1-2
        send bob 3-5, persisted 3
      send bob 4-5, persisted 4
    ");
}

#[test]
fn without_the_users_wish_no_text_and_no_path_is_in_the_spans() {
    let everything = || {
        vec![
            started(),
            joins("bob", None),
            answers("bob"),
            calls("bob", "c1", "Write"),
            call_ends("bob", "c1", "Write", true),
            refused("bob", "c2"),
            call_ends("bob", "c2", "Bash", true),
            becomes("bob", Status::Failed),
            RunEvent::Warning { text: SECRET.to_owned() },
        ]
    };
    let left_out = format!("{:?}", Folded::run(everything()).spans);
    for text in [SECRET, "the key is", "wrote", "/home/dev"] {
        assert!(!left_out.contains(text), "{text}: {left_out}");
    }
    let mut masked = Folded::new(Content::Masked(Masker::new()));
    everything().into_iter().for_each(|event| masked.happened(What::Run(event)));
    let masked = format!("{:?}", masked.spans);
    assert!(!masked.contains(SECRET), "{masked}");
    for text in ["the key is [masked: Anthropic key]", "wrote [masked", "/home/dev/work/a.txt"] {
        assert!(masked.contains(text), "{text}: {masked}");
    }
}

#[test]
fn tasks_are_counted_by_status() {
    let task = |id: &str, status: &str| {
        serde_json::from_value(json!({
            "id": id, "subject": "s", "description": "d", "activeForm": "a", "owner": null,
            "status": status, "blocks": [], "blockedBy": [],
        }))
        .unwrap()
    };
    let tasks = vec![task("1", "pending"), task("2", "completed"), task("3", "completed")];
    let mut folded = Folded::run(vec![started()]);
    folded.happened(What::Tasks(tasks));
    let counts =
        [(TaskStatus::Pending, 1), (TaskStatus::InProgress, 0), (TaskStatus::Completed, 2)];
    assert_eq!(folded.measured, [Measurement::Tasks(counts)]);
}

#[test]
fn a_run_in_another_programs_trace_belongs_to_it() {
    let parent = SpanContext::new(
        TraceId::from_bytes([9; 16]),
        SpanId::from_bytes([8; 8]),
        opentelemetry::trace::TraceFlags::SAMPLED,
        true,
        opentelemetry::trace::TraceState::NONE,
    );
    let mut fold =
        RunFold::new(TraceId::from_bytes([1; 16]), Some(parent.clone()), Content::LeftOut);
    let _none = fold.happened(&HostEvent { seq: 0, at_ms: 1, what: What::Run(started()) });
    let spans = fold.close(2);
    assert!(spans.iter().all(|span| span.span_context.trace_id() == parent.trace_id()));
    let root = spans.iter().find(|span| span.name == "invoke_workflow demo").unwrap();
    assert_eq!((root.parent_span_id, root.parent_span_is_remote), (parent.span_id(), true));
}

#[test]
fn events_before_the_start_of_a_run_make_no_signals() {
    let mut folded = Folded::run(vec![answers("bob"), call_ends("bob", "c1", "Bash", false)]);
    folded.noted(persisted("m1", "bob", "team-lead"));
    assert_eq!((folded.spans.len(), folded.measured.len()), (0, 0));
    assert_eq!(folded.tree(), "");
}
