//! Tests the state of a team that is read from the stream of another client: the five scenarios of
//! the stream document, on its examples and on the recorded streams.

use std::fmt::Write as _;
use std::time::Duration;

use pitcrew_protocol::{AgentName, PermissionMode, Status, Task, TaskId, TaskStatus};
use pitcrew_runtime::events::RunEvent;
use pitcrew_view::client_stream::{ClientStream, LINE_BYTES_MOST, LinesRead};
use pitcrew_view::state::{Cleanup, Happened, Mail, Route};
use pitcrew_view::stream::Stream;
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};
use serde_json::{Value, json};

use crate::script::*;

const GUIDE: &str = include_str!("recordings/stream-guide.ndjson");
const LIFECYCLE: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson");
const ERRORS: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/errors-and-duplicates.ndjson");

fn read_bytes(stream: &[u8]) -> (TeamState, LinesRead) {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    reader.feed(&mut state, stream);
    reader.finish(&mut state);
    (state, reader.lines_read())
}

/// Returns the state after a stream in which every line is known.
fn after(stream: &str) -> TeamState {
    let (state, read) = read_bytes(stream.as_bytes());
    let lines = stream.lines().count() as u64;
    assert_eq!(read, LinesRead { lines, ..LinesRead::default() });
    state
}

/// Returns the state after the first lines of the stream document's examples.
fn after_guide(lines: usize) -> TeamState {
    after(&GUIDE.lines().take(lines).map(|line| format!("{line}\n")).collect::<String>())
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn of<'a>(state: &'a TeamState, agent: &str) -> &'a AgentState {
    state.agent(&name(agent)).unwrap()
}

/// Returns the cards, the tasks and the timeline as a person sees them.
fn shown(state: &TeamState) -> String {
    let cleanup = state.cleanup.as_ref().map_or_else(|| "open".to_owned(), Cleanup::to_string);
    let mut shown = format!("team {}: {cleanup}\n", state.team);
    for agent in &state.agents {
        let badges = [
            agent.color.map(|color| color.as_str()),
            agent.agent_type.as_deref(),
            agent.model.as_deref(),
            agent.mode.as_deref(),
        ];
        let badges: Vec<&str> = badges.into_iter().flatten().collect();
        writeln!(shown, "  {} [{}] {}", agent.name, badges.join(", "), agent.line()).unwrap();
    }
    for task in &state.tasks {
        let (status, owner) = (task.status.as_str(), task.owner.as_deref().unwrap_or("nobody"));
        let ids = |ids: &[TaskId]| ids.iter().map(|id| format!(" #{id}")).collect::<String>();
        writeln!(
            shown,
            "  #{} {} ({status}, {owner}) blocked by{}; blocks{}",
            task.id,
            task.subject,
            ids(&task.blocked_by),
            ids(&task.blocks)
        )
        .unwrap();
    }
    for entry in state.timeline.entries() {
        writeln!(shown, "  {:>2} {}", entry.line, entry.text()).unwrap();
    }
    shown
}

fn mail_of(state: &TeamState) -> impl DoubleEndedIterator<Item = &Mail> {
    state.timeline.entries().filter_map(|entry| match &entry.what {
        Happened::Mail(mail) => Some(mail),
        _ => None,
    })
}

#[test]
fn every_recorded_line_is_read() {
    for stream in [GUIDE, LIFECYCLE, ERRORS] {
        after(stream);
    }
}

