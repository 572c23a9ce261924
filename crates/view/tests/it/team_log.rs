//! Tests the log of a team that is computed from its journal and mail.

use pitcrew_protocol::{AgentName, Frame, Message, MessageId, Status, TaskId};
use pitcrew_team::Mail;
use pitcrew_team::store::{
    Event, JournalEntry, MemberChange, PermissionOutcome, TaskChangeKind, Turn,
};
use pitcrew_view::team_log::{LogEntry, LogKind, TeamLog, merged};
use serde_json::json;

use crate::script::name;

/// Builds a journal with one entry per second.
fn journal(events: Vec<Event>) -> Vec<JournalEntry> {
    (1..).zip(events).map(|(at, event)| JournalEntry { at_ms: at * 1000, event }).collect()
}

fn sent(id: &str, from: &str, to: &str, frame: Option<&str>) -> Event {
    let (id, frame) = (MessageId(id.to_owned()), frame.map(str::to_owned));
    Event::MessagePersisted { id, from: from.to_owned(), author: None, to: name(to), frame }
}

/// Returns the event of a message with the user as the author.
fn by_user(mut event: Event) -> Event {
    if let Event::MessagePersisted { author, .. } = &mut event {
        *author = Some("user".to_owned());
    }
    event
}

fn mail(id: &str, from: &str, text: &str) -> Mail {
    let message = Message::new(from, text.to_owned(), "1970-01-01T00:00:02.500Z".to_owned());
    Mail { id: MessageId(id.to_owned()), message, frame: Frame::detect(text) }
}

fn changed(member: &str, state: MemberChange, detail: Option<&str>) -> Event {
    Event::MemberChanged { member: name(member), state, detail: detail.map(str::to_owned) }
}

fn turn(member: &str, tool_calls: u32) -> Event {
    Event::TurnEnded(Turn {
        input_tokens: 900,
        output_tokens: 100,
        cost_usd: Some(0.25),
        tool_calls,
        ..Turn::new(name(member), "opus")
    })
}

/// Returns the entries as lines: the time in seconds, the kind, the agent and the words.
fn lines(entries: &[LogEntry]) -> Vec<String> {
    let line = |entry: &LogEntry| {
        let used = match (entry.tokens, entry.cost_usd) {
            (Some(tokens), Some(cost)) => format!(" ({tokens}, ${cost:.2})"),
            _ => String::new(),
        };
        let agent = entry.agent.as_deref().unwrap_or("-");
        format!("{} {} {agent}: {}{used}", entry.at_ms / 1000, entry.kind, entry.text)
    };
    entries.iter().map(line).collect()
}

#[test]
fn a_run_is_told_from_its_start_to_its_end() {
    let mut log = TeamLog::default();
    let task = json!({"id": "1", "subject": "Fix slug", "description": "", "status": "pending",
        "blocks": [], "blockedBy": []});
    log.know_tasks(&[serde_json::from_value(task).unwrap()]);
    let task = |change| Event::TaskChanged {
        task: TaskId::from_number(1),
        by: "bob".to_owned(),
        change,
        fields: Vec::new(),
    };
    let permission = |outcome: PermissionOutcome| Event::Permission {
        request: "r".to_owned(),
        member: name("bob"),
        tool: "Bash".to_owned(),
        telling: (outcome == PermissionOutcome::Asked).then(|| "npm test".to_owned()),
        outcome,
    };
    let entries = log.entries(&journal(vec![
        Event::TeamCreated { team: "demo".to_owned() },
        Event::RunStarted {
            goal: Some("mend the \u{1b}[2Jcrate\nand test it".to_owned()),
            head: None,
        },
        turn("team-lead", 1),
        changed("bob", MemberChange::Spawned, Some("team-lead")),
        changed("bob", Status::Active.into(), None),
        task(TaskChangeKind::Claimed),
        permission(PermissionOutcome::Asked),
        permission(PermissionOutcome::Denied),
        turn("bob", 2),
        turn("bob", 0),
        task(TaskChangeKind::Completed),
        changed("bob", Status::Failed.into(), Some("no key")),
        changed("bob", MemberChange::Removed, None),
        Event::RunEnded {
            end: Some("max_cost".to_owned()),
            reason: Some("$5 is spent".to_owned()),
        },
        Event::TeamArchived { team: "demo".to_owned() },
    ]));
    assert_eq!(
        lines(&entries),
        [
            "1 run -: team demo is made",
            "2 run -: the run starts: mend the \u{fffd}[2Jcrate",
            "3 turn team-lead: has an answer of opus with 1 tool call (1000, $0.25)",
            "4 member team-lead: spawns bob",
            "5 state bob: begins a turn",
            "6 task bob: claims task #1 Fix slug",
            "7 permission bob: asks permission for Bash(npm test)",
            "8 permission bob: gets no permission for Bash(npm test)",
            "9 turn bob: has an answer of opus with 2 tool calls (1000, $0.25)",
            "10 turn bob: has an answer of opus (1000, $0.25)",
            "11 task bob: completes task #1 Fix slug",
            "12 member bob: has failed: no key (2000, $0.50)",
            "13 member bob: leaves the team",
            "14 run -: the run ends, max cost: $5 is spent (3000, $0.75)",
            "15 run -: team demo moves to the archive",
        ]
    );
}

