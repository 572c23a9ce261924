//! Tests of processes that an agent's command detaches: they have another session, an empty
//! environment or no parent. These processes must end with the run, and the run must report them.
//! The tmux server of the panes must keep running, and a process that a user's hook has started
//! must keep running too.

use std::fs;

use pitcrew_process::identity::ProcessIdentity;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::agent::FREE;
use crate::patience::until;
use crate::processes::command_line;
use crate::running::Running;
use crate::terminal::Terminal;
use crate::test_env::{Ran, TestEnv};

/// Shell commands that detach a process. `N` is the number of seconds for which the process sleeps.
/// A test recognizes its own processes by this number.
const WAYS: [&str; 4] = [
    "env -i setsid sleep N >/dev/null 2>&1 &",
    "(setsid env -i sh -c 'sleep N & exec sleep N' >/dev/null 2>&1 &)",
    "env -i bash -c 'set -m; sleep N & disown' >/dev/null 2>&1",
    "env -i setsid sh -c 'trap \"\" TERM; sleep N; sleep N' >/dev/null 2>&1 &",
];

/// A number of seconds that no other test uses.
fn seconds(nth: usize) -> String {
    format!("9{}{nth}", std::process::id())
}

fn sleepers(seconds: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| command_line(*pid) == format!("sleep {seconds}")).collect()
}

fn end(sleepers: Vec<u32>) {
    for pid in sleepers {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    }
}

/// Returns a shell command that runs `way`, which detaches processes that sleep for `seconds`
/// seconds. The shell command ends when one of these processes has started.
fn begun(way: &str, seconds: &str) -> String {
    format!(
        "{}\nuntil pgrep -x sleep -a | grep -q 'sleep {seconds}'; do :; done",
        way.replace('N', seconds)
    )
}

/// A script in which `agent` runs `command`.
fn script(agent: &str, command: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!(
        "agents:\n  {agent}:\n    - tools: [{{name: Bash, input: {{command: {command}}}}}]\n    - text: Done.\n"
    )
}

#[test]
fn what_a_command_of_the_lead_moved_out_of_sight_ends_with_the_run() {
    for (nth, way) in WAYS.iter().enumerate() {
        let (room, seconds) = (TestEnv::new(), seconds(nth));
        let model = room.script(&script("team-lead", &begun(way, &seconds)));
        let ran = room.run(&["run", "go", "--model", &model, "--permission-mode", FREE]);
        let left = sleepers(&seconds);
        end(left.clone());
        assert_eq!((ran.code, left), (0, Vec::new()), "{way}: {ran:?}");
        assert!(ran.stderr.contains("a command had moved it out of sight"), "{way}: {ran:?}");
    }
}

#[test]
fn what_a_command_of_a_member_moved_out_of_sight_ends_with_its_process() {
    let room = TestEnv::with_crew();
    let seconds = seconds(8);
    let model = room.script(&script("guest", &begun(WAYS[1], &seconds)));
    let mut guest = Running::start(
        &room,
        &["join", "crew", "--as", "guest", "--model", &model, "--permission-mode", FREE],
    );
    guest.until("guest is idle");
    until("the command has started", || (sleepers(&seconds).len() == 2).then_some(()), String::new);
    guest.signal(Signal::TERM);
    let (_, said) = guest.ended();
    let left = sleepers(&seconds);
    end(left.clone());
    assert_eq!(left, Vec::<u32>::new(), "{said}");
    assert!(said.contains("a command had moved it out of sight"), "{said}");
}

#[test]
fn what_a_command_in_a_pane_moved_out_of_sight_ends_with_its_process_and_the_server_stays() {
    let Some(terminal) = Terminal::new() else { return };
    let seconds = seconds(6);
    let way = serde_json::to_string(&WAYS[1].replace('N', &seconds)).unwrap();
    let script = format!(
        "agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Do it, prompt: Do it.}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: I lost bob.
  bob:
    - tools: [{{name: Bash, input: {{command: {way}}}}}]
    - wait_for: {{contains: shutdown_request}}
    - capture:
        request: {{from: message, regex: '\"requestId\":\"(shutdown-[^\"]+)\"'}}
      tools:
        - {{name: SendMessage, input: {{type: shutdown_response, request_id: '${{request}}', approve: true}}}}
"
    );
    let run = Running::of(&mut terminal.run_in("tmux", &script, &["--permission-mode", FREE]));
    terminal.until("the command has started", || (sleepers(&seconds).len() == 2).then_some(()));
    run.signal(Signal::TERM);
    let (code, said) = run.ended();
    let is_over = || sleepers(&seconds).is_empty().then_some(());
    terminal.until("what bob's command started has ended", is_over);
    assert_eq!(code, Some(143), "{said}");
    let names_the_server = |line: &str| line.contains("tmux") && !line.contains("tmux attach");
    assert!(!said.lines().any(names_the_server), "the server of panes is no stray: {said}");
}

