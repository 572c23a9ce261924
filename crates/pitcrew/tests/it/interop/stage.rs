//! The isolated environment of a test: a tmux server, a model server, and a `PATH` with the
//! reference client and the pitcrew binary. The environment's methods start these programs and read
//! their screens, files and model requests.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::script::Script;
use crate::patience;
use crate::test_env::Ran;

/// The name of the team in every test.
pub(crate) const TEAM: &str = "probe";

/// The time limit of each wait: one minute. The client sometimes loses one of its own messages. The
/// test then waits in vain and must fail soon, so that the test can be run again.
const PATIENCE: Duration = Duration::from_secs(60);

/// If a key press has no effect after this time, the key is pressed again.
const PRESS_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The exit code of the script `sealed.sh` if the machine has no namespaces.
const NO_NAMESPACES: i32 = 3;

/// The programs that the tests need, each with the argument that makes the program print its
/// version.
const NEEDED: [(&str, &str); 6] = [
    ("node", "--version"),
    ("npm", "--version"),
    ("python3", "-V"),
    ("tmux", "-V"),
    ("ip", "-V"),
    ("unshare", "-V"),
];

/// The version of the reference client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Version 2.1.39, which writes the team's files in the older form, the named dialect.
    Recorded,
    /// Version 2.1.332, which writes the team's files in the newer form, the session dialect.
    Today,
}

/// An isolated environment. All its processes are in one process namespace. Dropping the `Stage`
/// ends all of them.
pub(crate) struct Stage {
    sealed: Child,
    dir: tempfile::TempDir,
    client: Client,
    _turn: File,
}

/// A pane of the stage's tmux server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pane(pub(crate) String);

/// One request that a model received.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    body: Value,
}

impl Stage {
    /// Starts the environment. If a needed program is missing, prints a message and returns `None`.
    pub(crate) fn set(client: Client, script: &Script) -> Option<Self> {
        Self::set_in(client, script, |_| ())
    }

    /// Starts the environment, and then calls a function that prepares files in the working folder.
    /// In the script, SECRETFILE stands for the path of `secrets/key.txt` in the working folder.
    pub(crate) fn set_in(
        client: Client,
        script: &Script,
        furnish: impl FnOnce(&Path),
    ) -> Option<Self> {
        let missing = NEEDED.iter().find(|(command, answers)| !answers_to(command, answers));
        if let Some((command, _)) = missing {
            return skipped(&format!("{command} is missing"));
        }
        let turn =
            File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop.turn")).unwrap();
        turn.lock().unwrap();
        let installed = Command::new(harness("install.sh")).output().unwrap();
        if !installed.status.success() {
            return skipped(&format!(
                "the client cannot be installed: {}",
                String::from_utf8_lossy(&installed.stderr)
            ));
        }
        if client == Client::Today && !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return skipped("today's client is a program for Linux on x86-64");
        }
        let dir = tempfile::tempdir().unwrap();
        let script_file = dir.path().join("script.json");
        let out = dir.path().join("out");
        let secret = out.join("work/secrets/key.txt");
        fs::write(&script_file, script.to_json().replace("SECRETFILE", secret.to_str().unwrap()))
            .unwrap();
        let mut sealed = Command::new(harness("sealed.sh"));
        sealed
            .arg(&script_file)
            .arg(&out)
            .args(["tmux", "-f", "/dev/null", "-S"])
            .arg(out.join("tmux"))
            .arg("-D");
        if client == Client::Today {
            sealed.env("CLIENT", "today");
        }
        let sealed = sealed.env("EXTRA_PATH", our_folder()).stdin(Stdio::null()).spawn().unwrap();
        let mut stage = Self { sealed, dir, client, _turn: turn };
        let look = || {
            let is_set = stage.out().join("tmux").exists().then_some(None);
            is_set.or_else(|| stage.sealed.try_wait().unwrap().map(Some))
        };
        let Some(ended) = patience::until("the stage is set", look, String::new) else {
            furnish(&stage.work());
            return Some(stage);
        };
        assert_eq!(ended.code(), Some(NO_NAMESPACES), "the stage cannot be set");
        skipped("there are no namespaces")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// The root folder that pitcrew and the client share.
    pub(crate) fn root(&self) -> PathBuf {
        self.out().join("home/.claude")
    }

