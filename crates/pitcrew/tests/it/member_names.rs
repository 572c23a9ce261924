//! The form NAME@TEAM of a member's name, in every command and tool that accepts a member's name.
//! The team's own name may contain an `@` too.

use rustix::process::Signal;

use crate::running::Running;
use crate::terminal::{GOODBYE, Terminal, ended};
use crate::test_env::TestEnv;

/// The script of a lead whose teammate says hello, and shuts down when it is asked to.
fn hello(team: &str) -> String {
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, subagent_type: general-purpose, description: d, prompt: Say hello.}}}}]
    - wait_for: {{contains: hello from bob, from: message}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob@{team}}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: bob was there.
  bob:
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead@{team}, content: hello from bob, summary: s}}}}]{GOODBYE}
"
    )
}

#[test]
fn a_team_with_an_at_sign_in_its_name_has_teammates_in_panes() {
    let Some(terminal) = Terminal::new() else { return };
    let model = terminal.room.script(&hello("proj@2"));
    let args =
        ["run", "go", "--team", "proj@2", "--model", &model, "--teammate-mode", "tmux", "--yes"];
    let mut command = terminal.command(&args);
    let run = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let ran = ended(run.stderr(std::process::Stdio::piped()).spawn().unwrap());
    assert_eq!((ran.code, ran.stdout.trim()), (0, "bob was there."), "{ran:?}");
}

#[test]
fn an_agent_id_names_its_team_behind_the_first_at_sign() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "a@b"]);
    let model = room.script("agents: {x: [{text: hi}]}");
    let ran = room.run(&["agent", "--agent-id", "x@a@b", "--model", &model]);
    assert!(ran.stderr.contains("Agent 'x' is not in team 'a@b'"), "{ran:?}");
    room.ok(&["send", "team-lead@a@b", "hello"]);
    assert_eq!(room.json(&["inbox", "team-lead@a@b"])["total"], 1);
}

#[test]
fn every_command_takes_a_members_name_with_its_teams_and_finds_the_team_by_it() {
    let room = TestEnv::with_crew();
    // A second team exists too, so that no command can find the team by guessing.
    room.ok(&["team", "create", "another"]);
    room.ok(&["task", "create", "Fix it", "--team", "crew"]);
    room.ok(&["task", "create", "Test it", "--team", "crew"]);
    room.ok(&["send", "bob@crew", "hello"]);
    assert_eq!(room.json(&["inbox", "Bob@Crew"])["agent"], "bob");
    assert_eq!(room.json(&["inbox", "@bob", "--team", "crew"])["total"], 1);
    assert_eq!(room.json(&["member", "mode", "bob@crew", "plan"])["name"], "bob");
    room.ok(&["task", "update", "1", "--owner", "bob@crew"]);
    assert_eq!(room.json(&["task", "claim", "2", "--as", "ann@crew"])["owner"], "ann");
    assert_eq!(room.json(&["task", "list", "--owner", "bob@crew"])["total"], 1);
    for command in ["hide", "show"] {
        let ran = room.run(&["member", command, "bob@crew"]);
        assert!(ran.stderr.contains("bob is not in a pane of pitcrew"), "{ran:?}");
    }
    room.ok(&["shutdown", "--member", "ann@crew"]);
    let removed = room.json(&["member", "remove", "bob@crew", "--force"]);
    assert_eq!(removed["message"], "bob is no longer a member of crew");
    assert_eq!(room.json(&["inbox", "bob@crew"])["agent"], "bob", "also of one who has left");
    let config = room.json_file("teams/crew/config.json");
    assert_eq!(config["members"].as_array().unwrap().len(), 2, "{config}");
}

#[test]
fn a_members_name_with_another_teams_is_nobodys_here() {
    let room = TestEnv::with_crew();
    room.ok(&["team", "create", "another"]);
    for args in [
        &["send", "bob@another", "hi", "--team", "crew"][..],
        &["inbox", "bob@another", "--team", "crew"],
        &["member", "mode", "bob@another", "plan", "--team", "crew"],
        &["member", "remove", "bob@another", "--team", "crew", "--force"],
        &["send", "bob@another", "hi"],
        &["send", "bob@nowhere", "hi"],
    ] {
        assert_eq!(room.run(args).code, 3, "{args:?}");
    }
    let refused = room.run(&["send", "bob@nowhere", "hi"]);
    assert!(refused.stderr.contains("Team 'nowhere' does not exist"), "{refused:?}");
}

const ASKING: &str = "
agents:
  team-lead:
    - tools: [{name: TeamCreate, input: {team_name: asked}}]
    - tools:
        - {name: Task, input: {name: bob, subagent_type: general-purpose, description: d, prompt: Wait.}}
        - {name: Task, input: {name: eve, subagent_type: general-purpose, description: d, prompt: Wait.}}
        - {name: TaskCreate, input: {subject: s, description: d}}
        - {name: SendMessage, input: {type: message, recipient: bob@asked, content: x, summary: s}}
        - {name: TaskUpdate, input: {taskId: '1', owner: Bob@Asked}}
        - {name: TaskStop, input: {task_id: eve@another}}
        - {name: TaskStop, input: {task_id: eve@asked}}
    - wait_for: {contains: teammate_terminated, from: message}
      text: eve is stopped
    - text: still waiting
  bob:
    - {repeat: {at_most: 100000, turns: [{delay_ms: 200, tools: [{name: TaskList}]}]}}
  eve:
    - {repeat: {at_most: 100000, turns: [{delay_ms: 200, tools: [{name: TaskList}]}]}}
";

#[test]
fn a_members_name_with_the_name_that_the_lead_asked_for_is_its_own_in_tools_and_commands() {
    let room = TestEnv::new();
    let model = room.script(ASKING);
    let mut run = Running::start(&room, &["run", "go", "--team", "work", "--model", &model]);
    run.until("no teammate is called eve@another");
    run.until("eve was stopped");
    let sent = room.json(&["send", "bob@asked", "hello"]);
    assert_eq!(sent["recipients"], serde_json::json!(["bob"]));
    assert_eq!(room.json(&["member", "mode", "bob@asked", "plan"])["name"], "bob");
    assert_eq!(room.json(&["task", "get", "1", "--team", "asked"])["owner"], "bob");
    assert_eq!(room.json(&["inbox", "bob@asked"])["agent"], "bob");
    run.signal(Signal::INT);
    run.ended();
}
