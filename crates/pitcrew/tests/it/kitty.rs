//! Tests the pane script for the terminal kitty. The script is part of pitcrew. A real kitty runs
//! in these tests, on a private display that needs no screen. The script must conform to the pane
//! protocol and must not move the keyboard focus. pitcrew must be able to run and resume a team in
//! kitty's windows.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::patience::{self, PATIENCE, PAUSE};
use crate::terminal::{ended, teammates};
use crate::test_env::{Ran, TestEnv};
use crate::tmux_runs::patient;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/panes/kitty");

/// A process that is ended when this value is dropped, at the end of the test.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // SIGTERM lets the display remove its lock, and lets kitty end its helper processes. The
        // result is ignored, because the process may have ended already.
        let _either = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && asked.elapsed() < PATIENCE {
            thread::park_timeout(PAUSE);
        }
        let _either = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A test environment with a private kitty and one window that belongs to the user.
struct Kitty {
    room: TestEnv,
    address: String,
    /// The id of the user's window.
    own: String,
    // Rust drops the fields in the order of their declaration. kitty must end before its display
    // ends, so the field of kitty is first.
    _kitty: Owned,
    _display: Owned,
}

/// A kitty configuration of a user, with unusual settings.
const SOMEBODYS: &str = "allow_remote_control socket-only
shell /bin/false
shell_integration disabled
enabled_layouts stack,splits
confirm_os_window_close 1
tab_switch_strategy left
env PITCREW_CHECK_1=of the user
";

/// The shell script that runs in the user's window. It writes kitty's address and the window's id
/// to a file. It ends when the window is closed.
const USER: &str =
    r#"echo "$KITTY_LISTEN_ON $KITTY_WINDOW_ID" > ready.new; mv ready.new ready; exec cat"#;

