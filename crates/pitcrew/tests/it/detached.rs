//! `pitcrew run --detach`: the team runs in a process that no terminal owns.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::patience::until;
use crate::terminal::{GOODBYE, Terminal, ended, kill};
use crate::test_env::{Ran, TestEnv};

/// The script of a lead that works until its run ends, and of a teammate that waits.
const WORKING: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait.}}]
    - tools: [{name: Bash, input: {command: sleep 600}}]
  bob:
    - text: I wait.
"#;

/// Returns the host processes of a test environment.
pub(crate) fn hosts(room: &TestEnv) -> Vec<u32> {
    let root = format!("CLAUDE_CONFIG_DIR={}", room.root().display());
    let read = |pid: u32, what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let has = |bytes: &[u8], text: &str| {
        bytes.split(|byte| *byte == 0).any(|part| part == text.as_bytes())
    };
    let is_host =
        |pid: &u32| has(&read(*pid, "cmdline"), "run-host") && has(&read(*pid, "environ"), &root);
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_host).collect()
}

/// A test environment whose host processes are killed at the end of the test.
pub(crate) struct Detached {
    pub(crate) room: TestEnv,
}

impl Drop for Detached {
    fn drop(&mut self) {
        for pid in hosts(&self.room) {
            // The process may have just ended, so the result is ignored.
            let _either = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
    }
}

impl Detached {
    /// Starts the team `work` with a script, and waits until its teammate bob is idle. Returns the
    /// id of the host process too.
    pub(crate) fn start(script: &str, more: &[&str]) -> (Self, u32) {
        Self::start_in(TestEnv::new(), script, more)
    }

    /// Starts the team `work` in a test environment that has files already.
    pub(crate) fn start_in(room: TestEnv, script: &str, more: &[&str]) -> (Self, u32) {
        let detached = Self { room };
        let model = detached.room.script(script);
        let args = ["run", "go", "--detach", "--team", "work", "--model", &model, "--json"];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        let ran = detached.room.ok(&args);
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        (detached, u32::try_from(answer["pid"].as_u64().unwrap()).unwrap())
    }

    #[track_caller]
    pub(crate) fn until_log(&self, text: &str) {
        let log = || fs::read_to_string(self.room.find("teams/work/pitcrew/host.log"));
        until(
            text,
            || log().ok().filter(|log| log.contains(text)).map(drop),
            || format!("{:?}", log()),
        );
    }

    #[track_caller]
    pub(crate) fn until_no_host(&self) {
        until(
            "the host process has ended",
            || hosts(&self.room).is_empty().then_some(()),
            || format!("{:?}", hosts(&self.room)),
        );
    }
}

#[test]
fn a_detached_run_says_its_name_and_other_commands_know_its_team() {
    let detached = Detached { room: TestEnv::new() };
    let model = detached.room.script(WORKING);
    let args = ["run", "go", "--detach", "--team", "work", "--model", &model, "--yes"];
    let ran = detached.room.ok(&args);
    assert_eq!(ran.stdout, "work\n", "a script reads the name from stdout");
    let pid = hosts(&detached.room)[0];
    let said = detached.room.redacted(&ran.stderr).replace(&pid.to_string(), "[pid]");
    assert_snapshot!(said, @"team work runs as process [pid]; `pitcrew attach work` shows it, `pitcrew shutdown work` ends it; its log is [root]/teams/work/pitcrew/host.log");
    detached.until_log("bob is idle");
    let log = fs::metadata(detached.room.root().join("teams/work/pitcrew/host.log")).unwrap();
    assert_eq!(log.permissions().mode() & 0o777, 0o600);
    let shown = detached.room.json(&["team", "show"]);
    assert_eq!(shown["running"], json!({"state": "by_pitcrew", "pid": pid}));
    let found = detached.room.json(&["doctor"]);
    assert_eq!(found["findings"], json!([]), "{found:#}");
    let shut = detached.room.json(&["shutdown", "work", "--force"]);
    assert_eq!((&shut["success"], &shut["pid"]), (&json!(true), &json!(pid)), "{shut}");
    detached.until_no_host();
}

#[test]
fn a_second_detached_run_gets_another_name_and_says_so() {
    let (detached, first) = Detached::start(WORKING, &["--yes"]);
    let model = detached.room.script(WORKING);
    let args = ["--json", "run", "go", "--detach", "--team", "work", "--model", &model, "--yes"];
    let answer: Value = serde_json::from_str(&detached.room.ok(&args).stdout).unwrap();
    let second = answer["pid"].as_u64().unwrap();
    assert_ne!(second, u64::from(first));
    let log = detached.room.root().join("teams/work-2/pitcrew/host.log");
    assert_eq!(
        answer,
        json!({"success": true, "team": "work-2", "pid": second, "log": log,
            "attach": "pitcrew attach work-2", "shutdown": "pitcrew shutdown work-2"})
    );
}

/// Returns the document and the exit code of a run that does not start.
fn refused(room: &TestEnv, args: &[&str], stdin: &str) -> (Value, i32) {
    let mut command = room.command(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), stdin.as_bytes()).unwrap();
    let ran = ended(child);
    let document =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {ran:?}"));
    (document, ran.code)
}

