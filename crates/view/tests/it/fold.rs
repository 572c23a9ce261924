//! Tests the state of a team that is computed from the events of a run.

use pitcrew_agent::Role;
use pitcrew_protocol::{Status, TaskId};
use pitcrew_runtime::events::RunEvent;
use pitcrew_view::Counts;
use pitcrew_view::state::Denial;
use serde_json::json;

use crate::script::*;

fn check_line(script: &[RunEvent], line: &str) {
    assert_eq!(agent_after("bob", script).line(), line, "{script:?}");
}

fn turn_ended(tool_calls: u32) -> RunEvent {
    RunEvent::TurnEnded { agent: name("bob"), spending: spending(tool_calls, Some(0.25)) }
}

#[test]
fn the_agents_of_a_run_are_known_from_their_starts() {
    let state = after(&[started(), joins("bob", None), joins("cat", Some("c1"))]);
    assert_eq!((state.team.as_str(), state.session_id.as_str()), ("demo", "session"));
    assert_eq!(state.lead, Some(name("ann")));
    let known = state.agents.iter().map(|it| (it.name.as_str(), it.role, it.mode.as_deref()));
    assert_eq!(
        known.collect::<Vec<_>>(),
        [
            ("ann", None, Some("default")),
            ("bob", Some(Role::Teammate), Some("plan")),
            ("cat", Some(Role::Subagent), Some("plan")),
        ]
    );
}

#[test]
fn the_limits_of_a_run_are_known_from_its_start() {
    let state = after(&[started()]);
    assert_eq!((state.limits.max_turns, state.limits.max_cost_usd), (Some(40), Some(5.0)));
    assert_eq!(state.spent_before_usd.to_bits(), 1.5_f64.to_bits());
    let shown = serde_json::to_value(&state).unwrap();
    assert_eq!(shown["limits"], json!({"max_turns": 40, "max_cost_usd": 5.0}));
    assert_eq!(shown["agents"][0]["max_turns"], 40);
}

#[test]
fn an_agents_line_says_what_it_does_now() {
    let mut script = vec![joins("bob", None)];
    check_line(&script, "pending");
    script.push(changes("bob", Status::Active, None));
    check_line(&script, "thinks");
    script.push(RunEvent::TextDelta { agent: name("bob"), text: "Hm".to_owned() });
    check_line(&script, "writes");
    script.push(calls("bob", "Bash", json!({"command": "cargo test --offline\nls"})));
    check_line(&script, "Bash(cargo test --offline)");
    script.push(tool_ends("bob", "Bash", json!(null), false));
    check_line(&script, "thinks");
    script.push(changes("bob", Status::AwaitingPlanApproval, None));
    check_line(&script, "awaiting plan approval");
    script.push(changes("bob", Status::Completed, None));
    check_line(&script, "ended");
}

#[test]
fn an_agent_elsewhere_with_an_open_question_asks_whenever_it_is_seen_in_its_turn() {
    let mut script = vec![
        joins("bob", None),
        asks("bob", "1", "Bash"),
        asks("bob", "2", "Write"),
        changes("bob", Status::Active, None),
    ];
    check_line(&script, "asks permission for Bash");
    script.push(answered("bob", "1", None));
    check_line(&script, "asks permission for Write");
    script.push(answered("bob", "2", None));
    check_line(&script, "thinks");
    script.extend([asks("bob", "3", "Bash"), changes("bob", Status::Killed, None)]);
    check_line(&script, "stopped");
}

#[test]
fn an_agent_that_waits_for_its_model_says_so() {
    let waits = "waits 30 s for the model: slow down";
    check_line(&[joins("bob", None), changes("bob", Status::Active, Some(waits))], waits);
}

