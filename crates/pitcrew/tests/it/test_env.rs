//! A root of its own for each test, and the binary run in it: what it printed, as a transcript with everything that
//! changes from run to run replaced by a name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::patience::until;

/// A root, and a folder to stand in.
pub(crate) struct TestEnv {
    dir: tempfile::TempDir,
}

/// How one run of the binary ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// With `PITCREW_KEEP` in the environment the room of a test that fails stays, to be looked at.
impl Drop for TestEnv {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("PITCREW_KEEP").is_some() {
            self.dir.disable_cleanup(true);
            eprintln!("kept: {}", self.dir.path().display());
        }
    }
}

impl TestEnv {
    /// An empty root.
    pub(crate) fn new() -> Self {
        // What a test writes in the place of ours has the mode of ours then, and `doctor` has nothing to say of it.
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
        // Whatever `TMPDIR` is: sockets have short paths, and what a screen or a table shows of a path is cut.
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

    /// Makes the time between two broadcasts longer than any test takes, on a slow machine too.
    pub(crate) fn one_broadcast_an_hour(&self) {
        let limits = r#"{"pitcrew": {"limits": {"broadcastRate": {"count": 1, "seconds": 3600}}}}"#;
        fs::write(self.root().join("settings.json"), limits).unwrap();
    }

    /// The folder teams live below.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The folder the binary stands in.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The folder for temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// The binary, about to run here and nowhere else.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.tool(env!("CARGO_BIN_EXE_pitcrew"), args)
    }

    /// A program, about to run here, with nothing of the environment of who runs the tests but where programs are.
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

    /// Runs the binary.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs the binary, which must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran
    }

    /// Runs the binary with `--json` and reads its answer.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut with_json = vec!["--json"];
        with_json.extend(args);
        let ran = self.run(&with_json);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {ran:?}"))
    }

    /// What somebody at a terminal would see of several runs.
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

    /// The text with everything that changes from run to run replaced by a name.
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
                // What holds of the sandbox is another on each machine.
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

    /// A JSON file below the root, of a team that is completed in its archive.
    pub(crate) fn json_file(&self, path: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.find(path)).unwrap()).unwrap()
    }

    /// Puts a team that is completed back to its place, as a run that is resumed does first.
    pub(crate) fn bring_back(&self, team: &str) {
        let archive = self.find(&format!("teams/{team}/config.json"));
        let archive = archive.parent().and_then(Path::parent).unwrap();
        for (part, place) in [("tasks", "tasks"), ("team", "teams")] {
            fs::rename(archive.join(part), self.root().join(place).join(team)).unwrap();
        }
        fs::remove_dir(archive).unwrap();
    }

    /// Where a file or folder of a team is, `teams/crew/config.json` say: in its place, or in the newest archive of a team that
    /// is not there any more.
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
        // Two of one second are told apart by when they were made.
        let made = |entry: fs::DirEntry| {
            Some((entry.metadata().ok()?.created().ok()?, entry.file_name().into_string().ok()?))
        };
        let names = archives.filter_map(made).filter(|(_, name)| is_of_team(name));
        let part = if place == "teams" { "team" } else { place };
        names.max().map(|(_, name)| name).map_or(live, |name| {
            self.root().join("pitcrew/archive").join(name).join(part).join(below)
        })
    }

    /// Every file and folder below the root with its content, but for the counters of calls, which count refused calls too.
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

/// Every file and folder below `folder`, by path from there; a folder has no content.
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

/// Copies a folder with all in it.
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

/// Adds a message to an inbox as another client does: in place, and under the lock, so that nothing that is written meanwhile
/// is lost, and whoever reads half of it reads again.
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

/// The entries of a journal, but for one that is being written just now, or that a crash cut off.
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