#[test]
fn a_detached_run_that_cannot_start_fails_like_one_in_the_foreground() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "backend"]);
    let model = room.script("agents: {team-lead: [{text: Done.}]}");
    let missing = format!("script:{}", room.work().join("missing.yaml").display());
    let cases: &[(&[&str], &str, i32)] = &[
        (&["-", "--model", &model], " \n", 2),
        (&["go", "--model", "nonsense"], "", 2),
        (&["go", "--model", &missing], "", 2),
        (&["go", "--model", &model, "--settings", "missing.json"], "", 2),
        (&["go", "--model", &model, "--permission-mode", "wild"], "", 2),
        (&["go", "--model", &model, "--teammate-mode", "pane:missing-program"], "", 2),
        (&["go", "--model", &model, "--team", ""], "", 2),
        (&["--resume", "nothing"], "", 3),
    ];
    for (args, stdin, code) in cases {
        let line = |more: &[&'static str]| -> Vec<&str> {
            ["--json", "run"].into_iter().chain(args.iter().copied()).chain(more.to_vec()).collect()
        };
        let here = refused(&room, &line(&[]), stdin);
        let detached = refused(&room, &line(&["--detach"]), stdin);
        assert_eq!(here, detached, "{args:?}");
        assert_eq!(detached.1, *code, "{args:?}: {}", detached.0);
        assert_eq!(hosts(&room), Vec::<u32>::new(), "{args:?}");
    }
    let text = room.run(&["run", "go", "--detach", "--model", "nonsense"]);
    assert_eq!(text.stdout, "");
    assert!(text.stderr.starts_with("error: "), "{text:?}");
}

#[test]
fn a_goal_from_stdin_reaches_the_lead_of_a_detached_run() {
    let detached = Detached { room: TestEnv::new() };
    let script = "
agents:
  team-lead:
    - capture:
        goal: {regex: '(the goal \\w+)'}
      text: 'I read ${goal}.'
";
    let model = detached.room.script(script);
    let args = ["run", "-", "--detach", "--team", "work", "--model", &model, "--json"];
    let (answer, code) =
        refused(&detached.room, &args, &format!("{}the goal ends", "x".repeat(200_000)));
    assert_eq!((code, &answer["team"]), (0, &json!("work")), "{answer}");
    detached.until_no_host();
    detached.until_log("I read the goal ends.");
}

