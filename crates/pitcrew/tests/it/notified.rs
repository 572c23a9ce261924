//! Notifications: the user's own command, the desktop, and the terminal of one display.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::detached::{Detached, hosts};
use crate::patience::until;
use crate::test_env::{Ran, TestEnv, journal_in};

/// The script of a lead that asks permission for one command.
const ASKS: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch made}}]
    - text: Done.
";

/// Writes a shell script that can be run as a program.
fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a program that appends its arguments and its input to a file, and returns the file.
fn recorder(room: &TestEnv, program_path: &Path) -> PathBuf {
    let heard = room.temporary().join("heard");
    let file = heard.display();
    program(
        program_path,
        &format!("{{ printf '%s|' \"$@\"; cat; }} >> {file}.new && cp {file}.new {file}"),
    );
    heard
}

fn settings(room: &TestEnv, notify: &Value) {
    let settings = json!({"pitcrew": {"notify": notify}});
    fs::write(room.root().join("settings.json"), settings.to_string()).unwrap();
}

/// Waits until a file has this number of lines, and returns them.
#[track_caller]
fn lines(file: &Path, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(file).unwrap_or_default();
    let all = || Some(read().lines().map(str::to_owned).collect::<Vec<_>>());
    until("the lines", || all().filter(|lines| lines.len() >= count), read)
}

/// Answers the question of the team `work` through its control socket.
fn allow(room: &TestEnv) {
    let connect = || UnixStream::connect(room.root().join("teams/work/pitcrew/door")).unwrap();
    let asked = || {
        let mut stream = connect();
        writeln!(stream, "{}", json!({"op": "follow"})).unwrap();
        let snapshot = BufReader::new(stream).lines().nth(1).unwrap().unwrap();
        let snapshot: Value = serde_json::from_str(&snapshot).unwrap();
        snapshot["snapshot"]["questions"].as_array().unwrap().first().cloned()
    };
    let question = until("a question is open", asked, String::new);
    let (id, digest) = (&question["id"], &question["question"]["digest"]);
    let mut stream = connect();
    writeln!(
        stream,
        "{}",
        json!({"op": "answer", "question": id, "digest": digest, "choice": "once"})
    )
    .unwrap();
    let answer = BufReader::new(stream).lines().next().unwrap().unwrap();
    assert!(answer.contains("\"success\":true"), "{answer}");
}

#[test]
fn the_users_command_gets_each_notification_once_as_json_on_stdin() {
    let room = TestEnv::new();
    let own = room.temporary().join("bin/tell me");
    let heard = recorder(&room, &own);
    settings(&room, &json!({"command": [own, "$(touch evil)", "a b"]}));
    let (detached, _host) = Detached::start_in(room, ASKS, &[]);
    let asked = lines(&heard, 1);
    // Two displays without a terminal follow the team. They start no command.
    let mut displays: Vec<_> = (0..2)
        .map(|_| {
            let mut display = detached.room.command(&["attach", "work", "--json"]);
            let mut display = display.stdout(Stdio::piped()).spawn().unwrap();
            // It follows the team when it has printed its first line.
            let mut output = BufReader::new(display.stdout.take().unwrap());
            output.read_line(&mut String::new()).unwrap();
            (display, output)
        })
        .collect();
    allow(&detached.room);
    detached.until_no_host();
    displays.iter_mut().for_each(|(display, _)| assert!(display.wait().unwrap().success()));
    let all = lines(&heard, 2);
    assert_eq!((all.len(), &all[0]), (2, &asked[0]), "{all:?}");
    let told: Vec<Value> = all
        .iter()
        .map(|line| {
            let (arguments, json) = line.split_at(line.find('{').unwrap());
            assert_eq!(arguments, "$(touch evil)|a b|");
            serde_json::from_str(json).unwrap()
        })
        .collect();
    let input = json!({"kind": "input_needed", "question": "q1", "agent": "team-lead", "tool": "Bash", "team": "work",
        "title": "pitcrew: work", "text": "team-lead asks permission for Bash", "follower": null});
    let ended = json!({"kind": "ended", "end": "completed", "team": "work", "title": "pitcrew: work",
        "text": "the team is done", "follower": null});
    assert_eq!(told, [input, ended]);
    assert!(detached.room.work().join("made").exists());
}

