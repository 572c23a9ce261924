//! A separate root for each test, and the binary that runs in this root. In a transcript of the
//! output, placeholders replace everything that changes from run to run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::patience::until;

/// A temporary folder with a root, a working folder and a folder for temporary files.
pub(crate) struct TestEnv {
    dir: tempfile::TempDir,
}

/// The exit code and the output of one run of the binary.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// If the environment variable `PITCREW_KEEP` is set, the folder of a failed test is not deleted,
/// so that a person can examine it.
impl Drop for TestEnv {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("PITCREW_KEEP").is_some() {
            self.dir.disable_cleanup(true);
            eprintln!("kept: {}", self.dir.path().display());
        }
    }
}

impl TestEnv {
    /// A test environment with an empty root.
    pub(crate) fn new() -> Self {
        // With this umask, a file that a test writes has the same mode as a file of pitcrew.
        // `doctor` therefore does not report the mode of such a file.
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
        // The folder is always below `/tmp`, whatever `TMPDIR` is. The paths of sockets must be
        // short, and screens and tables cut long paths.
        let room = Self { dir: tempfile::tempdir_in("/tmp").unwrap() };
        fs::create_dir(room.root()).unwrap();
        fs::create_dir(room.work()).unwrap();
        fs::create_dir(room.temporary()).unwrap();
        room
    }

    /// A root with the team `crew`, whose members are the lead, ann and bob.
    pub(crate) fn with_crew() -> Self {
        let room = Self::new();
        room.ok(&["team", "create", "crew", "--description", "mend things"]);
        let mut config = room.json_file("teams/crew/config.json");
        for (name, color) in [("ann", "blue"), ("bob", "green")] {
            config["members"].as_array_mut().unwrap().push(serde_json::json!({
                "agentId": format!("{name}@crew"), "name": name, "agentType": "general-purpose", "model": "haiku",
                "prompt": "work", "color": color, "planModeRequired": false, "joinedAt": 1_770_000_000_000_i64,
                "tmuxPaneId": "in-process", "cwd": "/home/dev/project", "subscriptions": [], "backendType": "in-process",
            }));
        }
        fs::write(
            room.root().join("teams/crew/config.json"),
            serde_json::to_string_pretty(&config).unwrap(),
        )
        .unwrap();
        room
    }

    /// Sets the limit to one broadcast in an hour. No test takes an hour, even on a slow machine.
    pub(crate) fn one_broadcast_an_hour(&self) {
        let limits = r#"{"pitcrew": {"limits": {"broadcastRate": {"count": 1, "seconds": 3600}}}}"#;
        fs::write(self.root().join("settings.json"), limits).unwrap();
    }