#[test]
fn a_spawn_makes_a_card_with_color_model_and_type() {
    insta::assert_snapshot!(shown(&after_guide(4)), @r"
    team codebase-gap-analysis: open
      team-lead [] thinks
      swift-expert [blue, general-purpose, claude-opus-4-6, default] thinks
       2 team codebase-gap-analysis created
       4 swift-expert started (general-purpose, claude-opus-4-6, blue)
    ");
}

#[test]
fn a_message_goes_to_a_card_and_a_broadcast_to_the_team_with_its_recipients() {
    let state = after_guide(8);
    let routes: Vec<&Route> = mail_of(&state).map(|mail| &mail.to).collect();
    let team = Route::Team(vec![name("swift-expert"), name("rust-expert")]);
    assert_eq!(routes, [&Route::Agent(name("swift-expert")), &team]);
    let last: Vec<String> = state.timeline.entries().map(|entry| entry.text()).collect();
    insta::assert_snapshot!(last.join("\n"), @r"
    team codebase-gap-analysis created
    swift-expert started (general-purpose, claude-opus-4-6, blue)
    team-lead to @swift-expert: Requesting Swift analysis report
    team-lead to @team (swift-expert, rust-expert): URGENT: Write findings to file now
    ");
}

#[test]
fn the_acknowledgement_of_a_shutdown_request_changes_the_card() {
    assert_eq!(of(&after_guide(9), "swift-expert").status, Status::Active);
    let state = after_guide(10);
    assert_eq!(of(&state, "swift-expert").line(), "shutting down");
    let last = mail_of(&state).next_back().map(|mail| (mail.kind.as_str(), mail.text.as_str()));
    let reason = "Analysis complete, thank you for the thorough report. Shutting down.";
    assert_eq!(last, Some(("shutdown_request", reason)));
}

#[test]
fn a_failed_cleanup_shows_its_error_and_the_team_stays() {
    let state = after_guide(11);
    let reason = "Cannot cleanup team with 2 active member(s): swift-expert, rust-expert. Use requestShutdown to gracefully terminate teammates first.";
    assert_eq!(state.cleanup, Some(Cleanup::Failed(reason.to_owned())));
    assert_eq!(of(&state, "swift-expert").status, Status::ShutdownRequested);
    let state = after_guide(12);
    assert_eq!(state.cleanup.as_ref().unwrap().to_string(), "cleaned_up");
    assert_eq!(of(&state, "swift-expert").line(), "ended");
}

#[test]
fn the_result_is_the_summary_of_the_session_by_model() {
    let session = after_guide(13).session.unwrap();
    let mut shown = format!(
        "{}, error {}: {} turns, {} ms, {} ms in models, ${}, {:?}\n{}\n",
        session.outcome,
        session.is_error,
        session.turns.unwrap(),
        session.duration_ms.unwrap(),
        session.duration_api_ms.unwrap(),
        session.cost_usd.unwrap(),
        session.usage,
        session.result
    );
    for model in &session.models {
        let cost = model.cost_usd.unwrap();
        writeln!(shown, "{}: ${cost}, {:?}", model.model, model.usage).unwrap();
    }
    insta::assert_snapshot!(shown, @r"
    success, error false: 2 turns, 10786 ms, 1204342 ms in models, $8.559937750000001, Usage { input_tokens: 4, output_tokens: 216, cache_creation_input_tokens: 14102, cache_read_input_tokens: 145459 }
    Team cleaned up. The complete analysis is in the report above...
    claude-haiku-4-5-20251001: $0.16046275, Usage { input_tokens: 25147, output_tokens: 5651, cache_creation_input_tokens: 52627, cache_read_input_tokens: 412770 }
    claude-opus-4-6: $8.399475, Usage { input_tokens: 793, output_tokens: 55704, cache_creation_input_tokens: 565418, cache_read_input_tokens: 6938095 }
    ");
}

#[test]
fn a_recorded_session_is_a_team_with_tasks_and_a_timeline() {
    insta::assert_snapshot!(shown(&after(LIFECYCLE)), @r"
    team probe: Cannot cleanup team with 1 active member(s): worker. Use requestShutdown to gracefully terminate teammates first.
      team-lead [claude-sonnet-4-5-20250929, acceptEdits] ended                           121 tokens
      worker [blue, general-purpose, claude-opus-4-6, acceptEdits] shutting down
      #1 Do A (in_progress, worker) blocked by; blocks #2
      #2 Do B (pending, nobody) blocked by #1; blocks
       3 team probe created
       6 team-lead: task #1 created: Do A
       7 team-lead: task #2 created: Do B
       9 team-lead: task #2 blocked by #1
      11 worker started (general-purpose, claude-opus-4-6, blue)
      15 team-lead: task #1 owner worker
      19 team-lead to @worker: greeting the worker
      21 team-lead to @team (worker): greeting everyone
      25 team not cleaned up: Cannot cleanup team with 1 active member(s): worker. Use requestShutdown to gracefully terminate teammates first.
      27 team-lead to @worker, shutdown request: please stop
      28 team-lead: waiting for shutdown
      29 session ended: success
    ");
}

#[test]
fn a_recorded_session_with_errors_shows_only_what_happened() {
    insta::assert_snapshot!(shown(&after(ERRORS)), @r"
    team probe: open
      team-lead [claude-sonnet-4-5-20250929, acceptEdits] ended                           121 tokens
      planner [blue, general-purpose, claude-opus-4-6, plan] idle
      worker [green, general-purpose, claude-opus-4-6, acceptEdits] shutting down
      worker-2 [yellow, general-purpose, claude-opus-4-6, acceptEdits] shutting down
       3 team probe created
       5 planner started (general-purpose, claude-opus-4-6, blue)
       7 worker started (general-purpose, claude-opus-4-6, green)
       9 worker-2 started (general-purpose, claude-opus-4-6, yellow)
      13 team-lead to @nobody: to nobody at all here
      17 team-lead to @worker, shutdown request
      19 team-lead to @worker-2, shutdown request
      22 team-lead: lead turn over
      23 session ended: success
    ");
}

#[test]
fn a_stream_can_come_in_any_pieces() {
    for stream in [GUIDE, LIFECYCLE, ERRORS] {
        let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
        for byte in stream.as_bytes() {
            reader.feed(&mut state, std::slice::from_ref(byte));
        }
        assert!(state == after(stream));
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_loses_only_the_cut_line() {
    let states: Vec<TeamState> = (0..=13).map(after_guide).collect();
    for cut in 0..GUIDE.len() {
        let (state, read) = read_bytes(&GUIDE.as_bytes()[..cut]);
        let whole = read.lines - read.cut;
        assert_eq!(read, LinesRead { lines: read.lines, cut: read.cut, ..LinesRead::default() });
        assert!(read.cut <= 1, "{cut}");
        assert!(whole >= GUIDE[..cut].matches('\n').count() as u64, "{cut}");
        assert!(state == states[whole as usize], "{cut}");
    }
}

#[test]
fn unknown_and_unreadable_lines_are_counted_and_skipped() {
    let known = LIFECYCLE.replace(
        "{\"type\": \"assistant\"",
        "{\"type\": \"stream_event\", \"event\": {}}\nno json\n[1]\n\n\"text\"\n{\"type\": \"assistant\"",
    );
    let (state, read) = read_bytes(known.as_bytes());
    let calls = LIFECYCLE.matches("{\"type\": \"assistant\"").count() as u64;
    let lines = 29 + 4 * calls;
    let expected = LinesRead { lines, unknown: calls, unreadable: 3 * calls, too_long: 0, cut: 0 };
    assert_eq!(read, expected);
    assert_eq!(state.agents, after(LIFECYCLE).agents);
}

#[test]
fn a_line_that_is_too_long_is_skipped_without_being_kept() {
    let long = format!("{{\"type\":\"user\",\"x\":\"{}\"}}\n", "x".repeat(LINE_BYTES_MOST));
    for piece in [1 << 16, long.len()] {
        let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
        for piece in long.as_bytes().chunks(piece) {
            reader.feed(&mut state, piece);
        }
        reader.feed(&mut state, LIFECYCLE.as_bytes());
        let expected = LinesRead { lines: 30, too_long: 1, ..LinesRead::default() };
        assert_eq!(reader.lines_read(), expected);
        assert_eq!(state.agents, after(LIFECYCLE).agents);
    }
}

#[test]
fn the_identity_of_a_teammate_follows_the_normalisation_order() {
    let ids = [("teammate_id", "a@t"), ("agent_id", "b@t"), ("agentId", "c@t"), ("name", "d")];
    for at in 0..ids.len() {
        let mut result = json!({"status": "teammate_spawned", "team_name": "t"});
        for (field, id) in &ids[at..] {
            result[*field] = json!(id);
        }
        let state = after(&lines(&[result_of("c1", &result)]));
        let names: Vec<&str> = state.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["team-lead", &ids[at].1[..1]]);
    }
}

fn result_of(call: &str, data: &Value) -> Value {
    let content = json!([{"type": "tool_result", "tool_use_id": call, "content": "done"}]);
    json!({"type": "user", "message": {"role": "user", "content": content}, "tool_use_result": data})
}

fn block_of(message: &str, block: &Value, output_tokens: u64, parent_call: Option<&str>) -> Value {
    let usage = json!({"input_tokens": 100, "output_tokens": output_tokens});
    let message = json!({"id": message, "role": "assistant", "model": "m", "content": [block], "usage": usage});
    json!({"type": "assistant", "message": message, "parent_tool_use_id": parent_call})
}

fn call_of(id: &str, tool: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": tool, "input": input})
}

#[test]
fn a_turn_of_several_lines_is_counted_once() {
    let text = json!({"type": "text", "text": "I look."});
    let bash = |id| call_of(id, "Bash", &json!({"command": "ls\nls"}));
    let script = [
        block_of("m1", &text, 1, None),
        block_of("m1", &bash("c1"), 5, None),
        result_of("c1", &json!({"stdout": "x"})),
        block_of("m1", &bash("c2"), 9, None),
    ];
    let state = after(&lines(&script));
    let lead = of(&state, "team-lead");
    assert_eq!((lead.turns, lead.tool_calls, lead.usage.context_tokens()), (1, 2, 109));
    assert_eq!(lead.line(), "Bash(ls)                        109 tokens");
    let state = after(&lines(&[&script[..], &[block_of("m2", &text, 1, None)]].concat()));
    assert_eq!(of(&state, "team-lead").turns, 2);
}

#[test]
fn a_subagent_is_an_agent_until_its_call_has_a_result() {
    let spawn = json!({"description": "d", "prompt": "p", "subagent_type": "Explore"});
    let text = json!({"type": "text", "text": "found"});
    let script = [
        block_of("m1", &call_of("c1", "Task", &spawn), 1, None),
        block_of("m2", &text, 1, Some("c1")),
        block_of("m3", &text, 1, Some("c1")),
        result_of("c1", &json!({"status": "completed"})),
    ];
    let state = after(&lines(&script[..3]));
    let (agent, lead) = (of(&state, "Explore"), of(&state, "team-lead"));
    assert_eq!((agent.turns, lead.turns, agent.status), (2, 1, Status::Active));
    let state = after(&lines(&script));
    assert_eq!(of(&state, "Explore").status, Status::Completed);
}

#[test]
fn mail_to_the_lead_is_in_the_timeline_and_changes_its_sender() {
    let spawned = json!({"status": "teammate_spawned", "teammate_id": "bob@t", "team_name": "t"});
    let mail = |text: &str| {
        let text = format!("<teammate-message teammate_id=\"bob\">\n{text}\n</teammate-message>");
        json!({"type": "user", "message": {"role": "user", "content": text}})
    };
    let idle = json!({"type": "idle_notification", "from": "bob", "summary": "done"});
    let approved = json!({"type": "shutdown_approved", "requestId": "r", "from": "bob"});
    let script = [
        result_of("c1", &spawned),
        mail("I found it."),
        mail(&idle.to_string()),
        mail(&approved.to_string()),
    ];
    let state = after(&lines(&script[..3]));
    assert_eq!(of(&state, "bob").status, Status::Idle);
    let state = after(&lines(&script));
    assert_eq!(of(&state, "bob").status, Status::Completed);
    let kinds: Vec<(&str, &str)> =
        mail_of(&state).map(|mail| (mail.kind.as_str(), mail.text.as_str())).collect();
    let expected =
        [("message", "I found it."), ("idle_notification", "done"), ("shutdown_approved", "")];
    assert_eq!(kinds, expected);
}

#[test]
fn dependencies_and_deletions_of_tasks_are_followed_from_the_calls() {
    let update = |n: &str, input: Value| {
        let call = block_of(&format!("m{n}"), &call_of(n, "TaskUpdate", &input), 1, None);
        [call, result_of(n, &json!({"success": true, "taskId": input["taskId"]}))]
    };
    let script = [
        update("1", json!({"taskId": "10", "subject": "Last", "addBlockedBy": ["2", "3"]})),
        update("2", json!({"taskId": "2", "addBlocks": ["3"], "status": "completed"})),
        update("3", json!({"taskId": "3", "owner": "team-lead", "status": "in_progress"})),
    ];
    let state = after(&lines(&script.concat()));
    let known = |task: &Task| {
        let ids =
            |ids: &[TaskId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        format!(
            "{} {} <{} >{}",
            task.id,
            task.status.as_str(),
            ids(&task.blocked_by),
            ids(&task.blocks)
        )
    };
    let tasks: Vec<String> = state.tasks.iter().map(known).collect();
    assert_eq!(tasks, ["2 completed < >10,3", "3 in_progress <2 >10", "10 pending <2,3 >"]);
    assert_eq!(of(&state, "team-lead").task.as_ref().unwrap().id.as_str(), "3");

    let deleted = update("4", json!({"taskId": "3", "status": "deleted"}));
    let state = after(&lines(&[&script.concat()[..], &deleted].concat()));
    let tasks: Vec<String> = state.tasks.iter().map(known).collect();
    assert_eq!(tasks, ["2 completed < >10", "10 pending <2 >"]);
    assert_eq!(of(&state, "team-lead").task, None);
    assert_eq!(state.tasks[0].status, TaskStatus::Completed);
}

#[test]
fn a_parameter_of_a_newer_client_does_not_hide_the_call() {
    let input =
        json!({"taskId": "1", "newer": {"a": [1]}, "owner": "bo\"b", "addBlocks": [7, "2"]});
    let script = [
        block_of("m1", &call_of("c1", "TaskUpdate", &input), 1, None),
        result_of("c1", &json!({"success": true, "taskId": "1"})),
    ];
    let state = after(&lines(&script));
    let [task, blocked] = state.tasks.as_slice() else { panic!("{:?}", state.tasks) };
    assert_eq!(task.owner.as_deref(), Some("bo\"b"));
    assert_eq!((blocked.id.as_str(), blocked.blocked_by[0].as_str()), ("2", "1"));
}

#[test]
fn a_request_in_the_dialect_with_to_is_followed() {
    let input = json!({"to": "bob", "message": {"type": "shutdown_request", "reason": "all done"}});
    let spawned = json!({"status": "teammate_spawned", "teammate_id": "bob@t", "team_name": "t"});
    let acknowledged = json!({"success": true, "request_id": "shutdown-1@bob", "target": "bob"});
    let script = [
        result_of("c0", &spawned),
        block_of("m1", &call_of("c1", "SendMessage", &input), 1, None),
        result_of("c1", &acknowledged),
    ];
    let state = after(&lines(&script));
    assert_eq!(of(&state, "bob").status, Status::ShutdownRequested);
    let last = mail_of(&state).next_back().map(|mail| (mail.kind.as_str(), mail.text.as_str()));
    assert_eq!(last, Some(("shutdown_request", "all done")));
}

#[test]
fn the_timeline_cannot_control_a_terminal() {
    let said = json!({"type": "text", "text": "a\u{1b}[2Jb\nc"});
    let state = after(&lines(&[block_of("m1", &said, 1, None)]));
    let entry = state.timeline.entries().next().unwrap();
    assert_eq!(entry.text(), "team-lead: a\u{fffd}[2Jb | c");
}

#[test]
fn fields_of_an_unexpected_type_do_not_make_a_line_unreadable() {
    let odd = [
        json!({"type": "system", "subtype": "init", "permissionMode": {}, "cwd": null}),
        json!({"type": "assistant", "message": {"content": 5, "usage": "much", "model": []}}),
        json!({"type": "assistant", "message": {"content": [7, "x", {"type": "tool_use", "id": 3}]}}),
        json!({"type": "user", "message": {"content": [{"type": "tool_result"}]}, "tool_use_result": [1]}),
        json!({"type": "result", "usage": [], "modelUsage": 1, "permission_denials": "none"}),
    ];
    let state = after(&lines(&odd));
    assert_eq!(of(&state, "team-lead").turns, 2);
    let (_, read) = read_bytes(b"{\"type\":\"assistant\",\"message\":\"x\"}\n{\"type\":7}\n\xff\n");
    assert_eq!((read.unknown, read.unreadable), (2, 1));
}

#[test]
fn refused_calls_of_the_client_are_denials() {
    let denied = json!([{"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {}}]);
    let end = json!({"type": "result", "subtype": "success", "permission_denials": denied});
    let state = after(&lines(&[end.clone(), end]));
    let denials: Vec<(&str, &str)> =
        state.denials.iter().map(|it| (it.tool.as_str(), it.call.as_str())).collect();
    assert_eq!(denials, [("Bash", "c1")]);
    assert_eq!(state.counts.permissions_refused, 1);
}

#[test]
fn a_stream_of_pitcrew_with_its_team_events_is_read_back() {
    let mut start = started();
    if let RunEvent::Started(it) = &mut start {
        it.agent = AgentName::lead();
    }
    let waits = RunEvent::ModelWaits {
        agent: name("bob"),
        reason: "slow down".to_owned(),
        delay: Duration::from_secs(30),
    };
    let script = [
        start,
        changes("team-lead", Status::Active, None),
        answers("team-lead", vec![call("c1", "Bash")], Some(0.25)),
        calls("team-lead", "Bash", json!({})),
        tool_ends("team-lead", "Bash", json!(null), false),
        joins("bob", None),
        changes("bob", Status::Active, None),
        answers("bob", Vec::new(), Some(0.5)),
        asks("bob", "p1", "Bash"),
        answered("bob", "p1", Some("nobody is there")),
        tool_ends("bob", "TaskCreate", json!({}), false),
        compacts("bob", 12_000),
        RunEvent::ModeChanged { agent: name("bob"), mode: PermissionMode::Default },
        waits,
    ];
    let mut stream = Stream::new(true, || "id".to_owned());
    let mut state = TeamState::default();
    let mut written = String::new();
    for event in &script {
        state = fold(state, &ViewEvent::Run(event));
        for line in stream.lines(&state, event) {
            written.push_str(&serde_json::to_string(&line).unwrap());
            written.push('\n');
        }
    }
    let read = after(&written);
    // A stream has no limits.
    state.agents.iter_mut().for_each(|agent| agent.max_turns = None);
    assert_eq!(read.agents, state.agents);
    assert_eq!((read.team, read.counts, read.denials), (state.team, state.counts, state.denials));
}

/// Returns an event of pitcrew about bob.
fn told_of_bob(event: &str, data: &Value) -> Value {
    json!({
        "type": "system", "subtype": "pitcrew_team_event", "event": event, "team_name": "work",
        "teammate_id": "bob@work", "data": data,
    })
}

#[test]
fn a_teammate_s_change_of_a_task_is_followed_from_the_events_of_pitcrew() {
    let create = json!({"subject": "Paint", "description": "Paint it."});
    let script = [
        told_of_bob("agent_started", &json!({"mode": "default", "model": "m"})),
        block_of("m1", &call_of("c1", "TaskCreate", &create), 1, None),
        result_of("c1", &json!({"task": {"id": "1", "subject": "Paint"}})),
        told_of_bob("task_changed", &json!({"task": "1", "change": "claimed"})),
        told_of_bob("task_changed", &json!({"task": "1", "change": "completed"})),
        told_of_bob("task_changed", &json!({"task": "2", "change": "completed"})),
    ];
    let status_after = |count: usize| {
        let state = after(&lines(&script[..count]));
        let tasks: Vec<_> =
            state.tasks.iter().map(|task| (task.status, task.owner.clone())).collect();
        tasks
    };
    assert_eq!(status_after(3), [(TaskStatus::Pending, None)]);
    assert_eq!(status_after(4), [(TaskStatus::InProgress, Some("bob".to_owned()))]);
    assert_eq!(status_after(6), [(TaskStatus::Completed, Some("bob".to_owned()))]);
}

#[test]
fn after_the_end_of_a_session_no_agent_works() {
    let script = [
        told_of_bob("agent_started", &json!({"mode": "default", "model": "m"})),
        told_of_bob("agent_changed", &json!({"status": "running"})),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"}),
    ];
    assert_eq!(of(&after(&lines(&script[..2])), "bob").status, Status::Active);
    assert_eq!(of(&after(&lines(&script)), "bob").status, Status::Idle);
}

#[test]
fn after_its_team_is_cleaned_up_the_lead_goes_on_and_no_team_is_made() {
    let of_lead = |event: &str| {
        let mut told = told_of_bob(event, &json!({"status": "running"}));
        told["teammate_id"] = json!("team-lead@work");
        told
    };
    let create = json!({"team_name": "work"});
    let made =
        json!({"team_name": "work", "team_file_path": "/t", "lead_agent_id": "team-lead@work"});
    let script = [
        block_of("m1", &call_of("c1", "TeamCreate", &create), 1, None),
        result_of("c1", &made),
        block_of("m2", &call_of("c2", "TeamDelete", &json!({})), 1, None),
        result_of("c2", &json!({"success": true, "team_name": "work"})),
        of_lead("turn_ended"),
        of_lead("agent_changed"),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"}),
        block_of("m3", &call_of("c3", "TeamCreate", &create), 1, None),
        result_of("c3", &made),
    ];
    let entries = |state: &TeamState| -> Vec<String> {
        state.timeline.entries().map(|entry| entry.text()).collect()
    };
    let ended = after(&lines(&script[..7]));
    let told = ["team work created", "team cleaned up", "session ended: success"];
    assert_eq!(entries(&ended), told);
    assert_eq!(of(&ended, "team-lead").status, Status::Completed);
    // Only another call makes a team of the same name.
    assert_eq!(entries(&after(&lines(&script)))[3], "team work created");
}

#[test]
fn the_number_of_agents_and_the_length_of_texts_are_bounded() {
    let spawn = |n: u32| {
        let id = format!("agent{n}@t");
        result_of("c", &json!({"status": "teammate_spawned", "teammate_id": id}))
    };
    let state = after(&lines(&(0..1_100).map(spawn).collect::<Vec<_>>()));
    assert_eq!(state.agents.len(), 1_000);
    assert_eq!(state.timeline.entries().len(), 1_101);

    let said = json!({"type": "text", "text": "ä".repeat(100_000)});
    let state = after(&lines(&[block_of("m1", &said, 1, None)]));
    assert_eq!(state.timeline.entries().next().unwrap().text().len(), "team-lead: ".len() + 16_383);
}
