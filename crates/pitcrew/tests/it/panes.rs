//! Tests of `pitcrew pane check`, which checks whether a pane program conforms to the pane
//! protocol. The tests check the programs for real terminals, and the reports on programs that do
//! not conform.

use std::path::{Path, PathBuf};
use std::process::Command;

use insta::assert_snapshot;
use pitcrew_panes::launch::Launcher;
use pitcrew_panes::{NewPane, PaneError, PaneId, PaneProgram, PaneState, PaneTag, Panes};
use pitcrew_protocol::{AgentName, TeamDir};

use crate::patience::until;
use crate::test_env::{Ran, TestEnv};

/// A private tmux server of the test.
struct Tmux(PathBuf);

impl Drop for Tmux {
    fn drop(&mut self) {
        // If the test succeeded, the server has already ended. The result is therefore ignored.
        let _ = Command::new("tmux").arg("-S").arg(&self.0).arg("kill-server").output();
    }
}

/// A GNU screen whose sockets are in a folder of the test.
struct Screen(PathBuf);

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = Command::new("screen")
            .args(["-S", "check", "-X", "quit"])
            .env("SCREENDIR", &self.0)
            .output();
    }
}

fn is_installed(program: &str, version: &str) -> bool {
    let is_there = Command::new(program).arg(version).output().is_ok();
    if !is_there {
        eprintln!("skipped: {program} is not installed");
    }
    is_there
}

fn private_folder(room: &TestEnv, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = room.temporary().join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// Runs the conformance checks on a pane program. `SCREENDIR` and `XDG_RUNTIME_DIR` are set to
/// `folder`.
fn check(room: &TestEnv, folder: &Path, program: &[&str]) -> serde_json::Value {
    let mut command = room.command(&["--json", "pane", "check"]);
    command.args(program).env("SCREENDIR", folder).env("XDG_RUNTIME_DIR", folder);
    let ran = Ran::of(command.output().unwrap());
    let report: serde_json::Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    assert_eq!(ran.code, i32::from(report["failed"] != 0), "{ran:?}");
    report
}

#[test]
fn tmux_conforms_through_the_adapter() {
    if !is_installed("tmux", "-V") {
        return;
    }
    let room = TestEnv::new();
    let folder = private_folder(&room, "panes");
    let server = Tmux(folder.join("tmux socket"));
    let socket = server.0.to_str().unwrap();
    let report = check(
        &room,
        &folder,
        &[env!("CARGO_BIN_EXE_pitcrew"), "pane", "serve", "tmux", "--socket", socket],
    );
    assert_eq!((&report["failed"], &report["skipped"]), (&0.into(), &0.into()), "{report:#}");
    assert!(report["passed"].as_u64().unwrap() >= 18);
    // After its last pane has closed, a tmux server ends by itself with a short delay.
    let left =
        || Command::new("tmux").arg("-S").arg(socket).args(["list-panes", "-a"]).output().unwrap();
    until(
        "nothing is left",
        || (!left().status.success()).then_some(()),
        || format!("{:?}", left()),
    );
}

#[test]
fn the_shipped_script_for_gnu_screen_conforms() {
    if !(is_installed("screen", "--version") && is_installed("python3", "--version")) {
        return;
    }
    let room = TestEnv::new();
    let folder = private_folder(&room, "panes");
    let _sessions = Screen(folder.clone());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/panes/screen");
    let report = check(&room, &folder, &[script, "--session", "check"]);
    assert_eq!((&report["failed"], &report["skipped"]), (&0.into(), &1.into()), "{report:#}");
}

#[test]
fn the_shipped_scripts_stand_alone_and_share_their_keeper_to_the_letter() {
    let shared = |script: &'static str| {
        let (_, rest) = script.split_once("# === the same in every script of this folder").unwrap();
        rest.split_once("# === the terminal").unwrap().0
    };
    let screen = shared(include_str!("../../../../contrib/panes/screen"));
    assert!(screen.contains("def keep(") && screen.contains("def serve("));
    assert_eq!(screen, shared(include_str!("../../../../contrib/panes/kitty")));
}

#[test]
fn a_shipped_keeper_starts_nothing_from_a_launch_file_that_was_changed() {
    if !is_installed("python3", "--version") {
        return;
    }
    let room = TestEnv::new();
    let folder = private_folder(&room, "panes");
    for script in ["screen", "kitty"] {
        let pane = "0123456789abcdef";
        let launch = format!(
            r#"{{"argv": ["touch", "{0}/hit"], "cwd": "/", "env": {{}}, "tag": "a/b/c", "title": ""}}"#,
            folder.display()
        );
        std::fs::write(folder.join(format!("{pane}.launch")), launch).unwrap();
        let path = format!("{}/../../contrib/panes/{script}", env!("CARGO_MANIFEST_DIR"));
        let mut keeper = Command::new("python3");
        keeper.arg(path).arg("--keep").arg(&folder).args([pane, &"0".repeat(64)]);
        let output = keeper.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("was changed, so its program is not started"), "{script}: {said}");
        assert!(!folder.join("hit").exists() && !output.status.success(), "{script}");
    }
}