impl Kitty {
    /// Starts kitty with the configuration `conf`. If kitty, Xvfb or python3 is not installed,
    /// prints a message and returns `None`. In CI, a missing program makes the test fail.
    fn new(conf: &str) -> Option<Self> {
        for (program, version) in
            [("kitty", "--version"), ("Xvfb", "-version"), ("python3", "--version")]
        {
            if Command::new(program).arg(version).output().is_err() {
                assert!(
                    std::env::var_os("CI").is_none(),
                    "in CI kitty must run: {program} is not installed"
                );
                eprintln!("skipped: {program} is not installed");
                return None;
            }
        }
        let room = TestEnv::new();
        let (display, number) = display();
        fs::write(
            room.temporary().join("kitty.conf"),
            format!("{conf}listen_on unix:{}\n", socket(&room)),
        )
        .unwrap();
        let mut command = kitty(&room);
        command.env("DISPLAY", number).env("LIBGL_ALWAYS_SOFTWARE", "1").env("LANG", "C.UTF-8");
        command.arg("--config").arg(room.temporary().join("kitty.conf")).args(["sh", "-c", USER]);
        let log = fs::File::create(room.temporary().join("kitty.log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut kitty = Owned(command.spawn().unwrap());
        let ready = until("kitty starts", || {
            let log = || fs::read_to_string(room.temporary().join("kitty.log"));
            assert!(kitty.0.try_wait().unwrap().is_none(), "kitty ended: {:?}", log());
            fs::read_to_string(room.temporary().join("ready")).ok()
        });
        let (address, own) = ready.trim().split_once(' ').unwrap();
        let (address, own) = (address.to_owned(), own.to_owned());
        Some(Self { room, address, own, _kitty: kitty, _display: display })
    }

    /// Runs kitty's own remote control command, and returns its output.
    fn ask(&self, args: &[&str]) -> String {
        let output =
            kitty(&self.room).args(["@", "--to", &self.address]).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns a text for each tab of kitty. The text lists the titles of the tab's windows. `>`
    /// marks the active tab, and `*` marks the active window of each tab.
    fn tabs(&self) -> Vec<String> {
        let screens: Value = serde_json::from_str(&self.ask(&["ls"])).unwrap();
        let list = |value: &Value| value.as_array().unwrap().clone();
        let is = |value: &Value, names: &[&str]| names.iter().any(|name| value[name] == true);
        let window = |it: &Value| {
            let title = if it["id"].as_u64() == self.own.parse().ok() {
                "me"
            } else {
                it["title"].as_str().unwrap()
            };
            format!("{title}{}", if is(it, &["is_active", "is_active_window"]) { "*" } else { "" })
        };
        let tab = |it: &Value| {
            let windows: Vec<String> = list(&it["windows"]).iter().map(window).collect();
            format!("{}{}", if is(it, &["is_active_tab"]) { "> " } else { "" }, windows.join(" "))
        };
        screens
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|screen| list(&screen["tabs"]))
            .map(|it| tab(&it))
            .collect()
    }

    /// Returns a pitcrew command with the environment of the user's window.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.room.command(args);
        command.env("KITTY_LISTEN_ON", &self.address).env("KITTY_WINDOW_ID", &self.own);
        command.env("XDG_RUNTIME_DIR", self.room.temporary());
        command
    }

    fn ran(&self, args: &[&str]) -> Ran {
        let ran = Ran::of(self.command(args).output().unwrap());
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran
    }

    fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs the pane script as if it were in the user's window. Returns the script's answer to a
    /// request.
    fn script(&self, request: &Value) -> Value {
        let own = [("KITTY_LISTEN_ON", self.address.as_str()), ("KITTY_WINDOW_ID", &self.own)];
        answer(&self.room, &own, &[], request)["ok"].clone()
    }

    /// Waits until only the windows in `tabs` are left, and checks that no teammate and no socket
    /// of a pane process is left.
    fn check_nobody_is_left(&self, tabs: &[&str]) {
        until("the windows are closed", || (self.tabs() == tabs).then_some(()));
        until("the teammates are gone", || teammates(&self.room).is_empty().then_some(()));
        let sockets = || {
            let folders = fs::read_dir(self.room.temporary()).unwrap().flatten();
            let ours =
                folders.filter(|it| it.file_name().to_string_lossy().starts_with("pitcrew-kitty-"));
            ours.flat_map(|it| fs::read_dir(it.path()).unwrap()).count()
        };
        until("the sockets of the keepers are gone", || (sockets() == 0).then_some(()));
    }
}

/// Starts a private display. Returns the process of the display and the display's number, which was
/// unused.
fn display() -> (Owned, String) {
    let mut command = Command::new("Xvfb");
    command.args(["-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]);
    let mut display = Owned(
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap(),
    );
    let mut number = String::new();
    BufReader::new(display.0.stdout.take().unwrap()).read_line(&mut number).unwrap();
    assert!(!number.is_empty(), "Xvfb ended: {:?}", display.0.wait());
    (display, format!(":{}", number.trim()))
}

fn socket(room: &TestEnv) -> String {
    room.temporary().join("kitty-{kitty_pid}").display().to_string()
}

/// Returns a kitty command that uses no setting of the user who runs the tests.
fn kitty(room: &TestEnv) -> Command {
    let mut command = Command::new("kitty");
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", room.temporary());
    command.current_dir(room.temporary());
    command
}

/// Runs the pane script and returns its answer to one request.
fn answer(room: &TestEnv, env: &[(&str, &str)], args: &[&str], request: &Value) -> Value {
    let mut command = Command::new(SCRIPT);
    command
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .envs(env.iter().copied());
    command.env("XDG_RUNTIME_DIR", room.temporary()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = command.spawn().unwrap();
    script.stdin.take().unwrap().write_all(format!("{request}\n").as_bytes()).unwrap();
    serde_json::from_slice(&script.wait_with_output().unwrap().stdout).unwrap()
}

fn start(agent: &str, command: &str) -> Value {
    json!({"id": 1, "op": "start", "argv": ["sh", "-c", command], "cwd": "/", "title": agent, "tag": format!("0/x/{agent}")})
}

#[track_caller]
fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    patience::until(what, look, String::new)
}

#[test]
fn the_shipped_script_for_kitty_conforms() {
    let Some(kitty) = Kitty::new(SOMEBODYS) else { return };
    let ran = Ran::of(kitty.command(&["--json", "pane", "check", SCRIPT]).output().unwrap());
    let report: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    assert_eq!((&report["failed"], &report["skipped"]), (&0.into(), &0.into()), "{report:#}");
    assert!(report["passed"].as_u64().unwrap() >= 18);
    kitty.check_nobody_is_left(&["> me*"]);
}

#[test]
fn a_team_runs_in_kitty_is_hidden_and_shown_and_goes_on_after_its_lead_died() {
    let Some(kitty) = Kitty::new("allow_remote_control yes\n") else { return };
    let (model, mode) = (kitty.room.script(&patient()), format!("pane:{SCRIPT}"));
    let mut run = kitty.spawn(&[
        "run",
        "go",
        "--team",
        "work",
        "--model",
        &model,
        "--teammate-mode",
        &mode,
        "--yes",
    ]);
    until("bob waits", || kitty.room.work().join("waiting").exists().then_some(()));
    assert_eq!(kitty.tabs(), ["> me* bob"]);
    kitty.ran(&["member", "hide", "bob"]);
    assert_eq!(kitty.tabs(), ["> me*", "bob*"]);
    kitty.ran(&["member", "show", "bob"]);
    assert_eq!(kitty.tabs(), ["> me* bob"]);
    let bob = teammates(&kitty.room);
    run.kill().unwrap();
    run.wait().unwrap();
    let run = kitty.spawn(&["run", "--resume", "work", "--yes"]);
    let lead = u64::from(run.id());
    let started = kitty.room.root().join("teams/work/pitcrew/started.json");
    until("bob is the new lead's", || {
        let started: Value = serde_json::from_slice(&fs::read(&started).ok()?).ok()?;
        (started["started"]["bob"]["owner"]["pid"] == lead).then_some(())
    });
    assert_eq!((bob.len(), teammates(&kitty.room)), (1, bob), "it is the same bob");
    fs::write(kitty.room.work().join("word"), "").unwrap();
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{ran:?}");
    kitty.check_nobody_is_left(&["> me*"]);
}

#[test]
fn wherever_the_user_looks_the_focus_stays() {
    let Some(kitty) = Kitty::new(SOMEBODYS) else { return };
    let other = kitty.ask(&["launch", "--type", "tab", "--title", "other", "cat"]);
    let bob = kitty.script(&start("bob", "exec cat"))["pane"].clone();
    let mut seen = vec![("the user looks at another tab", kitty.tabs())];
    let mut then = |what, op| {
        assert_eq!(kitty.script(&json!({"id": 2, "op": op, "pane": bob})), json!({}));
        seen.push((what, kitty.tabs()));
    };
    then("bob is shown", "show");
    then("bob is hidden", "hide");
    kitty.ask(&["focus-window", "--match", &format!("id:{}", kitty.own)]);
    then("the user is back, and bob is shown", "show");
    kitty.ask(&["focus-window", "--match", "title:bob"]);
    then("the user went to bob and hides it", "hide");
    kitty.ask(&["focus-window", "--match", &format!("id:{other}")]);
    assert_eq!(
        kitty.script(&json!({"id": 2, "op": "stop", "pane": bob, "tag": "0/x/bob"})),
        json!({})
    );
    until("bob's window is closed", || (kitty.tabs().len() == 2).then_some(()));
    seen.push(("bob is stopped", kitty.tabs()));
    let ann = answer(&kitty.room, &[], &["--to", &kitty.address], &start("ann", "exec cat"))["ok"]
        ["pane"]
        .clone();
    seen.push(("ann is started from elsewhere", kitty.tabs()));
    let stop = json!({"id": 3, "op": "stop", "pane": ann, "tag": "0/x/"});
    assert_eq!(answer(&kitty.room, &[], &[], &stop), json!({"id": 3, "ok": {}}));
    let seen: Vec<String> =
        seen.iter().map(|(what, tabs)| format!("{what}: {}", tabs.join(" | "))).collect();
    assert_snapshot!(seen.join("\n"), @"
    the user looks at another tab: me* | > other* | bob*
    bob is shown: me* bob | > other*
    bob is hidden: me* | > other* | bob*
    the user is back, and bob is shown: > me* bob | other*
    the user went to bob and hides it: > me* | other* | bob*
    bob is stopped: me* | > other*
    ann is started from elsewhere: me* | > other* | ann*
    ");
    kitty.check_nobody_is_left(&["me*", "> other*"]);
}

#[test]
fn a_window_is_closed_with_its_pane_though_something_in_it_stays() {
    let Some(kitty) = Kitty::new(SOMEBODYS) else { return };
    let folder = kitty.room.temporary();
    let [end, ended] = ["end", "ended"].map(|name| folder.join(name));
    // This command ends when the test creates the file `end`, or when the test environment is
    // removed.
    let stays =
        "trap '' HUP; while test -d DIR && ! test -e DIR/end; do sleep 0.1; done; echo > DIR/ended";
    let stays = stays.replace("DIR", folder.to_str().unwrap());
    let started = kitty.script(&start("bob", &stays));
    let stop = |tag: &str| {
        kitty.script(&json!({"id": 2, "op": "stop", "pane": started["pane"], "tag": tag}))
    };
    assert_eq!(stop("0/x/ann"), Value::Null, "it is not ann's");
    assert_eq!(kitty.tabs(), ["> me* bob"]);
    assert_eq!(stop("0/x/bob"), json!({}));
    kitty.check_nobody_is_left(&["> me*"]);
    assert!(!ended.exists(), "its end closed the window");
    fs::write(end, "").unwrap();
    until("it ends", || ended.exists().then_some(()));
}

#[test]
fn a_kitty_that_cannot_be_controlled_is_told_with_what_to_do() {
    let Some(kitty) = Kitty::new("allow_remote_control password\n") else { return };
    let told = |address: &str, args: &[&str]| {
        let own = [("KITTY_LISTEN_ON", address), ("KITTY_WINDOW_ID", "1")];
        let env: &[(&str, &str)] = if address.is_empty() { &[] } else { &own };
        let error = &answer(&kitty.room, env, args, &start("bob", "exec cat"))["error"];
        format!("{}: {}", error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
    };
    let unanswered = [told("", &[]), told("unix:/no/such/kitty", &[]), told("", &["--to", "here"])];
    assert_snapshot!(unanswered.join("\n"), @"
    failed: there is no kitty here: KITTY_LISTEN_ON is not set; kitty must let itself be controlled: put `allow_remote_control socket-only` and `listen_on unix:/tmp/kitty` into kitty.conf, start kitty anew, and run pitcrew in a window of it
    failed: kitty does not answer at unix:/no/such/kitty: [Errno 2] No such file or directory; kitty must let itself be controlled: put `allow_remote_control socket-only` and `listen_on unix:/tmp/kitty` into kitty.conf, start kitty anew, and run pitcrew in a window of it
    failed: kitty does not answer at here: that is no address of a socket; kitty must let itself be controlled: put `allow_remote_control socket-only` and `listen_on unix:/tmp/kitty` into kitty.conf, start kitty anew, and run pitcrew in a window of it
    ");
    let refused = told(&kitty.address, &[]);
    assert!(refused.starts_with("failed: kitty refuses to ls: "), "{refused}");
    assert!(
        refused.contains("put `allow_remote_control socket-only` and `listen_on "),
        "{refused}"
    );
}
