//! `pitcrew attach`: displays of a team that another process runs, on real terminals and without
//! one. Displays and hosts are really killed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::detached::{Detached, hosts};
use crate::patience;
use crate::running::Running;
use crate::terminal::{Terminal, ended, kill};
use crate::test_env::{TestEnv, journal_in};

/// The script of a lead whose first act needs a permission.
const ASKS: &str = r#"
agents:
  team-lead:
    - tools: [{name: Write, input: {file_path: it, content: "written\n"}}]
    - delay_ms: 600000
      text: I have waited.
"#;

/// The script of a lead that works until its run ends, and of a teammate that waits.
const WORKING: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait.}}]
    - tools: [{name: Bash, input: {command: sleep 600}}]
    - wait_for: {contains: look again}
    - text: I looked again.
  bob:
    - wait_for: {contains: shutdown_request}
      text: I wait.
    - capture:
        request: {from: message, regex: '"requestId":"(shutdown-[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

/// Terminals of a private tmux server. Each of them displays the team `work`.
pub(crate) struct Displays<'a> {
    room: &'a TestEnv,
    socket: PathBuf,
}

impl Drop for Displays<'_> {
    fn drop(&mut self) {
        let _either = self.tmux_command(&["kill-server"]).output();
    }
}

impl<'a> Displays<'a> {
    /// If tmux is not installed, prints a message and returns `None`.
    pub(crate) fn of(room: &'a TestEnv) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        Some(Self { room, socket: room.temporary().join("tmux") })
    }

    fn tmux_command(&self, args: &[&str]) -> Command {
        let mut command = self.room.tool("tmux", &["-u", "-f", "/dev/null", "-S"]);
        command.arg(&self.socket).args(args).env("SHELL", "/bin/sh");
        command
    }

    #[track_caller]
    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let output = self.tmux_command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Opens a display with this name, and waits until it is attached.
    #[track_caller]
    fn open(&self, name: &str) {
        self.start(name, (100, 30), "attach --plain work");
        self.shows(name, "attached to team work");
    }

    /// Starts a pitcrew command in a terminal of this size. Afterwards its process id and its exit
    /// code are in files.
    pub(crate) fn start(&self, name: &str, (columns, rows): (u16, u16), command: &str) {
        let own = env!("CARGO_BIN_EXE_pitcrew");
        let shell = format!(
            "sh -c 'echo $$ > {name}.pid; exec {own} {command}'; echo $? > {name}.code; exec sleep 1000"
        );
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&[
            "new-session",
            "-d",
            "-s",
            name,
            "-x",
            &columns,
            "-y",
            &rows,
            "sh",
            "-c",
            &shell,
        ]);
    }

    pub(crate) fn screen(&self, name: &str) -> String {
        let screen = self.tmux(&["capture-pane", "-p", "-t", name]);
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    #[track_caller]
    pub(crate) fn until(
        &self,
        name: &str,
        what: &str,
        mut is_so: impl FnMut(&str) -> bool,
    ) -> String {
        let look = || Some(self.screen(name)).filter(|screen| is_so(screen));
        patience::until(what, look, || {
            format!("{}\n{:?}", self.screen(name), journal_of(self.room).last())
        })
    }

    #[track_caller]
    pub(crate) fn shows(&self, name: &str, text: &str) -> String {
        self.until(name, text, |screen| screen.replace('\n', "").contains(text))
    }

    pub(crate) fn types(&self, name: &str, line: &str) {
        self.tmux(&["send-keys", "-t", name, "-l", line]);
        self.tmux(&["send-keys", "-t", name, "Enter"]);
    }

    pub(crate) fn key(&self, name: &str, key: &str) {
        self.tmux(&["send-keys", "-t", name, key]);
    }

    /// Presses the key of an answer until a permission request is gone. A key that comes right
    /// after the request answers nothing.
    #[track_caller]
    pub(crate) fn answers(&self, name: &str, key: &str, request: &str) {
        self.presses_until(name, key, |screen| !screen.contains(request));
    }

    /// Presses a key again and again until it counts.
    #[track_caller]
    pub(crate) fn presses_until(&self, name: &str, key: &str, counts: impl Fn(&str) -> bool) {
        let mut pressed = Instant::now();
        self.key(name, key);
        self.until(name, "the answer", |screen| {
            let has_counted = counts(screen);
            if !has_counted && pressed.elapsed() > Duration::from_secs(1) {
                pressed = Instant::now();
                self.key(name, key);
            }
            has_counted
        });
    }

    /// Returns the exit code of a display that ends.
    #[track_caller]
    pub(crate) fn code(&self, name: &str) -> String {
        self.content(&format!("{name}.code"))
    }

    pub(crate) fn pid(&self, name: &str) -> u32 {
        self.content(&format!("{name}.pid")).parse().unwrap()
    }

    fn content(&self, file: &str) -> String {
        let read = || fs::read_to_string(self.room.work().join(file)).ok();
        let whole = || read().filter(|text| text.ends_with('\n'));
        patience::until(file, whole, String::new).trim().to_owned()
    }
}