#[test]
fn a_refused_key_is_an_error_of_the_command_that_detaches() {
    let room = TestEnv::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _request = std::io::Read::read(&mut stream, &mut [0; 65536]);
            let body = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
            let answer = format!(
                "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
        }
    });
    let fails = |more: &[&str]| {
        let args = ["--json", "run", "go", "--team", "work", "--model", "anthropic/claude-x"];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        let mut command = room.command(&args);
        command.env("ANTHROPIC_BASE_URL", &url).env("ANTHROPIC_API_KEY", "wrong");
        command.env("OLLAMA_HOST", "127.0.0.1:1");
        let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let field = |name: &str| document[name].clone();
        (ran.code, ["success", "error", "message", "exit_code", "hints"].map(field))
    };
    let here = fails(&[]);
    assert_eq!(here.0, 1, "{here:?}");
    assert_eq!(fails(&["--detach"]), here);
    assert_eq!(hosts(&room), Vec::<u32>::new());
    assert!(!room.root().join("teams/work").exists(), "nothing happened in this team");
}

/// A model server that never answers, with the connection on which the host process waits. A closed
/// connection would be an answer too.
type SilentServer = (TcpListener, TcpStream);

/// Starts a detached run whose start waits for a model server that never answers.
fn starting() -> (Detached, std::process::Child, SilentServer) {
    let detached = Detached { room: TestEnv::new() };
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let args = ["run", "go", "--detach", "--team", "work", "--model", "ollama/none", "--yes"];
    let mut command = detached.room.command(&args);
    command.env("OLLAMA_HOST", server.local_addr().unwrap().to_string());
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The host process now waits for an answer.
    let (connection, _) = server.accept().unwrap();
    (detached, child, (server, connection))
}

#[test]
fn a_host_process_that_is_killed_while_it_starts_is_reported_with_its_signal() {
    let (detached, child, _server) = starting();
    kill(hosts(&detached.room)[0], Signal::KILL);
    let ran = ended(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (70, ""), "{ran:?}");
    let said = "error: the process of the run ended before the team ran (signal: 9 (SIGKILL))\n";
    assert!(ran.stderr.ends_with(said), "{ran:?}");
}

#[test]
fn ctrl_c_at_the_start_leaves_no_process_behind() {
    let (detached, child, _server) = starting();
    kill(child.id(), Signal::INT);
    let ran = ended(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (130, ""), "{ran:?}");
    assert_eq!(ran.stderr, "stopped before the team ran\n");
    assert_eq!(hosts(&detached.room), Vec::<u32>::new());
}

#[test]
fn a_starter_that_is_killed_leaves_no_run_that_nobody_knows() {
    let (detached, mut child, _server) = starting();
    child.kill().unwrap();
    child.wait().unwrap();
    detached.until_no_host();
}

#[test]
fn the_end_of_the_starters_terminal_leaves_a_detached_team_running() {
    let Some(terminal) = Terminal::new() else { return };
    let model = terminal.room.script(WORKING);
    let root = terminal.room.root().display().to_string();
    let line = format!(
        "{} --root {root} run go --detach --team work --model {model} --teammate-mode in-process --yes && touch started; exec sleep 1000",
        env!("CARGO_BIN_EXE_pitcrew")
    );
    let args = ["new-session", "-d", "-s", "starts", "-x", "100", "-y", "30", "sh", "-c", &line];
    terminal.tmux_command(&args).env("CLAUDE_CONFIG_DIR", &root).output().unwrap();
    terminal.until("the team runs", || terminal.room.work().join("started").exists().then_some(()));
    let lead = || terminal.room.json(&["team", "lead", "work"])["lead"].clone();
    let before = lead();
    assert_eq!(before["alive"], true, "{before}");
    // The shell and all processes of the terminal get SIGHUP.
    terminal.tmux(&["kill-session", "-t", "starts"]);
    terminal.until("bob works on", || terminal.was("bob", "idle").then_some(()));
    assert_eq!(lead(), before);
    let shut = terminal.room.json(&["shutdown", "work", "--force"]);
    assert_eq!(shut["success"], true, "{shut}");
}

