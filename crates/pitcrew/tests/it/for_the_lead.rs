//! The user acts for the lead from another terminal: the user answers plans, spawns teammates and
//! asks teammates to shut down.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::patience::until;
use crate::running::Running;
use crate::terminal::GOODBYE;
use crate::test_env::TestEnv;

/// The script of a lead and its teammate bob. Bob's first plan must be rejected, and bob's second
/// plan must be approved. The lead does not answer the plans, but waits until the user has answered
/// both.
pub(crate) fn planners() -> String {
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, subagent_type: general-purpose, description: p, prompt: Plan it., mode: plan}}}}]
    - repeat:
        at_most: 100000
        until:
          all:
            - {{contains: 'The user has rejected the plan of bob', from: message}}
            - {{contains: 'The user has approved the plan of bob', from: message}}
            - {{contains: 'it is carried out', from: message}}
        turns: [{{delay_ms: 100, tools: [{{name: TaskList}}]}}]
    - text: Both answers were the user's.
  bob:
    - tools: [{{name: ExitPlanMode, input: {{plan: 1. Rename it.}}}}]
    - wait_for: {{contains: '\"approved\":false', from: message}}
    - tools: [{{name: ExitPlanMode, input: {{plan: 1. Leave the name.}}}}]
    - wait_for: {{contains: '\"approved\":true', from: message}}
    - tools: [{{name: Bash, input: {{command: touch carried-out}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: it is carried out, summary: done}}}}]
    - text: I am done.{GOODBYE}
"
    )
}

/// Waits for a plan that needs an answer, and returns it.
fn waiting(room: &TestEnv) -> Value {
    let open = || {
        let listed = room.json(&["plan", "list"]);
        (listed["total"] == 1).then(|| listed["plans"][0].clone())
    };
    until("a plan waits", open, || room.json(&["plan", "list", "--all"]).to_string())
}

#[test]
fn a_teammates_plan_is_listed_shown_rejected_and_approved_from_another_terminal() {
    let room = TestEnv::new();
    let model = room.script(&planners());
    let run = Running::start(
        &room,
        &[
            "run",
            "go",
            "--team",
            "work",
            "--model",
            &model,
            "--permission-mode",
            "bypassPermissions",
        ],
    );
    let first = waiting(&room);
    let expected = json!({"member": "bob", "state": "open", "plan": "1. Rename it."});
    assert_eq!(
        json!({"member": first["member"], "state": first["state"], "plan": first["plan"]}),
        expected
    );
    let id = first["request_id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("plan_approval-") && id.ends_with("@bob@work"), "{id}");
    assert!(room.ok(&["plan", "show", &id]).stdout.ends_with("\n1. Rename it.\n"));
    let unknown = room.run(&["plan", "approve", "zoe"]);
    assert!(
        unknown.code == 3 && unknown.stderr.contains(&format!("these wait: bob ({id})")),
        "{unknown:?}"
    );
    let rejected = room.json(&["plan", "reject", "bob", "--feedback", "leave the name"]);
    assert_eq!(
        (&rejected["success"], &rejected["request_id"]),
        (&json!(true), &json!(id)),
        "{rejected}"
    );

    let second = waiting(&room);
    assert_eq!(second["plan"], "1. Leave the name.");
    let spent = room.run(&["plan", "approve", &id]);
    assert!(spent.code == 4 && spent.stderr.contains("is rejected already"), "{spent:?}");
    assert!(room.ok(&["plan", "approve", "BOB"]).stdout.contains("the plan of bob is approved"));
    let (code, log) = run.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(room.work().join("carried-out").exists(), "{log}");
}

#[test]
fn a_plan_whose_lead_does_not_run_is_shown_and_waits_for_it() {
    let room = TestEnv::new();
    let model = room.script(&planners());
    let run = Running::start(&room, &["run", "go", "--team", "work", "--model", &model, "--yes"]);
    waiting(&room);
    run.kill();
    assert!(room.ok(&["plan", "show", "bob"]).stdout.contains("1. Rename it."));
    let refused = room.run(&["plan", "approve", "bob"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(
        refused.stderr.contains("only the lead may answer plans")
            && refused.stderr.contains("run --resume work")
    );
}

#[test]
fn the_plans_of_a_team_that_another_client_leads_are_told_by_its_mail() {
    let room = TestEnv::new();
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/claude-2.1.39/plan-approval");
    crate::test_env::copy(&fixture, &room.root());
    let listed = room.json(&["plan", "list", "--all", "--team", "probe"]);
    let states: Vec<&str> = listed["plans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| plan["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["approved", "open"], "{listed:#}");
    let refused = room.run(&["plan", "approve", "planner", "--team", "probe"]);
    assert_eq!(refused.code, 5, "{refused:?}");
}

/// The script of a lead that waits for a message from carl. The user spawns carl, not the lead.
fn waits_for_carl() -> String {
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, subagent_type: general-purpose, description: w, prompt: Wait.}}}}]
    - repeat:
        at_most: 100000
        until:
          all:
            - {{contains: 'The user has added the teammate carl to the team: Count the lines', from: message}}
            - {{contains: 'there are seven', from: message}}
        turns: [{{delay_ms: 100, tools: [{{name: TaskList}}]}}]
    - text: Seven lines.
  bob:
    - text: I wait.{GOODBYE}
  carl:
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: there are seven, summary: seven}}}}]
    - text: I wait too.{GOODBYE}