fn journal_of(room: &TestEnv) -> Vec<Value> {
    journal_in(&room.find("teams/work/pitcrew/journal.ndjson"))
}

#[test]
fn a_question_is_shown_in_every_display_and_answered_in_one() {
    let (detached, host) = Detached::start(ASKS, &[]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    let shown = ["one", "two"].map(|name| {
        displays.open(name);
        let screen = displays.until(name, "the question", |it| it.ends_with("answer>"));
        let starts = screen.find("team-lead asks permission").unwrap();
        detached.room.redacted(&screen[starts..])
    });
    assert_eq!(shown[0], shown[1]);
    assert_snapshot!(shown[0], @r"
    team-lead asks permission for Write
      in [dir]/work
      file it
      a new file
    │+written
    [y]es, [n]o, or n and the reason
    [a]lways in this run: mode acceptEdits (all edits, and commands that only write in its folder)
    [p] always Edit(/[dir]/work/it), in this run (p save: in your settings too)
    answer>
    ");
    displays.types("two", "what?");
    displays.shows("two", "this is not an answer, so nothing was answered");
    displays.types("one", "y");
    for name in ["one", "two"] {
        displays.until(name, "the question is gone", |it| !it.contains("answer>"));
    }
    let file = detached.room.work().join("it");
    patience::until("it is written", || file.exists().then_some(()), String::new);
    // A display that opens later does not show the question either.
    displays.open("three");
    displays.until("three", "no question", |it| it.ends_with("\n>"));
    assert_eq!(hosts(&detached.room), [host]);
}

#[test]
fn a_no_with_its_reason_reaches_the_agent_through_the_host() {
    let script = "
agents:
  team-lead:
    - tools: [{name: Write, input: {file_path: it, content: x}}]
    - capture:
        why: {regex: 'the user said no: ([a-z ]+)'}
      text: 'I learned: ${why}'
";
    let (detached, _host) = Detached::start(script, &[]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.open("one");
    displays.until("one", "the question", |it| it.ends_with("answer>"));
    displays.types("one", "n use another file");
    displays.shows("one", "I learned: use another file");
    assert_eq!(displays.code("one"), "0", "the display ends with its run");
    detached.until_no_host();
    assert!(!detached.room.work().join("it").exists());
}

#[test]
fn a_typed_line_goes_to_the_lead_escape_interrupts_it_and_ctrl_c_leaves() {
    let (detached, host) = Detached::start(WORKING, &["--yes"]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.open("one");
    displays.until("one", "the lead's command", |it| it.contains("Bash(sleep 600"));
    displays.types("one", "look again");
    displays.shows("one", "you to team-lead: look again");
    displays.key("one", "Escape");
    displays.shows("one", "team-lead says: I looked again.");
    displays.key("one", "C-c");
    assert_eq!(displays.code("one"), "0");
    assert_eq!(hosts(&detached.room), [host]);
}

#[test]
fn leaving_says_how_to_come_back_and_how_to_end_the_team() {
    let (detached, host) = Detached::start(WORKING, &["--yes"]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.open("one");
    displays.key("one", "C-c");
    assert_eq!(displays.code("one"), "0");
    displays.shows(
        "one",
        "team work goes on; `pitcrew attach work` shows it again, `pitcrew shutdown work` ends it",
    );
    assert_eq!(hosts(&detached.room), [host]);
}

#[test]
fn a_display_that_is_killed_leaves_the_team_and_the_other_displays_alone() {
    let (detached, host) = Detached::start(ASKS, &[]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.open("one");
    displays.open("two");
    kill(displays.pid("one"), Signal::KILL);
    assert_eq!(displays.code("one"), "137");
    displays.until("two", "the question", |it| it.ends_with("answer>"));
    // The terminal of a display is closed too, so that the display gets SIGHUP.
    displays.open("three");
    displays.tmux(&["kill-session", "-t", "three"]);
    displays.types("two", "y");
    displays.until("two", "the question is gone", |it| !it.contains("answer>"));
    assert_eq!(hosts(&detached.room), [host]);
    displays.key("two", "C-c");
    assert_eq!(displays.code("two"), "0");
}

#[test]
fn a_killed_host_is_reported_and_an_open_display_goes_on_with_the_resumed_team() {
    let (detached, host) = Detached::start(ASKS, &[]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.open("one");
    displays.until("one", "the question", |it| it.ends_with("answer>"));
    kill(host, Signal::KILL);
    displays.shows("one", "the process of team work is gone; `pitcrew run --resume work` goes on");
    let screen = displays.screen("one");
    assert!(!screen.contains("answer>"), "nobody waits for an answer: {screen}");
    let again = detached.room.json(&["run", "--resume", "work", "--detach"]);
    assert_ne!(again["pid"], json!(host));
    displays.shows("one", "team work is run again");
    displays.until("one", "the question again", |it| it.ends_with("answer>"));
    displays.types("one", "y");
    let file = detached.room.work().join("it");
    patience::until("it is written", || file.exists().then_some(()), || displays.screen("one"));
    // The user leaves a display without a host: the exit code says that the host is gone.
    kill(hosts(&detached.room)[0], Signal::KILL);
    displays.until("one", "the second kill", |it| it.matches("is gone;").count() == 2);
    displays.key("one", "C-c");
    assert_eq!(displays.code("one"), "9");
}

/// Starts a display without a terminal. Its lines are on stdout.
fn lines_of(room: &TestEnv, args: &[&str]) -> Running {
    Running::answering(room.command(args).stderr(Stdio::inherit()))
}

#[test]
fn without_a_terminal_the_display_is_a_log_that_ends_with_the_run_or_its_host() {
    let (detached, host) = Detached::start(WORKING, &["--yes"]);
    let mut log = lines_of(&detached.room, &["attach", "work"]);
    log.until("attached to team work");
    detached.until_log("bob is idle");
    detached.room.ok(&["task", "create", "Greet", "Say hello", "--team", "work"]);
    kill(host, Signal::KILL);
    let (code, _rest) = log.ended();
    assert_eq!(code, Some(9));
    let ran = detached.room.run(&["attach", "work"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_snapshot!(detached.room.redacted(&ran.stderr), @r"
    error: no process runs team 'work'
    hint: `pitcrew run --resume work` goes on with it
    ");
    let (detached, _host) = Detached::start(WORKING, &["--yes"]);
    let mut log = lines_of(&detached.room, &["attach"]);
    log.until("attached to team work");
    detached.room.run(&["shutdown", "work"]);
    assert_eq!(log.ended().0, Some(130), "the exit code is that of the run");
}

#[test]
fn with_json_the_display_is_a_stream_of_lines() {
    let (detached, host) = Detached::start(ASKS, &[]);
    detached.until_log("team-lead asks permission for Write");
    let mut stream = lines_of(&detached.room, &["attach", "work", "--json"]);
    let mut line = || -> Value { serde_json::from_str(&stream.line()).unwrap() };
    let attached = line();
    assert_eq!(
        attached,
        json!({"type": "attached", "team": "work", "version": env!("CARGO_PKG_VERSION")})
    );
    let snapshot = line();
    assert_eq!(snapshot["type"], "snapshot");
    let question = &snapshot["state"]["questions"][0];
    assert_eq!(question["question"]["tool"], "Write", "{snapshot:#}");
    kill(host, Signal::KILL);
    // The host has gone without its last event, so the team's files tell the state.
    let recorded = loop {
        let next = line();
        if next["type"] != "event" {
            break next;
        }
    };
    assert_eq!(recorded["type"], "recorded", "{recorded:#}");
    assert_eq!(recorded["team"]["team"], "work", "{recorded:#}");
    let last = line();
    assert_eq!(
        (&last["success"], &last["error"], &last["exit_code"]),
        (&json!(false), &json!("host_gone"), &json!(9)),
        "{last:#}"
    );
    assert_eq!(stream.ended(), (Some(9), String::new()));
}

#[test]
fn a_host_that_does_not_answer_is_reported_and_waited_for() {
    let (detached, host) = Detached::start(WORKING, &["--yes"]);
    detached.until_log("bob is idle");
    kill(host, Signal::STOP);
    let said = detached.room.work().join("said");
    let mut command = detached.room.command(&["attach", "work"]);
    let mut display = Running::answering(command.stderr(fs::File::create(&said).unwrap()));
    let read = || fs::read_to_string(&said).unwrap();
    let is_told = || read().contains("the process of team work does not answer").then_some(());
    patience::until("the user learns of it", is_told, read);
    kill(host, Signal::CONT);
    display.until("attached to team work");
    display.signal(Signal::INT);
    assert_eq!(display.ended().0, Some(0));
}

#[test]
fn the_report_at_the_end_of_a_display_is_that_of_a_run() {
    let waits = "for i in $(seq 3600); do test -e word && break; sleep 0.05; done";
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Write, input: {{file_path: made.txt, content: x}}}}]\n    - tools: [{{name: Bash, input: {{command: '{waits}'}}}}]\n    - text: All is done.\n"
    );
    let (detached, _host) = Detached::start(&script, &["--yes"]);
    let report = detached.room.work().join("report");
    let mut command = detached.room.command(&["attach", "work"]);
    let mut display = Running::answering(command.stderr(fs::File::create(&report).unwrap()));
    display.until("attached to team work");
    fs::write(detached.room.work().join("word"), "").unwrap();
    assert_eq!(display.ended().0, Some(0));
    let report = fs::read_to_string(report).unwrap();
    for line in [
        "in all: 1 agent",
        "team-lead changed made.txt",
        "the team is in the archive: `pitcrew team show work` shows it",
        "look again: `pitcrew log work`",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn a_display_says_in_which_session_the_panes_are() {
    let Some(terminal) = Terminal::new() else { return };
    let run = terminal.start(WORKING, &[]);
    terminal.until("bob rests", || terminal.was("bob", "idle").then_some(()));
    let mut display = Running::answering(&mut terminal.command(&["attach", "work"]));
    display.until("attached to team work");
    let said = display.line();
    assert!(said.contains("the panes of the teammates are in the tmux session "), "{said}");
    assert!(said.contains(", which no terminal shows now; `tmux"), "{said}");
    assert!(terminal.command(&["shutdown", "--force"]).output().unwrap().status.success());
    ended(run);
}

#[test]
fn a_display_in_another_tmux_server_looks_for_the_panes_in_the_default_server() {
    let Some(terminal) = Terminal::new() else { return };
    // The lead runs outside tmux, so its panes are in the default server.
    let run = terminal.start(WORKING, &[]);
    terminal.until("bob rests", || terminal.was("bob", "idle").then_some(()));
    // The panes of the other server have the same ids.
    let socket = terminal.room.temporary().join("other");
    let socket = socket.to_str().unwrap();
    terminal.tmux(&["-S", socket, "new-session", "-d", "-s", "theirs", "sleep", "1000"]);
    terminal.tmux(&["-S", socket, "split-window", "-t", "theirs", "sleep", "1000"]);
    let mut command = terminal.command(&["attach", "work"]);
    let mut display = Running::answering(command.env("TMUX", format!("{socket},1,0")));
    display.until("attached to team work");
    let said = display.line();
    terminal.tmux(&["-S", socket, "kill-server"]);
    assert!(said.contains("in the tmux session pitcrew, "), "{said}");
    assert!(terminal.command(&["shutdown", "--force"]).output().unwrap().status.success());
    ended(run);
}

#[test]
fn attach_without_a_name_means_the_team_that_runs_here_and_lists_several() {
    let room = TestEnv::new();
    assert_snapshot!(room.transcript(&[&["attach"], &["attach", "nothing"]]), @r#"
    $ pitcrew attach
    error: there is no team under [root]
    hint: `pitcrew run "GOAL"` makes one, and so does `pitcrew team create NAME`
    [exit 3]
    $ pitcrew attach nothing
    error: Team 'nothing' does not exist
    hint: teams: none
    [exit 3]
    "#);
    let (detached, _first) = Detached::start(WORKING, &["--yes"]);
    let mut log = lines_of(&detached.room, &["attach"]);
    log.until("attached to team work");
    let model = detached.room.script(WORKING);
    detached.room.ok(&["run", "go", "--detach", "--team", "work", "--model", &model, "--yes"]);
    assert_snapshot!(detached.room.transcript(&[&["attach"]]), @r"
    $ pitcrew attach
    error: several teams run here
    hint: teams: work, work-2
    hint: name one with --team, or as TEAM where the command takes it; `pitcrew team list` shows them
    [exit 3]
    ");
}

#[test]
fn a_run_in_the_foreground_has_displays_too_and_says_its_end_in_all_of_them() {
    let waits = "for i in $(seq 3600); do test -e word && break; sleep 0.05; done";
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Bash, input: {{command: '{waits}'}}}}]\n    - text: All is done.\n"
    );
    let room = TestEnv::new();
    let model = room.script(&script);
    let args = ["run", "go", "--team", "work", "--model", &model, "--yes"];
    let mut run = Running::start(&room, &args);
    run.until("team-lead Bash");
    let displays = [0, 1].map(|_| {
        let mut display = lines_of(&room, &["attach", "work"]);
        display.until("attached to team work");
        display
    });
    fs::write(room.work().join("word"), "").unwrap();
    let (code, rest) = run.ended();
    assert_eq!(code, Some(0), "{rest}");
    for display in displays {
        let (code, said) = display.ended();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.ends_with("All is done."), "{said}");
    }
}
