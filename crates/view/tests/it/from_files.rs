//! Tests the state of a team that is computed without run events: from the team's files and from
//! the end of a run.

use std::time::Duration;

use pitcrew_agent::Role;
use pitcrew_protocol::{Color, Status, Task, TeamConfig};
use pitcrew_runtime::run::{AgentSummary, ModelTotal, OpenWork, RunEnd, RunOutcome, Totals};
use pitcrew_view::outcome::document;
use pitcrew_view::{TeamState, ViewEvent, fold};
use serde_json::{Value, json};

use crate::script::*;

fn config(members: &Value) -> TeamConfig {
    let config = json!({"name": "demo", "createdAt": 1, "leadAgentId": "team-lead@demo", "members": members});
    serde_json::from_value(config).unwrap()
}

fn member(name: &str, more: &Value) -> Value {
    let mut member = json!({"agentId": format!("{name}@demo"), "name": name, "joinedAt": 1, "cwd": "/", "subscriptions": []});
    member.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    member
}

fn task(id: &str, owner: &str, status: &str) -> Task {
    let task = json!({"id": id, "subject": format!("Task {id}"), "description": "", "status": status, "owner": owner,
        "blocks": [], "blockedBy": []});
    serde_json::from_value(task).unwrap()
}

fn summary(name_of: &str, role: Role, turns: u32) -> AgentSummary {
    AgentSummary {
        name: name(name_of),
        role,
        agent_type: None,
        model: "m".to_owned(),
        state: Status::Completed,
        reason: None,
        turns,
        tool_calls: 5,
        usage: usage(4_000, 400),
        cost_usd: 1.5,
        is_counted: true,
    }
}

fn outcome(agents: Vec<AgentSummary>, is_unpriced: bool) -> RunOutcome {
    let total = ModelTotal { is_unpriced, ..ModelTotal::default() };
    RunOutcome {
        team: "demo".to_owned(),
        end: RunEnd::ShutDown,
        agents,
        totals: Totals {
            ran: Duration::ZERO,
            models: [("m".to_owned(), total)].into(),
            ..Totals::default()
        },
        tasks: Vec::new(),
        open: OpenWork::default(),
        kept: Vec::new(),
        team_deleted: false,
    }
}

#[test]
fn the_mode_of_a_client_is_the_one_it_was_started_in_until_another_is_on_record() {
    for (more, mode) in [
        (json!({"pitcrew": {"program": "claude"}}), Some("default")),
        (json!({"pitcrew": {"program": "claude", "mode": "acceptEdits"}}), Some("acceptEdits")),
        (
            json!({"pitcrew": {"program": "claude", "mode": "acceptEdits"}, "planModeRequired": true}),
            Some("plan"),
        ),
        (
            json!({"pitcrew": {"program": "claude", "mode": "acceptEdits"}, "mode": "default"}),
            Some("default"),
        ),
        (json!({}), None),
        (json!({"mode": ""}), None),
        (json!({"mode": "free\n  ann  plan\u{1b}[2J"}), Some("unknown: free")),
        (json!({"mode": "\u{1b}[2Jplan"}), Some("unknown: \u{fffd}[2Jplan")),
    ] {
        let config = config(&json!([member("bob", &more)]));
        let state = fold(TeamState::default(), &ViewEvent::Config(&config));
        assert_eq!(state.agents[0].mode.as_deref(), mode, "{more}");
    }
}

#[test]
fn a_config_adds_to_what_the_run_told_and_takes_nothing_away() {
    let state = after(&[
        started(),
        joins("gone", None),
        joins("bob", None),
        answers("bob", Vec::new(), Some(0.25)),
    ]);
    let config = config(&json!([
        member("cat", &json!({"color": "red", "backendType": "tmux"})),
        member("bob", &json!({"worktreePath": "/trees/bob", "pitcrew": {"maxTurns": 9}})),
    ]));
    let state = fold(state, &ViewEvent::Config(&config));
    let names: Vec<String> = state.agents.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(names, ["cat", "bob", "ann", "gone"]);
    let (cat, bob) = (&state.agents[0], &state.agents[1]);
    assert_eq!((cat.color, cat.backend_type.as_deref()), (Some(Color::Red), Some("tmux")));
    assert_eq!((bob.turns, bob.worktree.as_deref()), (1, Some("/trees/bob")));
    assert_eq!((cat.max_turns, bob.max_turns), (Some(40), Some(9)));
    let restarted = fold(state, &ViewEvent::Run(&joins("bob", None)));
    assert_eq!(restarted.agent(&name("bob")).unwrap().max_turns, Some(9));
}

#[test]
fn an_agent_works_on_the_task_in_progress_that_it_owns() {
    let state = after(&[joins("bob", None), joins("cat", None)]);
    let tasks = [
        task("1", "bob", "completed"),
        task("2", "bob", "in_progress"),
        task("3", "cat", "pending"),
    ];
    let state = fold(state, &ViewEvent::Tasks(&tasks));
    let current = |state: &TeamState| {
        let of = |it: &pitcrew_view::AgentState| it.task.as_ref().map(|it| it.id.to_string());
        state.agents.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(current(&state), [Some("2".to_owned()), None]);
    let restarted = fold(state, &ViewEvent::Run(&joins("bob", None)));
    assert_eq!(current(&restarted), [None, Some("2".to_owned())], "a start leaves the tasks");
    assert_eq!(current(&fold(restarted, &ViewEvent::Tasks(&[]))), [None, None]);
}

#[test]
fn an_end_says_what_each_agent_did_in_all_runs() {
    let state = after(&[joins("bob", None), answers("bob", Vec::new(), Some(0.25))]);
    let agents = vec![summary("ann", Role::Lead, 7), summary("bob", Role::Teammate, 9)];
    let state = fold(state, &ViewEvent::Ended(&outcome(agents, true)));
    let told = state.agents.iter().map(|it| (it.name.as_str(), it.turns, it.has_price, it.color));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [("ann", 7, false, None), ("bob", 9, false, Some(Color::Blue))]
    );
}

#[test]
fn the_document_of_an_end_has_members_and_subagents_with_their_counts() {
    let mut client = summary("bob", Role::Teammate, 0);
    client.is_counted = false;
    let agents = vec![summary("ann", Role::Lead, 7), client, summary("cat", Role::Subagent, 1)];
    let document = document(&outcome(agents, false), None);
    let row = |list: &str, at: usize| {
        let agent = &document[list][at];
        (agent["name"].clone(), agent["state"].clone(), agent["turns"].clone())
    };
    assert_eq!(row("members", 0), (json!("ann"), json!("completed"), json!(7)));
    assert_eq!(row("members", 1), (json!("bob"), json!("shut_down"), Value::Null));
    assert_eq!(row("subagents", 0), (json!("cat"), json!("completed"), json!(1)));
    assert_eq!(document["end"], "shut_down");
}
