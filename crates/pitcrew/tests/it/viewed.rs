//! `pitcrew view`: the stream-json of a client and the records of a team, printed and on real
//! terminals. Nobody should trust what is shown.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use insta::assert_snapshot;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::attach::Displays;
use crate::patience;
use crate::test_env::{Ran, TestEnv};

/// A recorded session of Claude Code.
pub(crate) const RECORDED: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson");

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (120, 40);

/// The most memory that a hostile stream may cost, in kB. The timeline, the conversations and the
/// longest line together have less than half of it.
const MEMORY_MOST_KB: u64 = 200_000;

/// A test environment with the recorded session as `session.ndjson`.
fn with_session() -> TestEnv {
    let room = TestEnv::new();
    fs::write(room.work().join("session.ndjson"), RECORDED).unwrap();
    room
}

/// Runs the command with these bytes as its standard input.
fn fed(room: &TestEnv, args: &[&str], bytes: &[u8]) -> Ran {
    let mut command = room.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn a_stream_is_printed_as_timeline_team_tasks_and_cost() {
    let room = with_session();
    let ran = room.ok(&["view", "session.ndjson"]);
    assert_snapshot!(room.redacted(&ran.stdout), @r"
         3  team probe created
         6  team-lead: task #1 created: Do A
         7  team-lead: task #2 created: Do B
         9  team-lead: task #2 blocked by #1
        11  worker started (general-purpose, claude-opus-4-6, blue)
        15  team-lead: task #1 owner worker
        19  team-lead to @worker: greeting the worker
        21  team-lead to @team (worker): greeting everyone
        25  team not cleaned up: Cannot cleanup team with 1 active member(s): worker. Use requestShutdown to gracefully terminate teammates first.
        27  team-lead to @worker, shutdown request: please stop
        28  team-lead: waiting for shutdown
        29  session ended: success

    team probe: not cleaned up: Cannot cleanup team with 1 active member(s): worker. Use requestShutdown to gracefully terminate teammates first.

    AGENT      STATE          TYPE             COLOR  MODEL                       TOKENS  COST
    team-lead  ended          -                -      claude-sonnet-4-5-20250929  121     -
    worker     shutting down  general-purpose  blue   claude-opus-4-6             -       -

    TASK  SUBJECT  STATUS       OWNER   BLOCKED BY
    #1    Do A     in progress  worker
    #2    Do B     pending      -       #1

    session: success, lasted 10.5 s, model calls 10.5 s, 14 turns, $0.0035

    MODEL                       COST       TOKENS
    claude-haiku-4-5-20251001   $0.000035  10 in, 5 out, 0 from the cache, 0 into it
    claude-sonnet-4-5-20250929  $0.0035    200 in, 100 out, 0 from the cache, 0 into it

    29 lines read
    ");
    let piped = fed(&room, &["view", "-"], RECORDED.as_bytes());
    assert_eq!((piped.code, &piped.stdout), (0, &ran.stdout), "{piped:?}");
}

#[test]
fn the_state_of_the_team_is_one_document() {
    let shown = with_session().json(&["view", "session.ndjson"]);
    assert_eq!(shown["team"], "probe");
    assert_eq!(shown["lines"]["lines"], 29, "{shown}");
    let worker = &shown["agents"][1];
    assert_eq!((&worker["name"], &worker["color"]), (&"worker".into(), &"blue".into()));
    assert_eq!(worker["status"], "shutdown_requested");
    assert_eq!(shown["tasks"][1]["blockedBy"][0], "1");
    assert_eq!(shown["session"]["outcome"], "success");
    assert!(shown["session"]["models"].as_array().is_some_and(|models| !models.is_empty()));
}

#[test]
fn a_stream_of_our_own_is_read_back() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: It is forty-two.}]}");
    let args = ["run", "what is it?", "--model", &model, "--yes", "--output-format", "stream-json"];
    let stream = room.ok(&args).stdout;
    let shown = fed(&room, &["view", "-", "--json"], stream.as_bytes());
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["lines"]["unknown"], &shown["lines"]["unreadable"]), (&0.into(), &0.into()));
    assert_eq!(shown["session"]["result"], "It is forty-two.");
}