#[test]
fn a_team_that_was_killed_is_resumed_detached_and_completed() {
    let script =
        |lead: &str| format!("agents:\n  team-lead:\n{lead}  bob:\n    - text: I wait.{GOODBYE}");
    let spawn =
        "    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait.}}]\n";
    let thinks = "    - delay_ms: 600000\n      text: I have waited.\n";
    let (detached, pid) = Detached::start(&script(&format!("{spawn}{thinks}")), &["--yes"]);
    detached.until_log("bob is idle");
    kill(pid, Signal::KILL);
    detached.until_no_host();
    let ends = "    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: teammate_terminated, from: message}
    - text: All is done.\n";
    detached.room.script(&script(&format!("{spawn}{ends}")));
    let ran = detached.room.ok(&["run", "--resume", "work", "--detach", "--yes"]);
    assert_eq!(ran.stdout, "work\n");
    detached.until_no_host();
    detached.until_log("All is done.");
    assert!(!detached.room.root().join("teams/work").exists(), "a completed team is archived");
}

#[test]
fn a_log_does_not_grow_without_bound() {
    let turn = format!(
        "{{tools: [{{name: Bash, input: {{command: 'echo {}; exit 1'}}}}]}}",
        "x".repeat(100)
    );
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Task, input: {{name: bob, description: Wait, prompt: Wait.}}}}]\n    - repeat: {{at_most: 100000, turns: [{turn}]}}\n  bob:\n    - text: I wait.\n"
    );
    let (detached, _pid) = Detached::start(&script, &["--yes"]);
    let own = detached.room.root().join("teams/work/pitcrew");
    // Fill the log, as a long run does.
    let filler = "x".repeat(1024 * 1024);
    let mut log = fs::OpenOptions::new().append(true).open(own.join("host.log")).unwrap();
    (0..3).for_each(|_| std::io::Write::write_all(&mut log, filler.as_bytes()).unwrap());
    let length = |name: &str| fs::metadata(own.join(name)).map_or(0, |data| data.len());
    until(
        "a new part begins",
        || (length("host.log.1") > 3_000_000 && length("host.log") < 1_000_000).then_some(()),
        || format!("{} {}", length("host.log.1"), length("host.log")),
    );
    detached.until_log("Bash failed");
}

#[test]
fn options_of_the_output_are_refused_for_a_detached_run() {
    let room = TestEnv::new();
    let ran = room.run(&["run", "go", "--detach", "--output-format", "stream-json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("cannot be used with"), "{ran:?}");
    let off = json!({"pitcrew": {"teams": false}});
    fs::write(room.root().join("settings.json"), off.to_string()).unwrap();
    let ran = room.run(&["run", "go", "--detach", "--model", "script:x"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.stderr.contains("teams are switched off"), "{ran:?}");
}

#[test]
fn a_person_cannot_start_the_host_process_by_hand() {
    let room = TestEnv::new();
    let ran = Ran::of(room.command(&["run-host"]).stdin(Stdio::null()).output().unwrap());
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("only `pitcrew run --detach` starts this command"), "{ran:?}");
}

#[test]
fn a_reader_of_the_starters_output_does_not_wait_for_the_run() {
    let detached = Detached { room: TestEnv::new() };
    let model = detached.room.script(WORKING);
    let line = format!(
        "{} run go --detach --team work --model {model} --yes 2>&1 | cat; echo ended",
        env!("CARGO_BIN_EXE_pitcrew")
    );
    // The pipe ends only when no process of the run has it open any more.
    let mut command: Command = detached.room.tool("sh", &["-c", &line]);
    let ran = Ran::of(command.output().unwrap());
    assert!(ran.stdout.ends_with("ended\n"), "{ran:?}");
    assert_eq!(hosts(&detached.room).len(), 1, "the team goes on: {ran:?}");
}

#[test]
fn a_run_that_has_nothing_to_do_has_run() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: First.}]}");
    room.ok(&["run", "go", "--team", "work", "--model", &model]);
    let again = room.ok(&["run", "--resume", "work", "--detach", "--model", &model]);
    assert_eq!(again.stdout, "work\n", "{again:?}");
    assert!(!again.stderr.contains("warning"), "{again:?}");
}