    /// The folder in which all programs start.
    pub(crate) fn work(&self) -> PathBuf {
        self.out().join("work")
    }

    /// Starts a command in its own tmux window. When the command ends, its pane closes.
    pub(crate) fn pane(&self, argv: &[&str]) -> Pane {
        let work = self.work();
        let is_first = !self.tmux(&["has-session", "-t", "main"]).status.success();
        let place: &[&str] = if is_first {
            &["new-session", "-s", "main", "-x", "240", "-y", "60"]
        } else {
            &["new-window", "-t", "main:"]
        };
        let mut command = place.to_vec();
        command.extend(["-d", "-P", "-F", "#{pane_id}", "-c", work.to_str().unwrap(), "--"]);
        command.extend(argv);
        // If the command is a single word, tmux runs it in a shell. The word `env` before the
        // command prevents this.
        if argv.len() == 1 {
            command.push("");
            let at = command.len() - 2;
            command.splice(at.., ["env", argv[0]]);
        }
        let started = self.tmux(&command);
        assert!(started.status.success(), "{argv:?}: {started:?}");
        Pane(String::from_utf8(started.stdout).unwrap().trim().to_owned())
    }

    /// Kills the process in a pane, and closes the pane.
    pub(crate) fn kill(&self, pane: &Pane) {
        let pid = self.tmux(&["display-message", "-p", "-t", &pane.0, "#{pane_pid}"]);
        let pid = String::from_utf8(pid.stdout).unwrap();
        let killed = self.tmux(&["run-shell", &format!("kill -9 {}", pid.trim())]);
        assert!(killed.status.success(), "{killed:?}");
        self.until("the killed pane gone", || (!self.panes().contains(pane)).then_some(()));
    }