#[test]
fn lines_that_cannot_be_used_are_skipped_and_counted() {
    let room = TestEnv::new();
    let stream =
        [b"{\"type\":\"stream_event\"}\n\xff\0\x1b[2J\n[1]\n", RECORDED.as_bytes(), b"{\"t"];
    let ran = fed(&room, &["view", "-"], &stream.concat());
    let last = ran.stdout.lines().last().unwrap();
    assert_eq!(
        last,
        "33 lines read, 1 of them unknown, 2 of them unreadable, 1 of them incomplete"
    );
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\0'), "{ran:?}");
}

/// A test environment with files that are no streams, too.
fn with_others() -> TestEnv {
    let room = with_session();
    fs::write(room.work().join("noise"), "one\ntwo\n").unwrap();
    fs::write(room.work().join("nothing"), "").unwrap();
    fs::write(room.work().join("binary"), b"\x7fELF\0\xff\0").unwrap();
    fs::create_dir(room.work().join("folder")).unwrap();
    room
}

#[test]
fn what_is_no_stream_is_refused_with_its_reason() {
    let room = with_others();
    assert_snapshot!(room.transcript(&[
        &["view", "noise"],
        &["view", "noise", "--no-open"],
        &["view", "binary", "--no-open"],
        &["view", "folder", "--no-open"],
        &["view", "nothing"],
        &["view", "./missing"],
        &["view", "missing"],
        &["view", "/"],
        &["view", "/dev/zero"],
        &["view", "session.ndjson", "--tui"],
        &["view", "session.ndjson", "--tui", "--json"],
    ]), @r#"
    $ pitcrew view noise
    error: noise has no stream-json: none of its 2 lines is a known event
    hint: `claude -p --output-format stream-json --verbose` and `pitcrew run --output-format stream-json` write one
    [exit 2]
    $ pitcrew view noise --no-open
    error: noise has no stream-json: none of its 2 lines is a known event
    hint: `claude -p --output-format stream-json --verbose` and `pitcrew run --output-format stream-json` write one
    [exit 2]
    $ pitcrew view binary --no-open
    error: binary has no stream-json: its only line is no known event
    hint: `claude -p --output-format stream-json --verbose` and `pitcrew run --output-format stream-json` write one
    [exit 2]
    $ pitcrew view folder --no-open
    error: Team 'folder' does not exist
    hint: teams: none
    hint: there is a folder of this name, but only a file is shown
    [exit 3]
    $ pitcrew view nothing
    error: nothing is empty
    hint: `claude -p --output-format stream-json --verbose` and `pitcrew run --output-format stream-json` write one
    [exit 2]
    $ pitcrew view ./missing
    error: there is no file ./missing
    [exit 3]
    $ pitcrew view missing
    error: Team 'missing' does not exist
    hint: teams: none
    hint: there is no file of this name either
    [exit 3]
    $ pitcrew view /
    error: / cannot be shown: it is a folder, but only regular files are read
    [exit 2]
    $ pitcrew view /dev/zero
    error: /dev/zero cannot be shown: it is a device, but only regular files are read
    [exit 2]
    $ pitcrew view session.ndjson --tui
    error: the terminal interface needs a terminal
    hint: without --tui, the timeline and a summary are printed
    [exit 2]
    $ pitcrew view session.ndjson --tui --json
    {
      "success": false,
      "error": "invalid_request",
      "message": "the terminal interface has no JSON",
      "exit_code": 2,
      "hints": [
        "without --tui, --json prints the state of the team as one document"
      ]
    }
    [exit 2]
    "#);
    let refused = room.json(&["view", "./missing"]);
    assert_eq!((&refused["success"], &refused["error"]), (&false.into(), &"not_found".into()));
}

#[test]
fn the_records_of_an_ended_team_are_printed() {
    let room = TestEnv::new();
    let script = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Look at it, description: Look.}}]
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed, owner: team-lead}}]
    - text: It is done.
