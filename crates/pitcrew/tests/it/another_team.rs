//! A lead that deletes its team and creates another team. The teammates run in the lead's process
//! or in panes. The tests include crashes and other teams in the same root.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::patience;
use crate::running::Running;
use crate::terminal::{GOODBYE, Terminal, ended};
use crate::test_env::{Ran, TestEnv, journal_in};

/// The lead's script for the team with number `nth`: one teammate, one task, a message in each
/// direction, and a shutdown.
fn team(nth: u32) -> String {
    format!(
        "
    - tools: [{{name: TeamCreate, input: {{team_name: team-{nth}, description: Number {nth}}}}}]
    - tools: [{{name: TaskCreate, input: {{subject: Task of team {nth}, description: d}}}}]
    - tools: [{{name: Task, input: {{name: w, team_name: team-{nth}, description: d, prompt: Work in team {nth}.}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: w, content: go on please, summary: go}}}}]
    - wait_for: {{contains: my part is done, from: message, times: {nth}}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: w}}}}]
    - wait_for: {{contains: teammate_terminated, from: message, times: {nth}}}"
    )
}

/// The script of a lead that has two teams, one after the other. `between` contains the script
/// steps between the two teams. Each team has a teammate `w`.
fn two_teams(between: &str) -> String {
    format!(
        "
agents:
  team-lead:{first}
    - tools: [{{name: TeamDelete}}]{between}{second}
    - text: Both are done.
  w:
    - wait_for: {{contains: go on please, from: message}}
    - tools: [{{name: TaskUpdate, input: {{taskId: '1', status: in_progress}}}}]
    - choose:
        - when: {{contains: Work in team 2, from: message}}
          turns:
            - tools: [{{name: Bash, input: {{command: \"touch waiting; for i in $(seq 3600); do test -e word && break; sleep 0.05; done\"}}}}]
        - turns:
            - text: In the first team there is nothing to wait for.
              tools: [{{name: TaskList}}]
    - tools: [{{name: TaskUpdate, input: {{taskId: '1', status: completed}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: my part is done, summary: done}}}}]{GOODBYE}",
        first = team(1),
        second = team(2),
    )
}

fn say_the_word(room: &TestEnv) {
    fs::write(room.work().join("word"), "").unwrap();
}

fn run(room: &TestEnv, script: &str) -> Ran {
    let model = room.script(script);
    let words = ["run", "go", "--team", "work", "--model", &model, "--allow", "Bash", "--json"];
    Ran::of(room.command(&words).env("DEPLOY_KEY", "aB3dE5fG7h").output().unwrap())
}

/// The folders of all archived teams, the oldest first.
fn archives(room: &TestEnv) -> Vec<PathBuf> {
    let archives =
        fs::read_dir(room.root().join("pitcrew/archive")).into_iter().flatten().flatten();
    let born = |archive: &PathBuf| json_in(archive, "team/config.json")["createdAt"].as_i64();
    let mut archives: Vec<PathBuf> = archives.map(|entry| entry.path()).collect();
    archives.sort_by_key(born);
    archives
}

fn json_in(archive: &std::path::Path, path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(archive.join(path)).unwrap()).unwrap()
}

/// Checks that the step numbers in the lead's transcript are in order and without gaps.
#[track_caller]
fn check_conversation(archive: &std::path::Path) -> usize {
    let lines =
        fs::read_to_string(archive.join("team/pitcrew/transcripts/team-lead.ndjson")).unwrap();
    let seqs = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap());
    let seqs: Vec<u64> = seqs.collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{lines}");
    seqs.len()
}

/// Checks that both teams are archived, that each archive contains only files of its own team, and
/// that each archive contains the lead's conversation.
#[track_caller]
fn check_both_are_archived(room: &TestEnv) {
    assert_eq!(fs::read_dir(room.root().join("teams")).unwrap().count(), 0, "no team is left");
    let archives = archives(room);
    assert_eq!(archives.len(), 2, "{archives:?}");
    for (archive, nth) in archives.iter().zip(1..) {
        let config = json_in(archive, "team/config.json");
        assert_eq!(
            (&config["name"], &config["description"]),
            (&json!("work"), &json!(format!("Number {nth}")))
        );
        assert_eq!(config["pitcrew"]["askedName"], format!("team-{nth}"));
        let tasks: Vec<PathBuf> =
            fs::read_dir(archive.join("tasks")).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(
            tasks.iter().filter(|path| path.extension().is_some_and(|it| it == "json")).count(),
            1,
            "{tasks:?}"
        );
        let task = json_in(archive, "tasks/1.json");
        assert_eq!(task["subject"], format!("Task of team {nth}"));
        assert_eq!(
            (&task["status"], &task["owner"]),
            (&json!("completed"), &json!("w")),
            "{task:#}"
        );
        for (inbox, text) in [("team-lead", "my part is done"), ("w", "go on please")] {
            let mail = json_in(archive, &format!("team/inboxes/{inbox}.json"));
            let of_text = mail.as_array().unwrap().iter().filter(|message| message["text"] == text);
            assert_eq!(
                of_text.map(|message| &message["read"]).collect::<Vec<_>>(),
                [&json!(true)],
                "{mail:#}"
            );
        }
        let journal = journal_in(&archive.join("team/pitcrew/journal.ndjson"));
        assert_eq!(journal[0]["event"], "team_created", "{journal:#?}");
        let last = if nth == 1 { "team_deleted" } else { "team_archived" };
        assert_eq!(journal.last().unwrap()["event"], last);
    }
    assert!(check_conversation(&archives[0]) < check_conversation(&archives[1]));
    let first =
        fs::read_to_string(archives[0].join("team/pitcrew/transcripts/team-lead.ndjson")).unwrap();
    let second =
        fs::read_to_string(archives[1].join("team/pitcrew/transcripts/team-lead.ndjson")).unwrap();
    assert!(second.starts_with(&first), "the conversation goes on:\n{first}\n{second}");
}

#[test]
fn a_lead_makes_another_team_after_it_has_deleted_one() {
    let room = TestEnv::new();
    say_the_word(&room);
    let ran = run(&room, &two_teams(""));
    assert_eq!(ran.code, 0, "{ran:?}");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["result"], "Both are done.", "{document:#}");
    // The totals of a member include both teams.
    let of_w = document["members"]
        .as_array()
        .unwrap()
        .iter()
        .find(|member| member["name"] == "w")
        .unwrap();
    assert_eq!(
        (&of_w["tool_calls"], &of_w["state"]),
        (&json!(10), &json!("shut_down")),
        "{document:#}"
    );
    check_both_are_archived(&room);
    // Documents about both teams are masked.
    for archive in archives(&room) {
        let record = json_in(&archive, "team/pitcrew/secret-digests.json");
        assert_eq!(record["digests"][0]["name"], "DEPLOY_KEY", "{record}");
    }
    room.ok(&["doctor"]);
}

#[test]
fn another_team_has_panes_like_the_first() {
    let Some(terminal) = Terminal::new() else { return };
    say_the_word(&terminal.room);
    let ran = ended(terminal.start(&two_teams(""), &["--allow", "Bash"]));
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Both are done."), "{ran:?}");
    check_both_are_archived(&terminal.room);
    terminal.check_nobody_is_left();
}

#[test]
fn a_killed_run_goes_on_in_its_second_team_and_counts_what_the_first_took() {
    let room = TestEnv::new();
    let model = room.script(&two_teams(""));
    let run = Running::start(
        &room,
        &["run", "go", "--team", "work", "--model", &model, "--allow", "Bash"],
    );
    let waits = || room.work().join("waiting").exists().then_some(());
    patience::until("w waits", waits, || format!("{:?}", room.run(&["team", "list"])));
    run.kill();
    say_the_word(&room);
    let ran = room.run(&["run", "--resume", "team-2", "--allow", "Bash", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["result"], "Both are done.", "{document:#}");
    let of_w = document["members"]
        .as_array()
        .unwrap()
        .iter()
        .find(|member| member["name"] == "w")
        .unwrap();
    // The script makes ten tool calls. The resumed run may have repeated one of them, so the number
    // may be higher than ten.
    assert!(of_w["tool_calls"].as_u64().unwrap() >= 10, "{document:#}");
    check_both_are_archived(&room);
}

/// Script steps that run after the first team is deleted and before the second team is created. In
/// these steps, the lead waits until the test creates the file `go`.
const PAUSE: &str = "
    - tools: [{name: Bash, input: {command: \"touch between; for i in $(seq 3600); do test -e go && break; sleep 0.05; done\"}}]";

#[test]
fn a_team_that_somebody_else_makes_in_between_stays_theirs() {
    let room = TestEnv::new();
    let script = format!(
        "
agents:
  team-lead:
    - tools: [{{name: TeamCreate, input: {{team_name: team-1}}}}]
    - tools: [{{name: TeamDelete}}]{PAUSE}
    - tools: [{{name: TaskCreate, input: {{subject: Not theirs, description: d}}}}]
    - tools: [{{name: TeamCreate, input: {{team_name: team-2}}}}]
    - tools: [{{name: Task, input: {{name: w, description: d, prompt: p}}}}]
    - text: It is taken.
  w: [{{text: never}}]
"
    );
    let model = room.script(&script);
    let mut run = Running::start(
        &room,
        &["run", "go", "--team", "work", "--model", &model, "--allow", "Bash"],
    );
    let waits = || room.work().join("between").exists().then_some(());
    patience::until("the lead waits", waits, || format!("{:?}", room.run(&["team", "list"])));
    room.ok(&["team", "create", "work", "--description", "theirs"]);
    let team = room.root().join("teams/work");
    let before = crate::test_env::tree(&team);
    fs::write(room.work().join("go"), "").unwrap();
    run.until(
        "TeamCreate failed: <tool_use_error>Team 'work' already exists: this run keeps its teams under that name",
    );
    run.until("Task failed: <tool_use_error>The team is deleted; TeamCreate makes another");
    let (code, said) = run.ended();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(crate::test_env::tree(&team), before, "the stranger's team is as it was");
    assert_eq!(archives(&room).len(), 1);
}

#[test]
fn a_team_can_be_deleted_twice_and_another_one_too() {
    let room = TestEnv::new();
    let script = "
agents:
  team-lead:
    - tools: [{name: TeamDelete}]
    - tools: [{name: TeamDelete}]
    - tools: [{name: TeamCreate, input: {team_name: team-2}}]
    - tools: [{name: TeamCreate, input: {team_name: team-3}}]
    - tools: [{name: TaskCreate, input: {subject: s, description: d}}]
    - tools: [{name: TeamDelete}]
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - tools: [{name: TeamDelete}]
    - tools: [{name: TeamDelete}]
    - text: Nothing is left.
";
    let ran = run(&room, script);
    assert_eq!(ran.code, 0, "{ran:?}");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&document["result"], &document["team_deleted"]),
        (&json!("Nothing is left."), &json!(true))
    );
    assert_eq!(fs::read_dir(room.root().join("teams")).unwrap().count(), 0);
    let archives = archives(&room);
    assert_eq!(archives.len(), 2, "{archives:?}");
    check_conversation(&archives[0]);
    let second =
        fs::read_to_string(archives[1].join("team/pitcrew/transcripts/team-lead.ndjson")).unwrap();
    assert!(
        second.contains("Already leading team \\\"work\\\". Use TeamDelete first."),
        "{second}"
    );
    assert!(
        second.contains("1 task is open"),
        "a lead is reminded of its second team too: {second}"
    );
    check_conversation(&archives[1]);
}