#[test]
fn what_a_hook_of_the_user_leaves_running_stays() {
    let (room, seconds) = (TestEnv::new(), seconds(9));
    let hook = format!("setsid sleep {seconds} >/dev/null 2>&1 &");
    let hooks = serde_json::json!({"hooks": {"PreToolUse": [{"matcher": "", "hooks": [{"type": "command", "command": hook}]}]}});
    fs::write(room.root().join("settings.json"), hooks.to_string()).unwrap();
    let model = room.script(&script("team-lead", "true"));
    let ran = room.run(&["run", "go", "--model", &model, "--permission-mode", FREE]);
    let left = sleepers(&seconds);
    end(left.clone());
    assert_eq!((ran.code, left.len()), (0, 1), "{ran:?}");
}

#[test]
fn what_ran_before_pitcrew_in_its_process_is_left_alone() {
    let (room, seconds) = (TestEnv::new(), seconds(7));
    let model = room.script(&script("team-lead", "true"));
    let line = format!(
        "sleep {seconds} >/dev/null 2>&1 & exec {} run go --model {model} --permission-mode {FREE}",
        env!("CARGO_BIN_EXE_pitcrew")
    );
    let ran = Ran::of(room.tool("bash", &["-c", &line]).output().unwrap());
    let left = sleepers(&seconds);
    end(left.clone());
    assert_eq!((ran.code, left.len()), (0, 1), "{ran:?}");
}

#[test]
fn what_ended_out_of_sight_is_let_go_while_the_run_goes_on() {
    let room = TestEnv::new();
    let way = "(setsid env -i sh -c 'exit 0' >/dev/null 2>&1 &) ; (setsid env -i sh -c 'exit 0' >/dev/null 2>&1 &); sleep 0.3";
    // The second command starts when the processes of the first command have ended. It looks for
    // zombie processes.
    let count = "true; grep -l '^PPid:.'$PPID /proc/[0-9]*/status | xargs grep -l 'State:.Z' > zombies; true";
    let [way, count] = [way, count].map(|command| serde_json::to_string(command).unwrap());
    let model = room.script(&format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Bash, input: {{command: {way}}}}}]\n    - tools: [{{name: Bash, input: {{command: {count}}}}}]\n    - text: Done.\n"
    ));
    let ran = room.run(&["run", "go", "--model", &model, "--permission-mode", FREE]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(room.work().join("zombies")).unwrap(), "", "{ran:?}");
    assert!(!ran.stderr.contains("out of sight"), "{ran:?}");
}

/// Returns the ids of the processes in the team's document of escaped processes.
fn recorded(room: &TestEnv, team: &str) -> Vec<u32> {
    let file = room.root().join("teams").join(team).join("pitcrew/escaped.json");
    let Ok(text) = fs::read_to_string(file) else { return Vec::new() };
    let record: Value = serde_json::from_str(&text).unwrap();
    let processes =
        record["escaped"].as_array().unwrap().iter().map(|escaped| &escaped["process"]["pid"]);
    processes.map(|pid| pid.as_u64().unwrap().try_into().unwrap()).collect()
}

/// Returns the reports of `doctor` on escaped processes of the team. Checks that `doctor` repairs
/// none of them.
fn reported(room: &TestEnv, flags: &[&str]) -> Vec<String> {
    let report = room.json(&[&["doctor"], flags].concat());
    let findings = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["kind"] == "escaped");
    let detail = |finding: &Value| {
        assert!(finding["repair"].is_null() && finding["repaired"].is_null(), "{finding}");
        finding["detail"].as_str().unwrap().to_owned()
    };
    findings.map(detail).collect()
}

/// A script in which `agent` runs `command`, and then a second command. The second command runs
/// until the file `enough` exists.
fn script_that_stays(agent: &str, command: &str) -> String {
    let started = serde_json::to_string(command).unwrap();
    format!(
        "agents:\n  {agent}:\n    - tools: [{{name: Bash, input: {{command: {started}}}}}]\n    - tools: [{{name: Bash, input: {{command: 'touch next; until [ -e enough ]; do sleep 0.05; done'}}}}]\n    - text: Done.\n"
    )
}