/// Makes a folder with a fake `it2` program, and a `PATH` that contains this folder.
fn it2_stand_in(room: &TestEnv) -> (PathBuf, std::ffi::OsString) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = private_folder(room, "it2");
    let script = folder.join("it2");
    std::fs::write(&script, include_str!("it2_stand_in.sh")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut path = folder.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    (folder, path)
}

#[test]
fn iterm2_conforms_with_a_stand_in_for_its_helper() {
    let room = TestEnv::new();
    let (folder, path) = it2_stand_in(&room);
    let mut command = room.command(&[
        "--json",
        "pane",
        "check",
        env!("CARGO_BIN_EXE_pitcrew"),
        "pane",
        "serve",
        "iterm2",
    ]);
    let ran = Ran::of(command.env("PATH", path).env("IT2_STAND_IN", folder).output().unwrap());
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["failed"], &report["skipped"]), (&0.into(), &3.into()), "{report:#}");
}

#[test]
fn the_calls_of_it2_are_these() {
    let room = TestEnv::new();
    let (folder, path) = it2_stand_in(&room);
    let requests = [
        r#"{"id":1,"op":"start","argv":["sleep","300"],"cwd":"/","title":"bob","tag":"0af3/crew/bob"}"#,
        r#"{"id":2,"op":"list","tag":"0af3/crew/"}"#,
    ];
    let requests = requests.map(|line| format!("{line}\n")).concat();
    let serve = |requests: &str| {
        std::fs::write(room.work().join("requests"), requests).unwrap();
        let mut command = room.command(&["pane", "serve", "iterm2"]);
        command.stdin(std::fs::File::open(room.work().join("requests")).unwrap());
        command
            .env("PATH", &path)
            .env("IT2_STAND_IN", &folder)
            .env("ITERM_SESSION_ID", "w0t0p0:LEAD");
        Ran::of(command.output().unwrap())
    };
    let started: serde_json::Value =
        serde_json::from_str(serve(&requests).stdout.lines().next().unwrap()).unwrap();
    let pane = started["ok"]["pane"].as_str().unwrap().to_owned();
    let stopped = serve(&format!(r#"{{"id":1,"op":"stop","pane":"{pane}","tag":"0af3/crew/"}}"#));
    assert_eq!(stopped.stdout, "{\"id\":1,\"ok\":{}}\n");
    let calls = std::fs::read_to_string(folder.join("calls")).unwrap();
    let calls = calls.replace(&pane, "PANE").replace(env!("CARGO_BIN_EXE_pitcrew"), "PITCREW");
    let calls = calls.replace(&started["ok"]["pid"].to_string(), "PID");
    let by_chance = regex::Regex::new(r"'[^']*/pitcrew/launches/[^']*'").unwrap();
    let calls = by_chance.replace_all(&calls, "'SOCKET'");
    let starter = regex::Regex::new(r"'\d+\.\d+'").unwrap();
    assert_snapshot!(starter.replace_all(&calls, "'STARTER'"), @r"
    '--version'
    'session' 'split' '--vertical' '--session' 'w0t0p0:LEAD'
    'session' 'focus' 'w0t0p0:LEAD'
    'session' 'set-var' 'user.pitcrew' '0af3/crew/bob' '--session' 'PANE'
    'session' 'set-name' '--session' 'PANE' '--' 'bob'
    'session' 'run' '--session' 'PANE' '--' 'exec '\''PITCREW'\'' '\''pane-exec'\'' '\''SOCKET'\'' '\''STARTER'\'''
    'session' 'set-var' 'user.pitcrewPid' 'PID' '--session' 'PANE'
    'session' 'list' '--json'
    'session' 'get-var' 'user.pitcrew' '--session' 'PANE'
    '--version'
    'session' 'get-var' 'user.pitcrew' '--session' 'PANE'
    'session' 'close' '--force' '--session' 'PANE'
    ");
}

#[tokio::test]
async fn a_pane_program_is_a_backend_as_any_other() {
    if !is_installed("tmux", "-V") {
        return;
    }
    let room = TestEnv::new();
    let folder = private_folder(&room, "panes");
    let server = Tmux(folder.join("socket"));
    let own = env!("CARGO_BIN_EXE_pitcrew");
    let argv =
        [own, "pane", "serve", "tmux", "--socket", server.0.to_str().unwrap(), "--root", "/"];
    let command = [own, "pane-exec"].map(str::to_owned).to_vec();
    let launcher = Launcher { command, root: room.root() };
    let program = PaneProgram::new(argv.map(str::to_owned).to_vec(), launcher);
    let tag = |agent| PaneTag {
        root: "0af3".into(),
        team: TeamDir::of("crew"),
        agent: Some(AgentName::foreign(agent)),
    };
    let bob = NewPane {
        argv: ["sleep", "300"].map(str::to_owned).to_vec(),
        cwd: folder,
        env: vec![("A".to_owned(), "b".to_owned())],
        title: "bob".to_owned(),
        color: Some("pink".to_owned()),
        tag: tag("bob"),
    };
    let started = program.start(&bob).await.unwrap();
    assert_eq!(program.state(&started.id).await.unwrap(), PaneState::Running { pid: started.pid });
    program.hide(&started.id).await.unwrap();
    program.show(&started.id).await.unwrap();
    assert_eq!(program.screen(&started.id).await.unwrap(), Some(String::new()));
    assert_eq!(
        program.tagged(&PaneTag { agent: None, ..tag("x") }).await.unwrap(),
        [(started.id.clone(), tag("bob"))]
    );
    assert!(matches!(program.stop(&started.id, &tag("ann")).await, Err(PaneError::Foreign { .. })));
    program.stop(&started.id, &tag("bob")).await.unwrap();
    assert_eq!(program.state(&started.id).await.unwrap(), PaneState::Gone);
    assert!(matches!(program.show(&started.id).await, Err(PaneError::Gone { .. })));
    let unfit = NewPane { argv: vec!["x\0".to_owned()], ..bob };
    assert!(matches!(program.start(&unfit).await, Err(PaneError::Unfit { .. })));
}

#[tokio::test]
async fn a_pane_program_that_dies_is_started_anew_and_lacks_are_told() {
    let room = TestEnv::new();
    let count = room.temporary().join("count");
    let script = format!(
        "echo x >> '{}'; {}",
        count.display(),
        after_hello("read line; echo oh no >&2; exit 1")
    );
    let program =
        PaneProgram::new(vec!["sh".to_owned(), "-c".to_owned(), script], Launcher::default());
    for starts in 1..=2 {
        let error = program.state(&PaneId("1".to_owned())).await.unwrap_err();
        assert_eq!(error.to_string(), "sh: ended (exit status: 1); its last words: oh no");
        assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), starts);
    }
    let error = program.screen(&PaneId("1".to_owned())).await.unwrap_err();
    assert_eq!(error.to_string(), "x cannot read a pane's screen");
}

/// Returns a shell program that answers `hello`, the first request of the pane protocol, and then
/// runs the shell code `then`.
fn after_hello(then: &str) -> String {
    let hello = r#"{"id":1,"ok":{"protocol":1,"name":"x","version":"1","capabilities":["list","telepathy"]}}"#;
    format!("read line; echo '{hello}'; {then}")
}

fn first_failure(program: &str) -> String {
    let room = TestEnv::new();
    let report = check(&room, &room.temporary(), &["sh", "-c", program]);
    let failed = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["result"] == "failed")
        .unwrap();
    format!("{}: {}", failed["name"].as_str().unwrap(), failed["why"].as_str().unwrap())
}