    /// All panes of the tmux server.
    pub(crate) fn panes(&self) -> Vec<Pane> {
        let listed = self.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]);
        String::from_utf8(listed.stdout).unwrap().lines().map(|id| Pane(id.to_owned())).collect()
    }

    /// Returns the text that a pane shows. The text is empty if the pane is gone.
    pub(crate) fn screen(&self, pane: &Pane) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p", "-t", &pane.0]).stdout).unwrap()
    }

    pub(crate) fn shows(&self, pane: &Pane, text: &str) -> bool {
        self.screen(pane).contains(text)
    }

    /// Presses a key in a pane.
    pub(crate) fn press(&self, pane: &Pane, key: &str) {
        assert!(self.tmux(&["send-keys", "-t", &pane.0, key]).status.success(), "{pane:?} is gone");
    }

    /// Answers a question in a pane with a key, and returns the result of `done`. After the client
    /// shows a question, it ignores keys for a moment. The key is therefore pressed again while the
    /// question is visible and `done` returns `None`.
    pub(crate) fn answer<T>(
        &self,
        pane: &Pane,
        question: &str,
        key: &str,
        done: impl Fn() -> Option<T>,
    ) -> T {
        self.shown(pane, question);
        let pressed = Cell::new(None::<Instant>);
        self.until(&format!("what comes of {key} to {question:?}"), || {
            let answered = done();
            let is_due = pressed.get().is_none_or(|at| at.elapsed() > PRESS_AGAIN_AFTER);
            if answered.is_none() && is_due && self.shows(pane, question) {
                self.press(pane, key);
                pressed.set(Some(Instant::now()));
            }
            answered
        })
    }

    /// Types a line into a prompt. When the line is visible, presses Enter.
    pub(crate) fn enter(&self, pane: &Pane, line: &str) {
        assert!(
            self.tmux(&["send-keys", "-l", "-t", &pane.0, line]).status.success(),
            "{pane:?} is gone"
        );
        self.until(&format!("{line:?} in the prompt"), || self.shows(pane, line).then_some(()));
        self.press(pane, "Enter");
    }

    /// Starts the client as lead and types its first prompt.
    pub(crate) fn client_leads(&self) -> Pane {
        self.client_leads_with(&[])
    }

    /// Starts the client as lead, with additional environment variables, and types its first
    /// prompt.
    pub(crate) fn client_leads_with(&self, env: &[(&str, &str)]) -> Pane {
        let (argv, prompt): (&[&str], _) = match self.client {
            Client::Recorded => (&["claude", "--teammate-mode", "tmux"], "? for shortcuts"),
            // The client offers its task tools to most models only if they are named. Without a
            // mode it would begin in `auto`, whose check needs a server of its maker.
            Client::Today => (
                &[
                    "claude",
                    "--teammate-mode",
                    "tmux",
                    "--model",
                    "claude-sonnet-5-5",
                    "--permission-mode",
                    "default",
                    "--allowedTools",
                    "Agent",
                    "SendMessage",
                    "TaskCreate",
                    "TaskGet",
                    "TaskList",
                    "TaskUpdate",
                ],
                "❯",
            ),
        };
        let set: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let words: Vec<&str> = std::iter::once("env")
            .chain(set.iter().map(String::as_str))
            .chain(argv.iter().copied())
            .collect();
        let lead = self.pane(&words);
        self.until("the client's prompt", || self.shows(&lead, prompt).then_some(()));
        self.enter(&lead, "ROLE:lead begin");
        lead
    }

    /// Returns the name of the team's folder. It is [`TEAM`], or the name of the session if the
    /// client leads a session.
    pub(crate) fn team(&self) -> String {
        let teams = fs::read_dir(self.root().join("teams")).into_iter().flatten().flatten();
        let names = teams.map(|entry| entry.file_name().into_string().unwrap());
        names
            .into_iter()
            .find(|name| name.starts_with("session-"))
            .unwrap_or_else(|| TEAM.to_owned())
    }

    /// Runs the pitcrew binary inside the environment, and waits for its end.
    pub(crate) fn pitcrew(&self, args: &[&str]) -> Ran {
        let words = args.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(" ");
        self.run(&format!("pitcrew {words}"))
    }

    /// Runs a line of shell text inside the environment, in the working folder, and returns what it
    /// prints. The line may fail.
    pub(crate) fn shell(&self, line: &str) -> String {
        // The server of tmux starts with its first session.
        if !self.tmux(&["has-session", "-t", "main"]).status.success() {
            self.pane(&["sh", "-c", "exec sleep 100000"]);
        }
        self.run(&format!("{{ {line}; }}")).stdout
    }

    fn run(&self, line: &str) -> Ran {
        let file = |kind| self.dir.path().join(format!("ran.{kind}"));
        let [work, out, err] =
            [self.work(), file("out"), file("err")].map(|path| quoted(path.to_str().unwrap()));
        let code = file("code");
        let line = format!(
            "cd {work} && {line} >{out} 2>{err} </dev/null; echo $? >{}",
            quoted(code.to_str().unwrap())
        );
        let script = file("sh");
        fs::write(&script, &line).unwrap();
        let ran = self.tmux(&["run-shell", &format!("sh {}", quoted(script.to_str().unwrap()))]);
        assert!(ran.status.success(), "{line}: {ran:?}");
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        Ran {
            code: read(code).trim().parse().unwrap(),
            stdout: read(file("out")),
            stderr: read(file("err")),
        }
    }

    /// Returns the team's config. While the client writes the file in place, the config cannot be
    /// read, and the result is `None`.
    pub(crate) fn config(&self) -> Option<Value> {
        json_in(&self.root().join("teams").join(self.team()).join("config.json"))
    }

    /// Returns a member's entry in the config. The result is `None` if there is no such entry or
    /// the config cannot be read.
    pub(crate) fn member(&self, name: &str) -> Option<Value> {
        self.config()?["members"].as_array()?.iter().find(|member| member["name"] == name).cloned()
    }

    /// Waits until the config has an entry for a member, and returns the entry.
    pub(crate) fn entry(&self, name: &str) -> Value {
        self.until(&format!("{name} in the config"), || self.member(name))
    }

    /// Whether the config can be read and does not contain the member `name`.
    pub(crate) fn is_gone(&self, name: &str) -> bool {
        self.config().is_some() && self.member(name).is_none()
    }

    /// Returns the messages of an inbox.
    pub(crate) fn inbox(&self, name: &str) -> Vec<Value> {
        let path = self
            .root()
            .join("teams")
            .join(self.team())
            .join("inboxes")
            .join(format!("{name}.json"));
        json_in(&path).and_then(|messages| messages.as_array().cloned()).unwrap_or_default()
    }

    /// Returns the messages that pitcrew moved out of a member's inbox into the file
    /// `pitcrew/read/NAME.ndjson` of the team, one message per line.
    pub(crate) fn kept(&self, name: &str) -> Vec<String> {
        let path = self
            .root()
            .join("teams")
            .join(self.team())
            .join("pitcrew/read")
            .join(format!("{name}.ndjson"));
        fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Copies the team's current files, if the environment variable `PITCREW_RECORD` is set. The
    /// variable names a folder, and the copies go to the subfolder `to` of that folder. In the
    /// copies, paths of this machine are replaced by neutral paths.
    pub(crate) fn record(&self, to: &str) {
        let Some(folder) = std::env::var_os("PITCREW_RECORD") else { return };
        let (team, out) = (self.team(), self.out().to_str().unwrap().to_owned());
        let to = Path::new(&folder).join(to);
        let names = [
            format!("teams/{team}/config.json"),
            format!("teams/{team}/inboxes"),
            format!("teams/{team}/pitcrew/read"),
            format!("tasks/{team}"),
        ];
        for file in names.iter().flat_map(|name| files_in(&self.root().join(name))) {
            let path = to.join(file.strip_prefix(self.root()).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, fs::read_to_string(&file).unwrap().replace(&out, "/home/user"))
                .unwrap();
        }
    }

    /// Returns the frames of one kind in an inbox. A frame is a message whose text is a JSON
    /// object, such as a shutdown request.
    pub(crate) fn frames(&self, inbox: &str, kind: &str) -> Vec<Value> {
        let texts = self
            .inbox(inbox)
            .into_iter()
            .filter_map(|message| message["text"].as_str().map(str::to_owned));
        let frames = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
        frames.filter(|frame| frame["type"] == kind).collect()
    }

    /// Waits for the `nth` frame of one kind in an inbox, counted from 1, and returns the frame.
    pub(crate) fn frame(&self, inbox: &str, kind: &str, nth: usize) -> Value {
        self.until(&format!("{kind} {nth} in the inbox of {inbox}"), || {
            self.frames(inbox, kind).get(nth - 1).cloned()
        })
    }

    /// Waits until a task can be read, and returns the task. The client writes task files in place,
    /// so a file can be incomplete for a moment.
    pub(crate) fn task(&self, id: &str) -> Value {
        let path = self.root().join("tasks").join(self.team()).join(format!("{id}.json"));
        self.until(&format!("task {id}"), || json_in(&path))
    }

    /// Returns the requests to the model of a role, in order. The client also asks a model for
    /// titles and for suggestions. These requests are left out.
    pub(crate) fn requests(&self, role: &str) -> Vec<Request> {
        let lines = fs::read_to_string(self.out().join("requests.ndjson")).unwrap_or_default();
        let logged = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let asked =
            logged.filter(|logged| logged["role"] == role && logged["request"]["tools"].is_array());
        asked.map(|mut logged| Request { body: logged["request"].take() }).collect()
    }

    /// Whether the model of a role has received `text` at any time.
    pub(crate) fn was_told(&self, role: &str, text: &str) -> bool {
        self.requests(role).iter().any(|request| request.says(text))
    }

    /// Waits until the model of a role has received `text`.
    pub(crate) fn told(&self, role: &str, text: &str) {
        self.until(&format!("{text:?} told to {role}"), || self.was_told(role, text).then_some(()));
    }

    /// Waits until a pane shows `text`.
    pub(crate) fn shown(&self, pane: &Pane, text: &str) {
        self.until(&format!("{text:?} on the screen of {pane:?}"), || {
            self.shows(pane, text).then_some(())
        });
    }

    /// Waits until `look` returns a value. If this takes too long, the test fails and prints every
    /// screen and the team's files.
    pub(crate) fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        patience::until_within(PATIENCE, what, look, || self.scene())
    }

    /// Returns the text of every screen and the team's files, for the message of a failed test.
    fn scene(&self) -> String {
        let mut scene = String::new();
        for pane in self.panes() {
            let screen = self.screen(&pane);
            let lines = screen.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
            scene += &format!("== screen of {}\n{}\n", pane.0, lines.join("\n"));
        }
        let below = |folder: &str| self.root().join(folder).join(self.team());
        for folder in [below("teams"), below("teams").join("inboxes"), below("tasks")] {
            // If another process replaces a file at this moment, the file may be missing. Such a
            // file is skipped.
            for path in
                fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
            {
                if let Ok(text) = fs::read_to_string(&path) {
                    scene += &format!("== {}\n{text}\n", path.display());
                }
            }
        }
        scene
    }

    /// Runs a tmux command on the server. Programs that tmux starts get the PATH of this
    /// environment, not the PATH of the tester.
    fn tmux(&self, args: &[&str]) -> Output {
        let system = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = vec![self.out().join("bin"), our_folder()];
        folders.extend(std::env::split_paths(&system));
        let mut tmux = Command::new("tmux");
        tmux.arg("-u").arg("-S").arg(self.out().join("tmux")).args(args);
        tmux.env("PATH", std::env::join_paths(folders).unwrap())
            .env_remove("TMUX")
            .stdin(Stdio::null());
        tmux.output().unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // When the process `sealed` ends, the process namespace ends with all processes in it.
        self.sealed.kill().unwrap();
        self.sealed.wait().unwrap();
    }
}