#[test]
fn what_escaped_from_a_killed_run_is_reported_and_never_ended() {
    for (nth, way) in WAYS.iter().enumerate() {
        let (room, seconds) = (TestEnv::new(), seconds(10 + nth));
        let model = room.script(&script_that_stays("team-lead", &begun(way, &seconds)));
        let run = Running::start(
            &room,
            &["run", "go", "--team", "crew", "--model", &model, "--permission-mode", FREE],
        );
        until(
            "the second command runs",
            || room.work().join("next").exists().then_some(()),
            String::new,
        );
        let recorded = recorded(&room, "crew");
        assert_eq!(reported(&room, &[]), Vec::<String>::new(), "{way}: the run will end it");
        run.kill();
        let left = sleepers(&seconds);
        let found = reported(&room, &[]);
        assert_eq!(reported(&room, &["--repair"]), found, "{way}");
        let still_there = sleepers(&seconds);
        fs::write(room.work().join("enough"), "").unwrap();
        let ran =
            room.run(&["run", "--resume", "crew", "--model", &model, "--permission-mode", FREE]);
        let after_resume = sleepers(&seconds);
        end(after_resume.clone());
        assert_eq!((&still_there, &after_resume), (&left, &left), "{way}: {ran:?}");
        assert_eq!((recorded.len(), found.len()), (1, 1), "{way}: {found:?}");
        let found = &found[0];
        assert!(found.contains(&format!("process {} (", recorded[0])), "{way}: {found}");
        assert!(
            found.contains(&format!("sleep {seconds}")) && found.contains("team-lead"),
            "{way}: {found}"
        );
        let warned = ran.stderr.matches(&format!("process {} (", recorded[0])).count();
        assert_eq!(warned, 1, "{way}: {ran:?}");
    }
}

#[test]
fn what_escaped_from_a_killed_member_is_reported_and_its_agent_was_told() {
    let room = TestEnv::with_crew();
    let seconds = seconds(20);
    let model = room.script(&script_that_stays("guest", &begun(WAYS[0], &seconds)));
    let guest = Running::start(
        &room,
        &["join", "crew", "--as", "guest", "--model", &model, "--permission-mode", FREE],
    );
    until(
        "the second command runs",
        || room.work().join("next").exists().then_some(()),
        String::new,
    );
    let transcript = room.root().join("teams/crew/pitcrew/transcripts/guest.ndjson");
    let told = fs::read_to_string(transcript).unwrap();
    guest.kill();
    let (found, left) = (reported(&room, &[]), sleepers(&seconds));
    fs::write(room.work().join("enough"), "").unwrap();
    end(left.clone());
    assert_eq!((left.len(), found.len()), (1, 1), "{found:?}");
    assert!(found[0].contains("a command of guest"), "{found:?}");
    let words = format!(
        "left running outside its session: pid {} (sleep {seconds}); it ends with this run",
        left[0]
    );
    assert!(told.contains(&words), "{told}");
    assert_eq!(reported(&room, &[]), Vec::<String>::new(), "it has ended");
}

#[test]
fn what_escaped_is_reported_also_after_its_team_was_archived() {
    let (room, seconds) = (TestEnv::new(), seconds(22));
    let model = room.script(&script_that_stays("team-lead", &begun(WAYS[0], &seconds)));
    let args = ["run", "go", "--team", "crew", "--model", &model, "--permission-mode", FREE];
    let run = Running::start(&room, &args);
    let next = || room.work().join("next").exists().then_some(());
    until("the second command runs", next, String::new);
    run.kill();
    room.ok(&["team", "delete", "crew", "--force"]);
    let (found, left) = (reported(&room, &[]), sleepers(&seconds));
    end(left.clone());
    assert_eq!((left.len(), found.len()), (1, 1), "{found:?}");
    assert!(found[0].contains(&format!("process {} (", left[0])), "{found:?}");
    assert_eq!(reported(&room, &[]), Vec::<String>::new(), "it has ended");
}

#[test]
fn the_record_of_what_ended_with_its_run_is_dropped() {
    let (room, seconds) = (TestEnv::new(), seconds(21));
    let model = room.script(&script("team-lead", &begun(WAYS[0], &seconds)));
    let run = ["run", "go", "--team", "crew", "--model", &model, "--permission-mode", FREE];
    let ran = room.run(&run);
    end(sleepers(&seconds));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(room.find("teams/crew/pitcrew/escaped.json").exists(), "it was recorded");
    assert_eq!(recorded(&room, "crew"), Vec::<u32>::new());
}

#[test]
fn a_forged_record_of_an_escaped_process_ends_nothing() {
    let room = TestEnv::with_crew();
    let mut innocent = room.tool("sleep", &["600"]).spawn().unwrap();
    let process = ProcessIdentity::of(innocent.id()).unwrap();
    let record = serde_json::json!({"version": 1, "escaped": [{
        "process": process, "member": "bob", "command": "x", "owner": {"pid": process.pid, "start_ticks": 1}, "at_ms": 1,
    }]});
    fs::write(room.root().join("teams/crew/pitcrew/escaped.json"), record.to_string()).unwrap();
    let model = room.script(&script("team-lead", "true"));
    let found = reported(&room, &["--repair"]);
    let ran = room.run(&["run", "--resume", "crew", "--model", &model, "--permission-mode", FREE]);
    room.run(&["shutdown", "--force", "crew"]);
    let is_alive = process.is_alive();
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    assert!(is_alive, "{ran:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}