#[test]
fn messages_are_told_with_sender_receivers_and_text() {
    let mut log = TeamLog::default();
    let plan = json!({"type": "plan_approval_request", "from": "bob", "requestId": "p", "planContent": "First this"});
    let back = json!({"type": "plan_approval_response", "requestId": "p", "approved": false, "feedback": "test more"});
    let yes = json!({"type": "plan_approval_response", "requestId": "q", "approved": true});
    let assigned = json!({"type": "task_assignment", "taskId": "7", "subject": "s"});
    log.know_mail(
        &name("bob"),
        vec![
            mail("1", "team-lead", "look\nthere"),
            mail("4", "team-lead", &back.to_string()),
            mail("9", "team-lead", &yes.to_string()),
        ],
    );
    log.know_mail(
        &name("cat"),
        vec![mail("2", "team-lead", "look\nthere"), mail("6", "team-lead", &assigned.to_string())],
    );
    log.know_mail(&name("team-lead"), vec![mail("3", "bob", &plan.to_string())]);
    let mut events = journal(vec![
        sent("1", "team-lead", "bob", None),
        sent("2", "team-lead", "cat", None),
        sent("3", "bob", "team-lead", Some("plan_approval_request")),
        sent("4", "team-lead", "bob", Some("plan_approval_response")),
        sent("5", "operator", "bob", None),
        by_user(sent("9", "team-lead", "bob", Some("plan_approval_response"))),
        sent("6", "team-lead", "cat", Some("task_assignment")),
        sent("7", "team-lead", "cat", Some("shutdown_request")),
        sent("8", "cat", "cat", Some("task_assignment")),
        Event::MessageDead {
            id: MessageId("5".to_owned()),
            to: name("bob"),
            reason: "it has ended".to_owned(),
        },
    ]);
    // The copies of a broadcast follow each other closely.
    for entry in &mut events {
        entry.at_ms /= 20;
    }
    assert_eq!(log.lacks_mail_of(&events), [name("bob"), name("cat")]);
    let entries = log.entries(&events);
    assert_eq!(entries[0].to, ["bob", "cat"]);
    assert_eq!(entries[0].content.as_deref(), Some("look\nthere"));
    assert_eq!(
        lines(&entries),
        [
            "0 mail team-lead: writes to bob, cat: look",
            "0 plan bob: hands in a plan: First this",
            "0 plan team-lead: sends the plan of bob back: test more",
            "0 mail operator: writes to bob",
            "0 plan user: approves the plan of bob",
            "0 task team-lead: assigns task #7 to cat",
            "0 member team-lead: sends a shutdown request to cat",
            "0 delivery cat: sends a task assignment to cat",
            "0 mail bob: does not get a message: it has ended",
        ]
    );
    assert!(log.entries(&events).iter().all(|entry| entry.event == "message_dead"), "each once");
}

#[test]
fn a_broadcast_of_another_client_has_all_its_receivers() {
    let mut log = TeamLog::default();
    // The ids of another client's messages come from their texts and times.
    for to in ["ann", "bob"] {
        log.know_mail(&name(to), vec![mail("1", "team-lead", "hello all")]);
    }
    let entries = log.unrecorded_mail();
    assert_eq!(lines(&entries), ["2 mail team-lead: writes to ann, bob: hello all"]);
    let request = r#"{"type":"permission_request","request_id":"p","agent_id":"bob","tool_name":"Bash","input":{"command":"npm test"}}"#;
    let response = r#"{"type":"permission_response","request_id":"p","subtype":"success"}"#;
    log.know_mail(&name("team-lead"), vec![mail("2", "bob", request)]);
    log.know_mail(&name("bob"), vec![mail("3", "team-lead", response)]);
    assert_eq!(
        lines(&log.unrecorded_mail()),
        [
            "2 permission bob: asks permission for Bash(npm test)",
            "2 permission team-lead: allows bob Bash(npm test)",
        ]
    );
}

#[test]
fn mail_that_the_journal_lacks_is_told_once_at_its_time() {
    let mut log = TeamLog::default();
    let start = log.entries(&journal(vec![
        Event::TeamCreated { team: "demo".to_owned() },
        sent("1", "ann", "bob", None),
        Event::RunEnded { end: None, reason: None },
    ]));
    let copies = [("bob", mail("1", "ann", "hi")), ("bob", mail("2", "bob's friend", "hello"))];
    for (to, mail) in copies {
        log.know_mail(&name(to), vec![mail]);
    }
    let all = merged(start, log.unrecorded_mail());
    assert_eq!(
        lines(&all),
        [
            "1 run -: team demo is made",
            "2 mail ann: writes to bob",
            "2 mail bob's friend: writes to bob: hello",
            "3 run -: the run ends",
        ]
    );
    assert_eq!(log.unrecorded_mail(), []);
    let late = journal(vec![sent("2", "bob's friend", "bob", None)]);
    assert_eq!(log.entries(&late), [], "the journal tells it later");
}

#[test]
fn an_agent_of_a_used_name_counts_anew_and_the_team_goes_on_counting() {
    let mut log = TeamLog::default();
    let entries = log.entries(&journal(vec![
        changed("bob", MemberChange::Spawned, None),
        turn("bob", 0),
        changed("bob", Status::Completed.into(), None),
        changed("bob", MemberChange::Spawned, Some("operator")),
        turn("bob", 0),
        changed("bob", Status::Killed.into(), None),
        Event::RunEnded { end: Some("interrupted".to_owned()), reason: None },
    ]));
    let used: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind != LogKind::Turn)
        .map(|entry| (entry.event.as_str(), entry.tokens))
        .collect();
    assert_eq!(
        used,
        [
            ("spawned", None),
            ("completed", Some(1000)),
            ("spawned", None),
            ("killed", Some(1000)),
            ("run_ended", Some(2000)),
        ]
    );
    let operators = entries.iter().filter(|entry| entry.concerns("operator")).count();
    assert_eq!(operators, 1);
    assert!(entries.iter().all(|entry| !entry.concerns(AgentName::lead().as_str())));
}
