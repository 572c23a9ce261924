//! The page in a real browser. A team runs, `pitcrew serve` or `pitcrew demo --serve` serves it, and
//! the tests in the folder `tests/browser` drive a headless Chromium. `./test` installs what they
//! need.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use pitcrew_view::TeamState;
use pitcrew_view::client_stream::ClientStream;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::detached::Detached;
use crate::test_env::TestEnv;

pub(crate) const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/browser");

/// The folder of the screenshots.
const SHOTS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/page");

/// The screenshots that the README shows. If `PITCREW_WRITE_DOCS=1` is set, the test of their device
/// writes them.
const PICTURES: [&str; 3] = ["desk-demo-team", "desk-demo-review", "phone-demo-plan"];

/// The maximum size of a picture in bytes.
const PICTURE_MOST: u64 = 150_000;

/// The recorded streams of another client. The page shows the states that they lead to.
pub(crate) const STREAMS: &[(&str, &str)] = &[
    ("guide", include_str!("../../../view/tests/it/recordings/stream-guide.ndjson")),
    (
        "lifecycle",
        include_str!("../../../../fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson"),
    ),
    (
        "errors",
        include_str!("../../../../fixtures/claude-2.1.39/stream-json/errors-and-duplicates.ndjson"),
    ),
];

/// A server that is killed at the end of the test.
pub(crate) struct Serving {
    server: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) link: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The server may have ended, so the result is ignored.
        let _either = self.server.kill();
        let _code = self.server.wait();
    }
}

impl Serving {
    pub(crate) fn start(room: &TestEnv, args: &[&str]) -> Self {
        let mut command = room.command(args);
        let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Self { server, stdout, link: said["link"].as_str().unwrap().to_owned() }
    }

    /// Ends the server as Ctrl-C does. Returns what it has printed after its first line.
    fn interrupt(mut self) -> Value {
        kill_process(Pid::from_child(&self.server), Signal::INT).unwrap();
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).unwrap();
        serde_json::from_str(&printed).unwrap()
    }
}

/// Returns the state of the team after each line of a stream.
fn states(stream: &str) -> Value {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    let after = |line: &str| {
        reader.feed(&mut state, format!("{line}\n").as_bytes());
        json!(state)
    };
    stream.lines().map(after).collect()
}

/// Says why the browser tests cannot run here. Returns `None` if they can.
pub(crate) fn lacks() -> Option<&'static str> {
    let runs = |program: &str| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    if !runs("node") {
        return Some("node is not installed");
    }
    if !["chromium", "chromium-browser", "google-chrome"].into_iter().any(runs) {
        return Some("chromium is not installed");
    }
    let is_there = Path::new(TESTS).join("node_modules/playwright-core").exists();
    (!is_there).then_some("`npm ci` was not run in tests/browser")
}

/// The arguments of the run. The page shows its limits.
const LIMITED: [&str; 6] =
    ["--allow", "Bash(sleep:*)", "--max-turns", "900", "--max-cost-usd", "5"];

/// Starts a team and a server, and runs the browser tests. The page shows the recorded streams too.
fn check(device: &str, streams: &[(&str, &str)]) {
    if let Some(why) = lacks() {
        eprintln!("skipped: {why}");
        return;
    }
    let room = TestEnv::new();
    make_repository(&room);
    let script = fs::read_to_string(Path::new(TESTS).join("team.yaml")).unwrap();
    let (detached, _pid) = Detached::start_in(room, &script, &LIMITED);
    let room = &detached.room;
    let serving = Serving::start(room, &["--json", "serve", "--port", "0"]);
    let mut node = tester(room, &serving, device);
    for (name, stream) in streams {
        let file = room.temporary().join(format!("{name}.json"));
        fs::write(file, states(stream).to_string()).unwrap();
        node.env("PITCREW_STATES", room.temporary());
    }
    must_pass(node);
    detached.until_no_host();
}

/// Runs the browser test that leads the team of the demo.
fn check_demo(device: &str) {
    if let Some(why) = lacks() {
        eprintln!("skipped: {why}");
        return;
    }
    let room = TestEnv::new();
    let serving = Serving::start(&room, &["--json", "demo", "--serve", "--dir", "demo"]);
    let root = room.work().join("demo/root");
    let root = root.to_str().unwrap();
    let args = ["--root", root, "devices", "add", "--name", "phone", "--scope", "watch"];
    let added = room.json(&args);
    let url = serving.link.split("/open/").next();
    assert_eq!(added["url"].as_str(), url, "{added}");
    let mut node = tester(&room, &serving, device);
    node.env("PITCREW_DEMO", "1");
    must_pass(node);
    let shown = serving.interrupt();
    assert_eq!(shown["success"], true, "{shown:#}");
    assert_eq!(shown["tests_after"], json!({"passed": 8, "failed": 0}));
    assert_eq!((&shown["plans"], &shown["permissions_asked"]), (&json!(2), &json!(1)));
    assert_eq!(shown["permissions_refused"], 0);
    if std::env::var_os("PITCREW_WRITE_DOCS").is_some() {
        PICTURES
            .iter()
            .filter(|name| name.starts_with(device))
            .for_each(|name| write_picture(name));
    }
}

fn write_picture(name: &str) {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures");
    let size = fs::copy(format!("{SHOTS}/{name}.png"), format!("{docs}/{name}.png")).unwrap();
    assert!(size < PICTURE_MOST, "{name} has {size} bytes");
}

/// Returns the command that runs the browser tests on a server.
fn tester(room: &TestEnv, serving: &Serving, device: &str) -> Command {
    let mut node = room.tool("node", &["--test", "--test-reporter=spec", "page.test.mjs"]);
    node.current_dir(TESTS).env("PITCREW_LINK", &serving.link).env("PITCREW_DEVICE", device);
    node.env("PITCREW_SHOTS", SHOTS);
    node
}

#[track_caller]
fn must_pass(mut node: Command) {
    let tested = node.output().unwrap();
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{said}{}", String::from_utf8_lossy(&tested.stderr));
}

/// Makes the working folder a repository. The review shows what changed since its newest commit.
fn make_repository(room: &TestEnv) {
    for args in [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "x"]] {
        let user = ["-c", "user.name=Ada", "-c", "user.email=ada@localhost"];
        let ran = room.tool("git", &[&user[..], args].concat()).status().unwrap();
        assert!(ran.success(), "{args:?}");
    }
}

#[test]
fn the_page_shows_recorded_streams_and_leads_a_team() {
    check("desk", STREAMS);
}

#[test]
fn the_page_leads_a_team_by_touch_on_a_small_screen() {
    check("phone", &[]);
}

#[test]
fn a_person_leads_the_demo_from_the_page() {
    check_demo("desk");
}

#[test]
fn a_person_leads_the_demo_by_touch_on_a_small_screen() {
    check_demo("phone");
}