#[test]
fn turns_tool_calls_tokens_and_cost_add_up_wherever_the_agent_lives() {
    let blocks = || vec![call("1", "Bash"), call("2", "Read")];
    let here = agent_after(
        "bob",
        &[
            joins("bob", None),
            answers("bob", blocks(), Some(0.25)),
            answers("bob", Vec::new(), Some(0.25)),
        ],
    );
    let there = agent_after("bob", &[joins("bob", None), turn_ended(2), turn_ended(0)]);
    assert_eq!((here.turns, here.tool_calls, here.usage), (2, 2, usage(2_000, 200)));
    assert_eq!(here.line(), "pending                         2.2k tokens  $0.50");
    assert_eq!(here, there);
}

#[test]
fn a_compaction_is_a_model_call_that_is_paid_for() {
    let script = [joins("bob", None), compacts("bob", 12_000), compacts("bob", 170_000)];
    assert_eq!(agent_after("bob", &script).turns, 2);
    check_line(&script, "pending                         344.0k tokens  $0.50");
}

#[test]
fn a_cost_that_is_not_whole_is_not_shown() {
    let priced = || answers("bob", Vec::new(), Some(0.25));
    let script = [joins("bob", None), priced(), answers("bob", Vec::new(), None), priced()];
    check_line(&script, "pending                         3.3k tokens");
}

#[test]
fn an_agent_that_is_started_again_is_counted_anew() {
    let script = [
        joins("bob", None),
        joins("cat", None),
        answers("bob", Vec::new(), None),
        joins("bob", None),
    ];
    assert_eq!(agent_after("bob", &script).turns, 0);
    let names: Vec<String> = after(&script).agents.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(names, ["cat", "bob"]);
}

#[test]
fn an_agent_that_never_started_is_not_made_up() {
    let state = after(&[changes("bob", Status::Active, None), answers("bob", Vec::new(), None)]);
    assert_eq!(state.agents, []);
}

#[test]
fn tasks_mail_and_plans_are_counted_wherever_the_agent_lives() {
    let completes = json!({"statusChange": {"from": "in_progress", "to": "completed"}});
    let starts = json!({"statusChange": {"from": "pending", "to": "in_progress"}});
    let task = |change: &str| RunEvent::TaskChanged {
        agent: name("bob"),
        task: TaskId::from_number(1),
        change: change.to_owned().into(),
    };
    let mail = RunEvent::MailDelivered {
        agent: name("bob"),
        from: vec!["ann".to_owned()],
        ids: vec![
            serde_json::from_value(json!("1")).unwrap(),
            serde_json::from_value(json!("2")).unwrap(),
        ],
    };
    let state = after(&[
        started(),
        tool_ends("ann", "TaskCreate", json!({}), false),
        tool_ends("ann", "TaskCreate", json!({}), true),
        tool_ends("ann", "TaskUpdate", starts, false),
        tool_ends("ann", "TaskUpdate", completes, false),
        tool_ends("ann", "ExitPlanMode", json!({}), false),
        task("created"),
        task("claimed"),
        task("completed"),
        RunEvent::PlanHandedIn { agent: name("bob") },
        mail,
    ]);
    let counts =
        Counts { tasks_made: 2, tasks_completed: 2, messages: 2, plans: 2, ..Counts::default() };
    assert_eq!(state.counts, counts);
}

#[test]
fn a_refused_permission_is_counted_once_with_its_reason() {
    let state = after(&[
        started(),
        asks("ann", "1", "Bash"),
        answered("ann", "1", Some("nobody is there")),
        answered("ann", "1", Some("nobody is there")),
        asks("ann", "2", "Write"),
        answered("ann", "2", None),
    ]);
    assert_eq!((state.counts.permissions_asked, state.counts.permissions_refused), (2, 1));
    let denial = Denial {
        tool: "Bash".to_owned(),
        call: "1".to_owned(),
        reason: "nobody is there".to_owned(),
        allow_rule: Some("Bash(make:*)".to_owned()),
    };
    assert_eq!(state.denials, [denial]);
    assert!(state.would_allow.iter().eq(["Bash(make:*)"]));
}
