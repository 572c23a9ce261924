//! A real tmux server that only one test uses, with its panes, the processes of teammates, and the
//! team's files.
//!
//! The server's sockets are in the test's folder. The server ends with the test.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::patience;
use crate::test_env::{Ran, TestEnv, journal_in};

/// A test environment with a private tmux server. In this server, one pane belongs to the user.
pub(crate) struct Terminal {
    pub(crate) room: TestEnv,
    /// The id of the user's pane.
    pub(crate) theirs: String,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server may have ended already, so the result is ignored.
        let _either = self.tmux_command(&["kill-server"]).output();
    }
}

impl Terminal {
    /// Starts a server that reads the configuration `rc`. If tmux is not installed, prints a
    /// message and returns `None`.
    pub(crate) fn with_rc(rc: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let mut terminal = Self { room: TestEnv::new(), theirs: String::new() };
        fs::write(terminal.room.work().parent().unwrap().join(".tmux.conf"), rc).unwrap();
        let args = [
            "new-session",
            "-d",
            "-P",
            "-F",
            "#{pane_id}",
            "-s",
            "mine",
            "-x",
            "200",
            "-y",
            "50",
            "sleep",
            "1000",
        ];
        terminal.theirs = terminal.tmux(&args);
        Some(terminal)
    }

    pub(crate) fn new() -> Option<Self> {
        Self::with_rc("")
    }

    pub(crate) fn tmux_command(&self, args: &[&str]) -> Command {
        let mut command = self.room.tool("tmux", &["-u"]);
        // The environment of the server does not name the root. The lead must pass the root to the
        // programs that it starts in panes.
        command
            .args(args)
            .env("TMUX_TMPDIR", self.room.temporary())
            .env("SHELL", "/bin/sh")
            .env_remove("CLAUDE_CONFIG_DIR");
        command
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let output = self.tmux_command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Returns all panes of the server, each as a text with its id and its pitcrew tag.
    pub(crate) fn panes(&self) -> Vec<String> {
        let panes = self.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{@pitcrew}"]);
        panes.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Returns a pitcrew command that runs outside tmux.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.room.command(args);
        command.env("TMUX_TMPDIR", self.room.temporary());
        command
    }

    /// Runs pitcrew with these arguments, until it ends.
    pub(crate) fn ran(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Starts the team `work` with a script. The teammates run in panes.
    pub(crate) fn start(&self, script: &str, more: &[&str]) -> Child {
        self.start_in("tmux", script, more)
    }

    /// Starts the team `work` with a script. The teammates run in the place that `mode` names.
    pub(crate) fn start_in(&self, mode: &str, script: &str, more: &[&str]) -> Child {
        let mut command = self.run_in(mode, script, more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Returns the command that starts the team `work` with a script. The teammates run in the
    /// place that `mode` names.
    pub(crate) fn run_in(&self, mode: &str, script: &str, more: &[&str]) -> Command {
        let model = self.room.script(script);
        let args =
            ["run", "go", "--team", "work", "--model", &model, "--teammate-mode", mode, "--yes"];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        self.command(&args)
    }

    pub(crate) fn resume(&self) -> Child {
        let args = ["run", "--resume", "work", "--yes"];
        self.command(&args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn team(&self) -> PathBuf {
        self.room.find("teams/work")
    }

    pub(crate) fn config(&self) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.team().join("config.json")).ok()?).ok()
    }

    /// Sends a request about a member to the host, as a display does. Returns the answer.
    pub(crate) fn ask_host(&self, op: &str, member: &str) -> Value {
        let mut host = UnixStream::connect(self.team().join("pitcrew/door")).unwrap();
        writeln!(host, "{}", json!({"op": op, "member": member})).unwrap();
        let mut answer = String::new();
        BufReader::new(host).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    pub(crate) fn journal(&self) -> Vec<Value> {
        journal_in(&self.team().join("pitcrew/journal.ndjson"))
    }

    /// Returns the document of the processes that were started and are not recorded as gone.
    pub(crate) fn started(&self) -> Value {
        let text = fs::read_to_string(self.team().join("pitcrew/started.json"))
            .unwrap_or_else(|_| "{}".to_owned());
        let document: Value = serde_json::from_str(&text).unwrap();
        document.get("started").cloned().unwrap_or_else(|| serde_json::json!({}))
    }

    pub(crate) fn teammates(&self) -> Vec<u32> {
        teammates(&self.room)
    }

    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        patience::until(what, look, || format!("{:?} {:?}", self.panes(), self.journal().last()))
    }

    /// Checks that the server has only the user's pane, that the config lists only the lead, and
    /// that no process or record of a teammate is left.
    #[track_caller]
    pub(crate) fn check_nobody_is_left(&self) {
        assert_eq!(self.panes(), std::slice::from_ref(&self.theirs), "panes");
        assert_eq!(self.teammates(), Vec::<u32>::new(), "processes");
        if let Some(config) = self.config() {
            let names: Vec<&str> = config["members"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| m["name"].as_str().unwrap())
                .collect();
            assert_eq!(names, ["team-lead"], "members: {:#?}", self.journal());
            assert_eq!(self.started(), serde_json::json!({}), "records");
        }
    }

    /// Whether the journal records that a member was in the state `state` at any time.
    pub(crate) fn was(&self, member: &str, state: &str) -> bool {
        let is_it = |entry: &Value| entry["event"] == "member_changed" && entry["member"] == member;
        self.journal().iter().any(|entry| is_it(entry) && entry["state"] == state)
    }
}

/// Finds the processes of teammates in a test environment, in `/proc`. Two kinds of processes are
/// left out: a tmux process that starts a teammate, and a child of a teammate's process.
pub(crate) fn teammates(room: &TestEnv) -> Vec<u32> {
    let root = room.root().display().to_string();
    let is_ours = |pid: &u32| {
        let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let has = |bytes: Vec<u8>, text: &str| {
            String::from_utf8_lossy(&bytes).split('\0').any(|part| part == text)
        };
        let is_binary = read("cmdline").starts_with(env!("CARGO_BIN_EXE_pitcrew").as_bytes());
        is_binary
            && has(read("cmdline"), "agent")
            && has(read("environ"), &format!("CLAUDE_CONFIG_DIR={root}"))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let found: Vec<u32> =
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect();
    found
        .iter()
        .copied()
        .filter(|pid| !parent_of(*pid).is_some_and(|parent| found.contains(&parent)))
        .collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

pub(crate) fn ended(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}

/// Script steps of an agent that waits for a shutdown request and agrees to it.
pub(crate) const GOODBYE: &str = r#"
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