impl Request {
    /// Whether `text` is in the messages that the request contains after the model's last answer.
    pub(crate) fn says(&self, text: &str) -> bool {
        let messages = self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let news = messages.iter().rev().take_while(|message| message["role"] != "assistant");
        news.into_iter().any(|message| has_text(&message["content"], text))
    }

    /// How many times the conversation contains `text`.
    pub(crate) fn counts(&self, text: &str) -> usize {
        self.body["messages"].to_string().matches(text).count()
    }

    /// Returns the whole conversation as JSON.
    pub(crate) fn conversation(&self) -> String {
        self.body["messages"].to_string()
    }

    /// Whether the request continues a turn: since the model's last answer, the result of a tool call
    /// was added. Mail can follow the result in a message of its own.
    pub(crate) fn is_within_a_turn(&self) -> bool {
        let messages = self.body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let added = messages.iter().rev().take_while(|message| message["role"] != "assistant");
        added.into_iter().any(|message| message["content"].to_string().contains("tool_result"))
    }

    /// Whether any part of the conversation contains `text`.
    pub(crate) fn remembers(&self, text: &str) -> bool {
        has_text(&self.body["messages"], text)
    }
}

fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(values) => values.iter().any(|value| has_text(value, text)),
        Value::Object(fields) => fields.values().any(|value| has_text(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Reports that a test is skipped. In CI, this makes the test fail instead.
fn skipped<T>(why: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "in CI the reference client must run: {why}");
    eprintln!("skipped: without the reference client, for {why}");
    None
}

/// Returns `path` itself if it is a file, otherwise the files of the folder. Names that begin with
/// a dot are left out.
fn files_in(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|it| !it.file_name().to_string_lossy().starts_with('.'))
        .map(|it| it.path())
        .filter(|it| it.is_file())
        .collect()
}

fn answers_to(command: &str, argument: &str) -> bool {
    Command::new(command)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

fn harness(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop").join(script)
}

fn our_folder() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_pitcrew")).parent().unwrap().to_owned()
}

fn json_in(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Quotes a word for the shell `sh`.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