";
    let model = room.script(script);
    room.ok(&["run", "look", "--team", "work", "--model", &model, "--yes"]);
    let ran = room.ok(&["view", "work"]);
    let times = regex::Regex::new(r"\b\d\d:\d\d:\d\d\b").unwrap();
    let shown = times.replace_all(&ran.stdout, "[time]").into_owned();
    let took = regex::Regex::new(r"\d+(\.\d)? m?s\b").unwrap();
    let shown = took.replace_all(&shown, "[took]").into_owned();
    assert_snapshot!(room.redacted(&shown), @r"
    [date] [time]  team work is made
    [date] [time]  the run starts: look
    [date] [time]  team-lead creates task #1 Look at it
    [date] [time]  team-lead completes task #1 Look at it
    [date] [time]  team-lead has ended: the work is done
    [date] [time]  the run ends, completed
    [date] [time]  team work moves to the archive

    team work

    AGENT      STATE                    TYPE       COLOR  MODEL                                    TOKENS  COST
    team-lead  ended: the work is done  team-lead  -      script:[dir]/work/script.yaml  -       -

    TASK  SUBJECT     STATUS     OWNER      BLOCKED BY
    #1    Look at it  completed  team-lead

    session: completed, lasted [took], model calls [took], 3 turns

    MODEL                                    COST  TOKENS
    script:[dir]/work/script.yaml  -     0 in, 0 out, 0 from the cache, 0 into it
    ");
    let document = room.json(&["view", "--team", "work"]);
    assert_eq!(document["lines"], Value::Null);
    assert_eq!(document["agents"][0]["status"], "completed");
    let default = room.ok(&["view"]);
    assert_eq!(default.stdout, ran.stdout);
    assert!(default.stderr.contains("shown is work, in the archive"), "{default:?}");
}

#[test]
fn a_live_pipe_is_followed_on_a_terminal_and_the_keys_come_from_the_terminal() {
    let room = TestEnv::new();
    let Some(displays) = Displays::of(&room) else { return };
    let fifo = room.work().join("client");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // The shell gives the FIFO to the display as its standard input, as a pipe from a client.
    displays.start("one", SMALL, "view - --tui < client");
    let mut client = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    displays.shows("one", "0 lines; more can come");
    let lines: Vec<&str> = RECORDED.split_inclusive('\n').collect();
    let (begin, rest) = lines.split_at(11);
    client.write_all(begin.concat().as_bytes()).unwrap();
    displays.shows("one", "* worker");
    // A key while half a line is there.
    let rest = rest.concat();
    let (half, other) = rest.split_at(100);
    client.write_all(half.as_bytes()).unwrap();
    displays.key("one", "3");
    displays.shows("one", "Do B");
    client.write_all(other.as_bytes()).unwrap();
    displays.shows("one", "team not cleaned up");
    drop(client);
    displays.shows("one", "29 lines; the stream has ended");
    displays.key("one", "2");
    displays.shows("one", "the session ended: success");
    displays.key("one", "x");
    displays.shows("one", "sends no messages and no answers; ? shows the keys");
    displays.key("one", "q");
    assert_eq!(displays.code("one"), "0");
    let is_alternate = displays.tmux(&["display", "-p", "-t", "one", "#{alternate_on}"]);
    assert_eq!(is_alternate.trim(), "0");
}

#[test]
fn no_line_of_a_long_file_is_lost_between_two_drawings() {
    let room = TestEnv::new();
    let Some(displays) = Displays::of(&room) else { return };
    // The display draws after each two megabytes.
    fs::write(room.work().join("long"), RECORDED.repeat(400)).unwrap();
    displays.start("one", SMALL, "view long --tui");
    displays.shows("one", "11600 lines; more can come");
    displays.key("one", "q");
    assert_eq!(displays.code("one"), "0");
}