    /// The folder below which teams are stored.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The working folder of the binary.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// Returns a command that runs the binary and uses only this test environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.tool(env!("CARGO_BIN_EXE_pitcrew"), args)
    }

    /// Returns a command that runs a program in this test environment. From the tester's
    /// environment, the program gets only `PATH` and the places of the Rust toolchain (`CARGO_HOME`
    /// and `RUSTUP_HOME`).
    pub(crate) fn tool(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.work()).env_clear();
        command
            .env("HOME", self.dir.path())
            .env("CLAUDE_CONFIG_DIR", self.root())
            .env("TMPDIR", self.temporary());
        for (name, folder) in
            [("PATH", None), ("CARGO_HOME", Some(".cargo")), ("RUSTUP_HOME", Some(".rustup"))]
        {
            let usual = || Some(std::env::home_dir()?.join(folder?).into_os_string());
            if let Some(value) = std::env::var_os(name).or_else(usual) {
                command.env(name, value);
            }
        }
        command
    }

    /// Runs the binary and waits for its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs the binary, and checks that it succeeds.
    pub(crate) fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran
    }

    /// Runs the binary with `--json`, and parses its answer.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut with_json = vec!["--json"];
        with_json.extend(args);
        let ran = self.run(&with_json);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {ran:?}"))
    }

    /// Returns the commands and outputs of several runs, as a user at a terminal sees them.
    pub(crate) fn transcript(&self, runs: &[&[&str]]) -> String {
        let mut seen = String::new();
        for args in runs {
            let ran = self.run(args);
            let typed: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
            seen += &format!("$ pitcrew {}\n{}{}", typed.join(" "), ran.stdout, ran.stderr);
            if ran.code != 0 {
                seen += &format!("[exit {}]\n", ran.code);
            }
        }
        self.redacted(&seen)
    }

    /// Replaces every part of the text that changes from run to run by a placeholder.
    pub(crate) fn redacted(&self, text: &str) -> String {
        static CHANGING: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| {
            [
                (Regex::new(r"\.repair-\d{8}T\d{6}Z-[0-9a-f]{8}").unwrap(), "[keep]"),
                (
                    Regex::new(
                        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-\d+)?",
                    )
                    .unwrap(),
                    "[uuid]",
                ),
                (Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z").unwrap(), "[time]"),
                (Regex::new(r"\b\d{4}-\d\d-\d\d\b").unwrap(), "[date]"),
                (Regex::new(r"\b1[789]\d{11}\b").unwrap(), "[ms]"),
                // The sandbox profiles that can be enforced differ between machines.
                (Regex::new(r"(?m)^sandbox \w+: .*\n").unwrap(), ""),
                (Regex::new(r"try again in \d+(\.\d+)? s").unwrap(), "try again in [n] s"),
            ]
        });
        let text = text.replace(&self.root().display().to_string(), "[root]");
        let text = text.replace(&self.dir.path().display().to_string(), "[dir]");
        CHANGING
            .iter()
            .fold(text, |text, (regex, name)| regex.replace_all(&text, *name).into_owned())
    }

    /// Reads a JSON file below the root. If its team is completed, reads the file from the team's
    /// archive.
    pub(crate) fn json_file(&self, path: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.find(path)).unwrap()).unwrap()
    }

    /// Moves a completed team from the archive back to its place. A resume of a completed team does
    /// the same in its first step.
    pub(crate) fn bring_back(&self, team: &str) {
        let archive = self.find(&format!("teams/{team}/config.json"));
        let archive = archive.parent().and_then(Path::parent).unwrap();
        for (part, place) in [("tasks", "tasks"), ("team", "teams")] {
            fs::rename(archive.join(part), self.root().join(place).join(team)).unwrap();
        }
        fs::remove_dir(archive).unwrap();
    }

    /// Returns the path of a team's file or folder, for example for `teams/crew/config.json`. If
    /// the team is no longer active, the path leads into the team's newest archive.
    pub(crate) fn find(&self, path: &str) -> PathBuf {
        let Some((place, of_team)) = path.split_once('/') else { return self.root().join(path) };
        let (team, below) = of_team.split_once('/').unwrap_or((of_team, ""));
        let live = self.root().join(path);
        if self.root().join(place).join(team).exists() {
            return live;
        }
        let archives =
            fs::read_dir(self.root().join("pitcrew/archive")).into_iter().flatten().flatten();
        let is_of_team = |name: &str| {
            name.strip_prefix(team)
                .is_some_and(|rest| rest.len() == "-20261120T134500Z-12345678".len())
        };
        // The names of two archives may contain the same second. The creation times of the
        // archives' folders therefore decide which archive is the newest.
        let made = |entry: fs::DirEntry| {
            Some((entry.metadata().ok()?.created().ok()?, entry.file_name().into_string().ok()?))
        };
        let names = archives.filter_map(made).filter(|(_, name)| is_of_team(name));
        let part = if place == "teams" { "team" } else { place };
        names.max().map(|(_, name)| name).map_or(live, |name| {
            self.root().join("pitcrew/archive").join(name).join(part).join(below)
        })
    }

    /// Returns every file and folder below the root, with its content. The folder `pitcrew` of the
    /// root is left out, because its counters change even if a call is refused.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut tree = tree(&self.root());
        tree.retain(|path, _| !path.starts_with("pitcrew"));
        tree
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Returns every file and folder below `folder`, by relative path. For a folder, the content is
/// `None`.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(folder).unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
                found.insert(below, None);
            } else {
                found.insert(below, Some(fs::read(&path).unwrap()));
            }
        }
    }
    found
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for (below, content) in tree(from) {
        match content {
            None => fs::create_dir_all(to.join(below)).unwrap(),
            Some(content) => {
                fs::create_dir_all(to.join(&below).parent().unwrap()).unwrap();
                fs::write(to.join(below), content).unwrap();
            }
        }
    }
}

/// Adds a message to an inbox as another client does: under the lock, and in place. Because of the
/// lock, no concurrent write is lost. A reader that sees only a part of the file reads again.
pub(crate) fn append(inbox: &Path, message: Value) {
    let lock = inbox.with_extension("json.lock");
    until("the inbox is free", || fs::create_dir(&lock).ok(), || lock.display().to_string());
    let mut messages: Vec<Value> = match fs::read_to_string(inbox) {
        Ok(text) => serde_json::from_str(&text).unwrap(),
        Err(_) => Vec::new(),
    };
    messages.push(message);
    fs::write(inbox, serde_json::to_string_pretty(&messages).unwrap()).unwrap();
    fs::remove_dir(lock).unwrap();
}

/// Returns the entries of a journal. If a crash or a write in progress left an incomplete last
/// line, that line is left out.
pub(crate) fn journal_in(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

fn quoted(arg: &str) -> String {
    if arg.contains([' ', '"', '\n']) { format!("{arg:?}") } else { arg.to_owned() }
}
