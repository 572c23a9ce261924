//! A lead calls TeamCreate although the run has already created the team. The team takes the
//! description and the agent type from the call. The name in the call becomes a second name of the
//! team.

use std::path::Path;

use rustix::process::Signal;

use crate::running::Running;
use crate::test_env::TestEnv;

#[test]
fn the_example_of_the_page_on_scripts_runs() {
    let room = TestEnv::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scripts.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let model = room.script(example);
        let ran = room.ok(&["run", "Say hello", "--model", &model, "--allow", "Bash"]);
        assert_eq!(ran.stdout, "hello.txt is written.\n", "{ran:?}");
        assert_eq!(std::fs::read_to_string(room.work().join("hello.txt")).unwrap(), "hello\n");
        assert!(!ran.stderr.contains("failed"), "{ran:?}");
    }
}

const ASKING: &str = "
agents:
  team-lead:
    - tools: [{name: TeamCreate, input: {team_name: greeting, description: Say hello, agent_type: captain}}]
    - tools:
        - name: Task
          input: {name: bob, team_name: Greeting, subagent_type: general-purpose, description: d, prompt: Wait.}
    - tools:
        - name: Task
          input: {name: eve, team_name: another, subagent_type: general-purpose, description: d, prompt: Wait.}
    - text: waiting
    - text: still waiting
  bob:
    - {repeat: {at_most: 100000, turns: [{delay_ms: 200, tools: [{name: TaskList}]}]}}
";

#[test]
fn the_name_that_a_lead_asks_for_is_the_teams_in_every_tool_and_command() {
    let room = TestEnv::new();
    let model = room.script(ASKING);
    let mut run = Running::start(&room, &["run", "go", "--team", "work", "--model", &model]);
    run.until("You lead the team \"work\", not \"another\"");
    let config = room.json_file("teams/work/config.json");
    assert_eq!(
        (config["name"].as_str(), config["description"].as_str()),
        (Some("work"), Some("Say hello"))
    );
    assert_eq!(config["members"][0]["agentType"], "captain");
    let names: Vec<_> =
        config["members"].as_array().unwrap().iter().map(|member| &member["name"]).collect();
    assert_eq!(names, ["team-lead", "bob"], "a spawn into another team is refused");
    for name in ["greeting", "Greeting", "work"] {
        assert_eq!(room.json(&["team", "show", name])["team"]["name"], "work", "{name}");
    }
    room.ok(&["send", "bob", "hello", "--team", "greeting"]);
    room.ok(&["task", "create", "one", "--team", "greeting"]);
    assert!(room.root().join("tasks/work/1.json").exists());
    let missing = room.run(&["team", "show", "another"]);
    assert_eq!(missing.code, 3, "{missing:?}");
    run.signal(Signal::INT);
    run.ended();
    let ran = room.run(&["team", "show", "greeting"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_team_of_that_very_name_goes_before_one_whose_lead_asked_for_it_also_in_the_archive() {
    let room = TestEnv::new();
    let done = room.script("agents: {team-lead: [{text: done}]}");
    room.ok(&["run", "go", "--team", "greeting", "--model", &done]);
    let asking = room.root().join("asking.yaml");
    let script = "agents: {team-lead: [{tools: [{name: TeamCreate, input: {team_name: greeting}}, \
                  {name: TaskCreate, input: {subject: s, description: d}}]}, {text: a}, {text: b}]}";
    std::fs::write(&asking, script).unwrap();
    let ran = room.run(&[
        "run",
        "go",
        "--team",
        "other",
        "--model",
        &format!("script:{}", asking.display()),
    ]);
    assert_eq!(ran.code, 8, "{ran:?}");
    let shown = room.ok(&["team", "show", "greeting"]);
    assert!(shown.stdout.contains("greeting") && !shown.stdout.contains("other"), "{shown:?}");
    let refused = room.run(&["team", "delete", "greeting", "--force"]);
    assert!(room.root().join("teams/other/config.json").exists(), "{refused:?}");
}

/// Runs a lead that asks for the team name `greeting` and then ends. `team` is the name that the
/// run gives to the team.
fn asks_and_is_done(room: &TestEnv, team: &str) {
    let model = room.script(
        "agents: {team-lead: [{tools: [{name: TeamCreate, input: {team_name: greeting}}]}, {text: a}, {text: b}]}",
    );
    room.ok(&["run", "go", "--team", team, "--model", &model]);
}

#[test]
fn the_name_that_a_lead_asked_for_finds_its_team_in_the_archive() {
    let room = TestEnv::new();
    asks_and_is_done(&room, "work");
    assert!(!room.root().join("teams/work").exists());
    let shown = room.ok(&["team", "show", "Greeting"]);
    assert!(shown.stdout.contains("work"), "{shown:?}");
    let model = room.script("agents: {team-lead: [{text: a}, {text: b}, {text: once more}]}");
    let ran = room.ok(&["run", "--resume", "greeting", "go on", "--model", &model]);
    assert!(ran.stderr.contains("work"), "{ran:?}");
}

#[test]
fn a_name_that_the_leads_of_two_teams_asked_for_is_refused_with_both() {
    let room = TestEnv::new();
    asks_and_is_done(&room, "one");
    asks_and_is_done(&room, "two");
    let check = |args: &[&str]| {
        let ran = room.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("one, two"), "{args:?}: {ran:?}");
    };
    check(&["team", "show", "greeting"]);
    check(&["run", "--resume", "greeting", "go"]);
    for team in ["one", "two"] {
        room.bring_back(team);
    }
    check(&["team", "show", "greeting"]);
    check(&["task", "list", "--team", "greeting"]);
}