#[test]
fn a_growing_file_is_followed_on_a_terminal() {
    let room = with_session();
    let Some(displays) = Displays::of(&room) else { return };
    displays.start("one", LARGE, "view session.ndjson --tui");
    displays.shows("one", "29 lines; more can come");
    let mut file = fs::OpenOptions::new().append(true).open(room.work().join("session.ndjson"));
    file.as_mut().unwrap().write_all(b"{\"type\":\"of_tomorrow\"}").unwrap();
    displays.shows("one", "30 lines, 1 unknown; more can come");
    fs::write(room.work().join("session.ndjson"), RECORDED).unwrap();
    displays.shows("one", "the file was begun again, and this is its new content");
    displays.shows("one", "29 lines; more can come");
    let other = room.work().join("other");
    fs::write(&other, RECORDED.replace("probe", "second").repeat(2)).unwrap();
    fs::rename(other, room.work().join("session.ndjson")).unwrap();
    displays.shows("one", "58 lines; more can come");
    displays.key("one", "4");
    displays.shows("one", "team second created");
    displays.key("one", "C-c");
    assert_eq!(displays.code("one"), "0");
}

#[test]
fn the_records_of_an_ended_team_are_shown_on_a_terminal() {
    let room = TestEnv::new();
    let Some(displays) = Displays::of(&room) else { return };
    let model = room.script("agents: {team-lead: [{text: It is **forty-two**.}]}");
    room.ok(&["run", "what is it?", "--team", "work", "--model", &model, "--yes"]);
    displays.start("one", LARGE, "view work --tui");
    displays.shows("one", "It is forty-two.");
    displays.shows("one", "ended: completed");
    displays.key("one", "4");
    displays.shows("one", "the run starts: what is it?");
    displays.key("one", "q");
    assert_eq!(displays.code("one"), "0");
}

#[test]
fn a_replay_opens_in_the_browser_and_without_one_in_the_terminal() {
    let room = with_session();
    let Some(displays) = Displays::of(&room) else { return };
    displays.start("one", LARGE, "view session.ndjson");
    displays.shows("one", "29 lines; more can come");
    displays.key("one", "q");
    assert_eq!(displays.code("one"), "0");

    let browser = room.work().join("browser");
    let opened = room.work().join("opened");
    fs::write(&browser, "#!/bin/sh\nprintf %s \"$1\" > part && mv part opened\n").unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).unwrap();
    displays.tmux(&["set-environment", "-g", "BROWSER", browser.to_str().unwrap()]);
    displays.start("two", LARGE, "view session.ndjson");
    displays.shows("two", "showing session.ndjson at http://127.0.0.1:");
    displays.shows("two", "Ctrl-C ends it");
    let link = patience::until("the browser", || fs::read_to_string(&opened).ok(), String::new);
    assert!(displays.screen("two").contains(&link), "{link}");
    // The key would end the shell of the test too.
    let pid = displays.pid("two").to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(displays.code("two"), "0");
    let written = fs::read_dir(room.root()).unwrap().count();
    assert_eq!(written, 0, "a view writes nothing below the root");
}