#[test]
fn a_program_that_does_not_conform_is_told_what_it_did() {
    let told = [
        "echo oh no >&2; exit 3",
        "read line; echo hello",
        r#"read line; echo '{"id":1,"ok":{"protocol":9,"name":"x","version":""}}'"#,
        r#"read line; echo '{"id":1}'"#,
        &after_hello("read line; echo >&2 and away; exit 0"),
        &after_hello(r#"read line; echo '{"id":77,"ok":{}}'"#),
        &after_hello(
            r#"read line; echo '{"id":2,"error":{"code":"failed","message":"not today"}}'"#,
        ),
        "yes x | tr -d '\\n'",
    ]
    .map(first_failure);
    assert_snapshot!(told.join("\n"), @r#"
    it_says_hello: sh: ended (exit status: 3); its last words: oh no
    it_says_hello: sh: said "hello\n", which is no answer (expected value at line 1 column 1)
    it_says_hello: sh: speaks version 9 of the protocol, not 1
    it_says_hello: sh: gave an answer that is neither ok nor error
    it_says_hello: sh: ended (exit status: 0); its last words: and away
    it_says_hello: sh: answered request 77 when it was asked 2
    it_says_hello: sh: not today (failed)
    it_says_hello: sh: said a line of more than 4194304 bytes
    "#);
}

#[test]
fn a_program_that_is_not_there_fails_and_nothing_more_is_tried() {
    let ran = TestEnv::new().run(&["pane", "check", "/no/such/program"]);
    assert_eq!(ran.code, 1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let why =
        "cannot start the pane program /no/such/program: No such file or directory (os error 2)";
    assert_eq!(lines[0], format!("FAILED  it says hello: {why}"));
    assert_eq!(lines.last(), Some(&"0 passed, 1 failed, 17 skipped"));
}

#[test]
fn a_launch_that_cannot_be_taken_is_told() {
    let room = TestEnv::new();
    assert_snapshot!(room.transcript(&[&["pane-exec", "nowhere", "1.2"]]), @r"
    $ pitcrew pane-exec nowhere 1.2
    error: no launch can be taken at nowhere: No such file or directory (os error 2)
    [exit 70]
    ");
}