#[test]
fn a_command_that_fails_or_hangs_is_reported_and_delays_nothing() {
    let room = TestEnv::new();
    let own = room.temporary().join("bin/fails");
    program(&own, "echo no bell here >&2; exit 3");
    settings(&room, &json!({"command": [own]}));
    let (detached, _host) = Detached::start_in(room, ASKS, &[]);
    detached.until_log("which notifies you, failed with code 3: no bell here");
    allow(&detached.room);
    detached.until_no_host();
}

#[test]
fn the_desktop_shows_notifications_where_there_is_a_session_bus() {
    let room = TestEnv::new();
    let bin = room.temporary().join("bin");
    let heard = recorder(&room, &bin.join("notify-send"));
    let model = room.script(ASKS);
    let start = |team: &str, bus: Option<&str>| {
        let mut run = room.command(&["run", "go", "--team", team, "--model", &model, "--detach"]);
        let path = std::env::var_os("PATH").unwrap();
        let path = std::iter::once(bin.clone()).chain(std::env::split_paths(&path));
        run.env("PATH", std::env::join_paths(path).unwrap());
        run.envs(bus.map(|bus| ("DBUS_SESSION_BUS_ADDRESS", bus)));
        let ran = Ran::of(run.output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    start("work", Some("unix:path=/nowhere"));
    let told = lines(&heard, 1);
    let detached = Detached { room };
    assert!(
        told[0]
            .starts_with("--app-name=pitcrew|--|pitcrew: work|team-lead asks permission for Bash|"),
        "{told:?}"
    );
    allow(&detached.room);
    assert!(lines(&heard, 2)[1].contains("the team is done"));
}

#[test]
fn a_repository_sets_no_command_for_notifications_even_if_it_is_trusted() {
    let room = TestEnv::new();
    let evil = room.work().join("evil");
    program(&evil, &format!("touch {}", room.temporary().join("ran").display()));
    let theirs = json!({"pitcrew": {"notify": {"command": [evil]}}});
    fs::create_dir_all(room.work().join(".claude")).unwrap();
    for file in ["settings.json", "settings.local.json"] {
        fs::write(room.work().join(".claude").join(file), theirs.to_string()).unwrap();
    }
    let model = room.script(ASKS);
    let run = ["run", "go", "--team", "work", "--model", &model, "--yes", "--trust"];
    let ran = room.ok(&run);
    assert!(ran.stderr.contains("pitcrew.notify (no project may set it)"), "{ran:?}");
    assert!(!room.temporary().join("ran").exists());
    // The same settings of the user count.
    fs::write(room.root().join("settings.json"), theirs.to_string()).unwrap();
    room.ok(&run);
    assert!(room.temporary().join("ran").exists());
}

/// A display of the team `work` in a tmux session. The bytes that it writes go into a file.
struct Display {
    raw: PathBuf,
}

fn tmux(room: &TestEnv, args: &[&str]) -> String {
    let mut command = room.tool("tmux", &["-u", "-f", "/dev/null", "-S"]);
    command.arg(room.temporary().join("tmux")).args(args).env("SHELL", "/bin/sh");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The private tmux server of a test, which ends with the test.
struct Server<'a>(&'a TestEnv);

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let mut command = self.0.tool("tmux", &["-S"]);
        let _either = command.arg(self.0.temporary().join("tmux")).arg("kill-server").output();
    }
}

impl Display {
    /// Opens a display with an option of `attach`, and waits for a text on it.
    fn open(room: &TestEnv, name: &str, (option, shows): (&str, &str)) -> Self {
        let raw = room.temporary().join(name);
        let own = env!("CARGO_BIN_EXE_pitcrew");
        let shell = format!("read go; {own} attach work {option}; exec sleep 1000");
        tmux(room, &["new-session", "-d", "-s", name, "-x", "100", "-y", "30", "sh", "-c", &shell]);
        tmux(room, &["pipe-pane", "-t", name, &format!("cat > {}", raw.display())]);
        tmux(room, &["send-keys", "-t", name, "Enter"]);
        let display = Self { raw };
        until("it is attached", || display.says(shows).then_some(()), || display.text());
        display
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.raw).unwrap_or_default()).into_owned()
    }

    fn says(&self, text: &str) -> bool {
        self.text().contains(text)
    }
}