"
    )
}

#[test]
fn a_teammate_is_spawned_from_another_terminal_and_its_lead_learns_of_it() {
    let room = TestEnv::new();
    let model = room.script(&waits_for_carl());
    let mut run =
        Running::start(&room, &["run", "go", "--team", "work", "--model", &model, "--yes"]);
    run.until("bob is idle");
    for (args, code, says) in [
        (&["carl", "x", "--type", "Juggler"][..], 2, "Juggler"),
        (
            &["carl", "x", "--mode", "yolo"],
            2,
            "There is no permission mode \"yolo\"; there are: default,",
        ),
        (
            &["carl", "x", "--mode", "bypassPermissions"],
            2,
            "Only the user can let an agent bypass permissions",
        ),
        (&["carl", "x", "--backend", "tmux"], 2, "There is no backend"),
        (&["system", "x"], 2, "system"),
    ] {
        let refused = room.run(&[&["member", "spawn"], args].concat());
        assert!(refused.code == code && refused.stderr.contains(says), "{args:?}: {refused:?}");
    }
    let spawned = room.json(&["member", "spawn", "carl", "Count the lines.", "--type", "Explore"]);
    let expected = json!({
        "agent_id": "carl@work", "name": "carl", "team_name": "work", "agentType": "Explore", "status": "spawned",
    });
    assert_eq!(spawned, expected);
    let logged = room.run(&["log", "work"]).stdout;
    let of_carl = logged.lines().find(|line| line.contains("spawns carl")).unwrap();
    assert!(of_carl.contains("user"), "the user is the spawner: {of_carl}");
    let (code, log) = run.ended();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn nobody_is_spawned_into_a_team_that_no_process_of_ours_leads() {
    let room = TestEnv::with_crew();
    let refused = room.run(&["member", "spawn", "carl", "Wait."]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("run --resume crew"), "{refused:?}");
    assert_eq!(room.json(&["member", "list"])["total"], 3);
}

#[test]
fn a_member_that_is_asked_to_shut_down_reads_why() {
    let room = TestEnv::new();
    let model = room.script(&waits_for_carl());
    let mut run =
        Running::start(&room, &["run", "go", "--team", "work", "--model", &model, "--yes"]);
    run.until("bob is idle");
    room.ok(&["shutdown", "--member", "bob", "--reason", "the parser is done"]);
    let asked = || {
        let mail = room.json(&["inbox", "bob", "--all"])["messages"].to_string();
        mail.contains("the parser is done").then_some(())
    };
    until("bob is told why", asked, || room.run(&["inbox", "bob", "--all"]).stdout);
    assert_eq!(room.run(&["shutdown", "--reason", "because"]).code, 2);
    run.signal(Signal::INT);
    run.ended();
}

#[test]
fn tasks_are_listed_by_what_their_metadata_says() {
    let room = TestEnv::with_crew();
    for (subject, metadata) in [
        ("one", &["priority=high", "component=auth"][..]),
        ("two", &["priority=high", "tries=2"]),
        ("three", &["tries=\"2\""]),
        ("four", &[]),
    ] {
        let given = metadata.iter().flat_map(|entry| ["--metadata", entry]);
        let args: Vec<&str> =
            ["task", "create", subject, "all of it"].into_iter().chain(given).collect();
        room.ok(&args);
    }
    let subjects = |wanted: &[&str]| -> Vec<String> {
        let given = wanted.iter().flat_map(|entry| ["--metadata", entry]);
        let listed = room.json(&["task", "list"].into_iter().chain(given).collect::<Vec<_>>());
        let rows = listed["tasks"].as_array().unwrap();
        assert_eq!(listed["total"], rows.len());
        rows.iter().map(|row| row["subject"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(subjects(&["priority=high"]), ["one", "two"]);
    assert_eq!(subjects(&["priority=high", "component=auth"]), ["one"]);
    assert_eq!(subjects(&["tries=2"]), ["two", "three"]);
    assert_eq!(subjects(&["pitcrew=1"]), Vec::<String>::new());
    assert_eq!(room.run(&["task", "list", "--metadata", "priority"]).code, 2);
}
