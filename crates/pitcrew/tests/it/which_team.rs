//! Tests of how a command chooses the team that it uses, and of what happens to the team of a
//! completed run.

use std::fs;
use std::process::Stdio;

use insta::assert_snapshot;
use regex::Regex;
use rustix::process::Signal;
use serde_json::Value;

use crate::patience::until;
use crate::running::Running;
use crate::terminal::GOODBYE;
use crate::test_env::{Ran, TestEnv};

/// The script of a lead that creates a task, completes the task, and says its last text.
const SHORT: &str = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - text: It is done.
    - text: It goes on.
";

fn completed(room: &TestEnv, team: &str) -> Ran {
    let model = room.script(SHORT);
    room.ok(&["run", "do it", "--team", team, "--model", &model, "--yes"])
}

/// The script of a lead that works, and of a teammate that waits and agrees to shut down.
fn working() -> String {
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Wait, prompt: Wait.}}}}]
    - tools: [{{name: Bash, input: {{command: sleep 600}}}}]
    - text: It is done.
  bob:
    - text: I wait.{GOODBYE}
"
    )
}

/// Starts a run, and returns when its teammate waits.
fn started(room: &TestEnv, team: &str) -> Running {
    let model = room.script(&working());
    let mut run =
        Running::start(room, &["run", "wait", "--team", team, "--model", &model, "--yes"]);
    run.until("bob is idle");
    run
}

fn stopped(run: Running) {
    run.signal(Signal::INT);
    assert_eq!(run.ended().0, Some(130));
}