#[test]
fn the_server_of_a_replay_goes_on_after_the_end_of_its_pipe() {
    let room = TestEnv::new();
    let mut command = room.command(&["--json", "view", "-", "--no-open"]);
    let mut view = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(view.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(said["source"], "standard input");
    let address = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let mut stdin = view.stdin.take().unwrap();
    stdin.write_all(RECORDED.as_bytes()).unwrap();
    drop(stdin);
    let mut stream = TcpStream::connect(&address).unwrap();
    let request =
        format!("GET /api/health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(view.try_wait().unwrap().is_none());
    Command::new("kill").args(["-INT", &view.id().to_string()]).status().unwrap();
    let ended = patience::until("the end", || view.try_wait().unwrap(), String::new);
    assert!(ended.success(), "{ended}");
}

/// Starts the server of a replay, and returns it with the line that it has printed.
fn served(room: &TestEnv, what: &str) -> (Child, Value) {
    let mut command = room.command(&["--json", "view", what, "--no-open"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut view = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(view.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (view, serde_json::from_str(&line).unwrap())
}

#[test]
fn the_server_of_a_replay_says_that_its_file_was_begun_again() {
    let room = with_session();
    let (mut view, _) = served(&room, "session.ndjson");
    let mut told = BufReader::new(view.stderr.take().unwrap()).lines();
    let other = room.work().join("other");
    fs::write(&other, RECORDED).unwrap();
    fs::rename(other, room.work().join("session.ndjson")).unwrap();
    let said = "session.ndjson: the file was begun again, and this is its new content";
    assert_eq!(told.next().unwrap().unwrap(), said);
    Command::new("kill").args(["-INT", &view.id().to_string()]).status().unwrap();
    assert!(view.wait().unwrap().success());
}

#[test]
fn the_server_of_a_pipe_without_a_stream_ends_with_an_error() {
    let room = TestEnv::new();
    for (given, said) in [
        ("", "standard input is empty"),
        ("noise\n", "standard input has no stream-json: its only line is no known event"),
    ] {
        let (mut view, _) = served(&room, "-");
        view.stdin.take().unwrap().write_all(given.as_bytes()).unwrap();
        let ran = Ran::of(view.wait_with_output().unwrap());
        let failure: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &failure["message"]), (2, &said.into()), "{ran:?}");
    }
}

#[test]
fn an_empty_file_is_followed_and_the_terminal_says_so() {
    let room = TestEnv::new();
    fs::write(room.work().join("empty"), "").unwrap();
    let (mut view, _) = served(&room, "empty");
    let mut told = BufReader::new(view.stderr.take().unwrap()).lines();
    let said = "empty is empty; what a client writes into it is shown";
    assert_eq!(told.next().unwrap().unwrap(), said);
    Command::new("kill").args(["-INT", &view.id().to_string()]).status().unwrap();
    assert!(view.wait().unwrap().success());
}

/// Returns the most memory that a process had so far, in kB.
fn memory_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_hostile_stream_costs_a_bounded_amount_of_memory() {
    let room = TestEnv::new();
    let mut command = room.command(&["view", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A line of 100 MB, and then many long texts.
    let block = vec![b'x'; 1 << 20];
    (0..100).for_each(|_| stdin.write_all(&block).unwrap());
    let text = "y".repeat(100_000);
    let content = serde_json::json!([{"type": "text", "text": text}]);
    let message = serde_json::json!({"type": "assistant", "message": {"content": content}});
    let line = format!("\n{message}");
    (0..1_000).for_each(|_| stdin.write_all(line.as_bytes()).unwrap());
    let memory = memory_of(child.id());
    drop(stdin);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(memory < MEMORY_MOST_KB, "{memory} kB");
}

#[test]
fn a_fifo_without_a_writer_is_waited_for_and_left_by_a_key() {
    let room = TestEnv::new();
    let Some(displays) = Displays::of(&room) else { return };
    let fifo = room.work().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    displays.start("one", SMALL, "view fifo --tui");
    displays.shows("one", "0 lines; more can come");
    displays.key("one", "q");
    assert_eq!(displays.code("one"), "0");
    // Without a terminal, a signal ends the wait.
    let mut waits = room.command(&["view", "fifo"]).stdout(Stdio::null()).spawn().unwrap();
    Command::new("kill").arg(waits.id().to_string()).status().unwrap();
    let ended = patience::until("the end", || waits.try_wait().unwrap(), String::new);
    assert!(!ended.success());
}