#[test]
fn one_of_several_displays_rings_and_sends_its_terminal_the_sequence_of_the_settings() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return eprintln!("skipped: tmux is not installed");
    }
    let room = TestEnv::new();
    settings(&room, &json!({"terminal": ["bell", "osc777"]}));
    let two = ASKS.replace(
        "    - text",
        "    - tools: [{name: Bash, input: {command: touch more}}]\n    - text",
    );
    let (detached, _host) = Detached::start_in(room, &two, &[]);
    let room = &detached.room;
    let _server = Server(room);
    let displays = [
        Display::open(room, "one", ("--plain", "attached to team work")),
        Display::open(room, "two", ("", "asks permission for")),
    ];
    let asked = "777;notify;pitcrew: work;team-lead asks permission for Bash\u{7}";
    let done = "777;notify;pitcrew: work;the team is done\u{7}";
    let sent = |text: &str| displays.each_ref().map(|display| display.text().matches(text).count());
    // The first question may open before or after the displays do.
    let before = sent(asked);
    allow(room);
    until("the second question", || (sent(asked) != before).then_some(()), || displays[1].text());
    allow(room);
    detached.until_no_host();
    until("the end", || (sent(done) != [0, 0]).then_some(()), || displays[1].text());
    let after = [before[0], before[1] + 1];
    assert_eq!((sent(asked), sent(done)), (after, [0, 1]), "only the one that came last");
    let [first, second] = displays.map(|display| display.text());
    assert_eq!(first.contains('\u{7}'), before[0] > 0, "{first:?}");
    assert!(
        second.contains(&format!("\u{7}\u{1b}Ptmux;\u{1b}\u{1b}]{asked}\u{1b}\\")),
        "{second:?}"
    );
}

#[test]
fn a_run_on_a_terminal_rings_itself_and_a_run_without_one_notifies_nobody() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return eprintln!("skipped: tmux is not installed");
    }
    let room = TestEnv::new();
    let server = Server(&room);
    let (raw, own) = (room.temporary().join("raw"), env!("CARGO_BIN_EXE_pitcrew"));
    let model = room.script(ASKS);
    let shell = format!("read go; {own} run go --team work --model {model}; exec sleep 1000");
    tmux(&room, &["new-session", "-d", "-s", "main", "-x", "100", "-y", "30", "sh", "-c", &shell]);
    tmux(&room, &["pipe-pane", "-t", "main", &format!("cat > {}", raw.display())]);
    tmux(&room, &["send-keys", "-t", "main", "Enter"]);
    let bells = || fs::read(&raw).unwrap_or_default().iter().filter(|byte| **byte == 7).count();
    until("the question rings", || (bells() == 1).then_some(()), || bells().to_string());
    tmux(&room, &["send-keys", "-t", "main", "y", "Enter"]);
    until("the end rings", || (bells() == 2).then_some(()), || bells().to_string());
    drop(server);

    let ran = room.ok(&["run", "go", "--team", "other", "--model", &model, "--yes"]);
    assert!(!ran.stderr.contains('\u{7}') && !ran.stdout.contains('\u{7}'), "{ran:?}");
}

#[test]
fn a_resume_waits_for_the_last_acts_of_the_run_before() {
    let room = TestEnv::new();
    let told = room.temporary().join("told");
    let slow = room.temporary().join("slow");
    // In the first run, it ends only at the deadline for the user's command.
    program(
        &slow,
        &format!("grep -q '\"kind\":\"ended\"' && mkdir {} && exec sleep 60", told.display()),
    );
    settings(&room, &json!({"command": [slow], "terminal": [], "desktop": false}));
    let script = "agents: {team-lead: [{text: First.}, {text: Second.}]}";
    let (detached, _host) = Detached::start_in(room, script, &[]);
    until("the end", || told.exists().then_some(()), String::new);
    let model = detached.room.script(script);
    let again = ["run", "--resume", "work", "and now?", "--model", &model, "--output-format"];
    let ran = detached.room.run(&[&again[..], &["json"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(hosts(&detached.room), [0; 0]);
    let journal = journal_in(&detached.room.find("teams/work/pitcrew/journal.ndjson"));
    let runs = journal.iter().filter_map(|entry| entry["event"].as_str());
    let runs: Vec<&str> =
        runs.filter(|it| it.starts_with("run_") || it.starts_with("team_a")).collect();
    let one = ["run_started", "run_ended", "team_archived"];
    assert_eq!(runs, [one, one].concat());
}