/// Returns the archived teams. Each pair contains the name of the team and the id of its archive.
fn archives(room: &TestEnv) -> Vec<(String, String)> {
    let listed = room.json(&["team", "list", "--archived"]);
    let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    listed["archives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (word(row, "team"), word(row, "id")))
        .collect()
}

/// Replaces everything in the text that changes from run to run by a placeholder, including the ids
/// and times of archives.
fn redacted(room: &TestEnv, text: &str) -> String {
    let text = room.redacted(text);
    let text =
        Regex::new(r"-\d{8}T\d{6}Z-[0-9a-f]{8}").unwrap().replace_all(&text, "-[id]").into_owned();
    Regex::new(r"\[date\] \d\d:\d\d:\d\d UTC").unwrap().replace_all(&text, "[when]").into_owned()
}

#[test]
fn the_team_of_a_completed_run_is_in_the_archive_and_its_name_is_free() {
    let room = TestEnv::new();
    let ran = completed(&room, "sel");
    let said = "the team is in the archive: `pitcrew team show sel` shows it, `pitcrew run --resume sel` goes on with it";
    assert!(ran.stderr.contains(said), "{ran:?}");
    assert_eq!(room.json(&["team", "list"])["total"], 0);
    assert!(completed(&room, "sel").stderr.contains("team sel starts"));
    let archived = archives(&room);
    assert_eq!(archived.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["sel", "sel"]);
    let doctor = room.run(&["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
}

#[test]
fn a_run_that_ends_in_another_way_keeps_its_team() {
    let room = TestEnv::new();
    let model = room.script(SHORT);
    let limited = room.run(&[
        "run",
        "do it",
        "--team",
        "few",
        "--model",
        &model,
        "--yes",
        "--max-turns",
        "1",
    ]);
    assert_eq!(limited.code, 7, "{limited:?}");
    stopped(started(&room, "cut"));
    let folders: Vec<Value> = room.json(&["team", "list"])["teams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    assert_eq!(folders, ["cut", "few"]);
    assert_eq!(archives(&room), []);
}

#[test]
fn the_team_that_runs_is_meant_and_a_finished_one_only_when_none_runs() {
    let room = TestEnv::new();
    completed(&room, "sel");
    let run = started(&room, "sel");
    assert_eq!(room.json(&["team", "show"])["team"]["members"][1]["name"], "bob");
    assert_eq!(room.json(&["send", "bob", "hello"])["success"], true);
    room.ok(&["shutdown"]);
    run.ended();
    room.ok(&["team", "delete", "sel", "--force"]);
    let shown = room.json(&["team", "show"]);
    assert!(shown["archive"]["id"].as_str().unwrap().starts_with("sel-"), "{shown:#}");
}

#[test]
fn of_several_stopped_teams_the_running_one_is_meant_and_several_running_ones_are_listed() {
    let room = TestEnv::new();
    stopped(started(&room, "old"));
    let run = started(&room, "new");
    assert_eq!(room.json(&["team", "show"])["team"]["name"], "new");
    let second = started(&room, "newer");
    assert_snapshot!(room.transcript(&[&["send", "bob", "hello"], &["shutdown"]]), @r#"
    $ pitcrew send bob hello
    error: several teams run here
    hint: teams: new, newer
    hint: name one with --team, or as TEAM where the command takes it; `pitcrew team list` shows them
    [exit 3]
    $ pitcrew shutdown
    error: several teams run here
    hint: teams: new, newer
    hint: name one with --team, or as TEAM where the command takes it; `pitcrew team list` shows them
    [exit 3]
    "#);
    for run in [run, second] {
        stopped(run);
    }
}

#[test]
fn an_archived_team_is_shown_and_other_commands_say_where_it_is() {
    let room = TestEnv::new();
    completed(&room, "sel");
    let seen = room.transcript(&[
        &["team", "show", "sel"],
        &["send", "bob", "hello"],
        &["inbox", "--team", "sel"],
        &["team", "list", "--archived"],
    ]);
    assert_snapshot!(redacted(&room, &seen), @r#"
    $ pitcrew team show sel
    sel  in the archive since [when], [root]/pitcrew/archive/sel-[id]/team/config.json
    do it
    `pitcrew run --resume sel` goes on with it

    MEMBER     TYPE       MODEL                                    MODE  RUNS IN  WORKTREE
    team-lead  team-lead  script:[dir]/work/script.yaml  -     -        -

    TASK  STATUS     OWNER  SUBJECT  WAITS FOR
    #1    completed  -      Do it

    AGENT      NOW                      TURNS  TOOL CALLS  TOKENS  COST
    team-lead  ended: the work is done  3      2           0       -
    $ pitcrew send bob hello
    error: there is no team under [root]
    hint: sel is in the archive since [when]: `pitcrew team show sel` shows it, `pitcrew run --resume sel` goes on with it
    [exit 3]
    $ pitcrew inbox --team sel
    error: Team 'sel' is in the archive since [time]
    hint: teams: none
    hint: `pitcrew team show sel` shows it, `pitcrew run --resume sel` goes on with it
    [exit 3]
    $ pitcrew team list --archived
    TEAM  ARCHIVED                 TASKS DONE  ID                             ABOUT
    sel   [when]  1 of 1      sel-[id]  do it
    "#);
    let lead = &room.json(&["team", "show", "sel"])["team"]["leadAgentId"];
    assert_eq!(lead, "team-lead@sel");
}

#[test]
fn an_archived_team_is_resumed_by_its_name_and_goes_on_with_its_conversation() {
    let room = TestEnv::new();
    completed(&room, "sel");
    let ran = room.ok(&["run", "--resume", "sel", "and now?", "--yes"]);
    assert_eq!(ran.stdout, "It goes on.\n", "{ran:?}");
    let archived = archives(&room);
    assert_eq!(archived.len(), 1, "it is back in the archive");
    assert_eq!(room.json(&["team", "show", "sel"])["tasks"]["tasks"][0]["status"], "completed");
}

#[test]
fn an_archive_whose_name_is_taken_is_named_by_its_id_and_comes_back_when_the_name_is_free() {
    let room = TestEnv::new();
    completed(&room, "sel");
    let (_, first) = archives(&room).remove(0);
    completed(&room, "sel");
    stopped(started(&room, "sel"));
    let refused = room.run(&["run", "--resume", &first, "and now?"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("is taken by team 'sel'"), "{refused:?}");
    assert_eq!(room.json(&["team", "show", &first])["archive"]["id"], first.as_str());
    room.ok(&["team", "delete", "sel", "--force"]);
    room.script(SHORT);
    room.ok(&["run", "--resume", &first, "and now?", "--yes"]);
    assert_eq!(archives(&room).len(), 3);
}

#[test]
fn a_resume_that_cannot_start_leaves_its_team_in_the_archive() {
    let room = TestEnv::new();
    completed(&room, "sel");
    let before = archives(&room).len();
    let refused = room.run(&["run", "--resume", "sel", "--model", "no such model"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(
        (room.json(&["team", "list"])["total"].clone(), archives(&room).len()),
        (0.into(), before)
    );
}

#[test]
fn prune_removes_what_is_old_enough_and_confirmed() {
    let room = TestEnv::new();
    completed(&room, "sel");
    room.ok(&["team", "create", "live"]);
    let seen = room.transcript(&[
        &["prune"],
        &["prune", "--older-than", "0d", "--dry-run"],
        &["prune", "--older-than", "0d"],
        &["prune", "--older-than", "soon"],
    ]);
    assert_snapshot!(redacted(&room, &seen), @r#"
    $ pitcrew prune
    nothing to remove
    $ pitcrew prune --older-than 0d --dry-run
    TEAM  ARCHIVED                 TASKS  ID
    sel   [when]  1      sel-[id]
    1 team would be removed
    $ pitcrew prune --older-than 0d
    error: nothing was removed, because nobody confirmed it
    hint: --yes removes without asking, --dry-run only shows
    [exit 2]
    $ pitcrew prune --older-than soon
    error: invalid value 'soon' for '--older-than <AGE>': an age such as 12h, 30d or 8w

    For more information, try '--help'.
    [exit 2]
    "#);
    assert_eq!(archives(&room).len(), 1);
    let pruned = room.json(&["prune", "--older-than", "0d", "--yes"]);
    assert_eq!((&pruned["success"], &pruned["total"]), (&true.into(), &1.into()), "{pruned:#}");
    assert_eq!(archives(&room), []);
    assert_eq!(room.json(&["team", "list"])["total"], 1);
    assert_eq!(room.run(&["run", "--resume", "sel"]).code, 3);
}

/// Commands that take the name of a team as an argument. The commands in `BY_FLAG` take it only
/// with the flag `--team`.
const BY_WORD: [&[&str]; 5] = [
    &["shutdown"],
    &["team", "show"],
    &["team", "lead"],
    &["team", "delete"],
    &["join", "--as", "guest"],
];
const BY_FLAG: [&[&str]; 19] = [
    &["send", "bob", "hello", "--summary", "s"],
    &["broadcast", "hello", "--summary", "s"],
    &["inbox", "bob"],
    &["member", "list"],
    &["member", "show", "bob"],
    &["member", "hide", "bob"],
    &["member", "remove", "bob"],
    &["member", "mode", "bob", "plan"],
    &["member", "spawn", "zoe", "Wait."],
    &["plan", "list"],
    &["plan", "show", "bob"],
    &["plan", "approve", "bob"],
    &["plan", "reject", "bob"],
    &["task", "list"],
    &["task", "get", "1"],
    &["task", "create", "do it", "all of it"],
    &["task", "claim", "--as", "bob"],
    &["task", "update", "1", "--status", "completed"],
    &["shutdown", "--member", "bob"],
];

#[test]
fn every_command_takes_its_team_by_the_same_flag() {
    let room = TestEnv::with_crew();
    for command in BY_WORD.iter().chain(&BY_FLAG) {
        let with = |more: &[&str]| room.run(&[*command, more].concat());
        let asked = with(&["--team", "none"]);
        assert_eq!((asked.code, with(&["-t", "none"]).code), (3, 3), "{command:?}: {asked:?}");
        assert!(asked.stderr.contains("none"), "{command:?}: {asked:?}");
        let help = with(&["--help"]).stdout;
        assert!(help.contains("-t, --team <TEAM>"), "{command:?}: {help}");
    }
    for command in BY_WORD {
        let with = |more: &[&str]| room.run(&[command, more].concat());
        let (word, flag) = (with(&["none"]), with(&["-t", "none"]));
        assert_eq!((word.code, &word.stderr), (flag.code, &flag.stderr), "{command:?}");
        let both = with(&["crew", "-t", "crew"]);
        assert_eq!(both.code, 2, "{command:?}: {both:?}");
    }
    for command in [&["join", "--as", "guest"][..], &["team", "delete"]] {
        assert_eq!(room.run(command).code, 2, "{command:?}: a team is not guessed");
    }
    assert!(room.ok(&["team", "show", "-t", "crew"]).stdout.contains("bob"));
}

#[test]
fn an_instruction_for_a_new_lead_is_not_taken_for_a_team_that_a_flag_names() {
    let room = TestEnv::new();
    room.killed_run();
    let model = room.script("agents: {team-lead: [{text: So}, {text: That is all.}]}");
    let words = [
        "team",
        "lead",
        "-t",
        "work",
        "--take-over",
        "finish the review",
        "--model",
        &model,
        "--yes",
    ];
    let ran = room.run(&words);
    assert!(ran.code == 0 && ran.stderr.contains("team work goes on"), "{ran:?}");
    let both = room.run(&["team", "lead", "work", "finish it", "-t", "work", "--take-over"]);
    assert_eq!(both.code, 2, "{both:?}");
}

/// Makes another folder beside the working folder. If `is_repository` is true, the folder is a git
/// repository.
fn elsewhere(room: &TestEnv, name: &str, is_repository: bool) -> std::path::PathBuf {
    let folder = room.work().join("..").join(name);
    std::fs::create_dir_all(folder.join(if is_repository { ".git" } else { "" })).unwrap();
    folder.canonicalize().unwrap()
}

/// Runs the binary in `folder`, not in the working folder of the test environment.
fn run_in(room: &TestEnv, folder: &std::path::Path, args: &[&str]) -> Ran {
    Ran::of(room.command(args).current_dir(folder).output().unwrap())
}

#[test]
fn a_command_that_changes_something_never_means_a_team_of_another_place() {
    let room = TestEnv::new();
    let run = started(&room, "zed");
    let (beside, nowhere) = (elsewhere(&room, "beside", true), elsewhere(&room, "nowhere", false));
    let changes: [&[&str]; 6] = [
        &["send", "bob", "x"],
        &["broadcast", "x"],
        &["task", "create", "x"],
        &["member", "mode", "bob", "plan"],
        &["member", "remove", "bob"],
        &["shutdown", "--force"],
    ];
    for folder in [&beside, &nowhere] {
        for args in changes {
            let ran = run_in(&room, folder, args);
            assert_eq!(ran.code, 3, "{args:?}: {ran:?}");
            let said = format!(
                "error: no team runs or waits here\nhint: teams: zed\nhint: zed runs in {}",
                room.work().display()
            );
            assert!(ran.stderr.starts_with(&said), "{args:?}: {ran:?}");
        }
    }
    for args in [&["team", "show"][..], &["task", "list"], &["inbox"], &["member", "list"]] {
        let shown = run_in(&room, &beside, args);
        let whose =
            format!("this repository has no team; shown is zed of {}\n", room.work().display());
        assert!(shown.code == 0 && shown.stderr.contains(&whose), "{args:?}: {shown:?}");
        for folder in [&nowhere, &room.work()] {
            let shown = run_in(&room, folder, args);
            assert_eq!((shown.code, shown.stderr.as_str()), (0, ""), "{args:?}");
        }
    }
    assert_eq!(run_in(&room, &beside, &["send", "bob", "x", "--team", "zed"]).code, 0);
    stopped(run);
}

#[test]
fn the_team_that_waits_here_is_meant_while_another_runs_elsewhere_and_several_are_listed_alone() {
    let room = TestEnv::new();
    let beside = elsewhere(&room, "beside", true);
    assert_eq!(run_in(&room, &beside, &["team", "create", "waits"]).code, 0);
    let run = started(&room, "zed");
    let shown = run_in(&room, &beside, &["team", "show", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["team"]["name"], "waits");
    assert_eq!(run_in(&room, &beside, &["task", "create", "x"]).code, 0);
    assert_eq!(run_in(&room, &beside, &["team", "create", "waits-2"]).code, 0);
    for args in [&["task", "create", "x"][..], &["team", "show"], &["send", "bob", "x"]] {
        let ran = run_in(&room, &beside, args);
        let said = "error: several teams wait here, and none runs\nhint: teams: waits, waits-2\nhint: name one";
        assert!(ran.code == 3 && ran.stderr.starts_with(said), "{args:?}: {ran:?}");
    }
    stopped(run);
}

#[test]
fn the_archived_team_of_this_repository_is_shown_before_teams_of_other_places() {
    let room = TestEnv::new();
    completed(&room, "sel");
    let shows_sel = || {
        assert_eq!(room.json(&["team", "show"])["team"]["name"], "sel");
        assert_eq!(room.json(&["transcript"])["team"], "sel");
        let log = room.ok(&["log"]);
        assert!(log.stderr.contains("shown is sel, in the archive since"), "{log:?}");
    };
    for (place, team) in [("beside", "one"), ("other", "two")] {
        let folder = elsewhere(&room, place, true);
        assert_eq!(run_in(&room, &folder, &["team", "create", team]).code, 0);
        shows_sel();
    }
    // A team that waits here comes first.
    room.ok(&["team", "create", "waits"]);
    assert_eq!(room.json(&["team", "show"])["team"]["name"], "waits");
}

#[test]
fn of_archives_of_one_second_the_newest_is_meant() {
    let room = TestEnv::new();
    for goal in 1..=6 {
        let goal = goal.to_string();
        let model = room.script("agents: {team-lead: [{text: Done.}]}");
        room.ok(&["run", &goal, "--team", "sel", "--model", &model]);
        let shown = room.json(&["team", "show", "sel"]);
        assert_eq!(shown["team"]["description"], goal.as_str(), "{shown:#}");
    }
}

#[test]
fn of_two_resumes_of_an_archived_team_at_once_one_runs_it_and_the_other_learns_that() {
    let script = "
agents:
  team-lead:
    - text: All is done.
    - tools: [{name: Bash, input: {command: 'until [ -e over ]; do sleep 0.1; done'}}]
    - text: Again.
";
    for _ in 0..4 {
        let room = TestEnv::new();
        let model = room.script(script);
        room.ok(&["run", "go", "--team", "sel", "--model", &model]);
        let resume = || {
            let mut command =
                room.command(&["run", "--resume", "sel", "go on", "--model", &model, "--yes"]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut both = vec![resume(), resume()];
        let first = until(
            "one is refused",
            || both.iter_mut().position(|it| it.try_wait().unwrap().is_some()),
            String::new,
        );
        let loser = Ran::of(both.remove(first).wait_with_output().unwrap());
        fs::write(room.work().join("over"), "").unwrap();
        let winner = Ran::of(both.remove(0).wait_with_output().unwrap());
        assert_eq!((winner.code, loser.code), (0, 4), "{winner:?} {loser:?}");
        assert!(loser.stderr.contains("the team \"sel\" is run by process"), "{loser:?}");
    }
}

#[test]
fn of_several_teams_that_wait_the_one_named_after_the_repository_is_meant_also_when_that_was_moved()
{
    let room = TestEnv::new();
    let (backend, other) = (elsewhere(&room, "Backend", true), elsewhere(&room, "other", true));
    for (folder, team) in [(&backend, "first"), (&backend, "backend"), (&other, "third")] {
        assert_eq!(run_in(&room, folder, &["team", "create", team]).code, 0);
    }
    let shown = |folder: &std::path::Path| -> Value {
        serde_json::from_str(&run_in(&room, folder, &["--json", "team", "show"]).stdout).unwrap()
    };
    assert_eq!(shown(&backend)["team"]["name"], "backend");
    assert_eq!(run_in(&room, &backend, &["task", "create", "one"]).code, 0);
    // This folder has the same name, but is in another repository. A command in this folder is able
    // to show the team, but not to change it.
    let namesake = elsewhere(&room, "beside/Backend", true);
    assert_eq!(shown(&namesake)["team"]["name"], "backend");
    assert_eq!(run_in(&room, &namesake, &["task", "create", "x"]).code, 3);
    let moved = room.work().join("Backend");
    fs::rename(&backend, &moved).unwrap();
    assert_eq!(run_in(&room, &moved, &["task", "create", "two"]).code, 0);
    assert_eq!(room.json(&["task", "list", "--team", "backend"])["total"], 2);
}
