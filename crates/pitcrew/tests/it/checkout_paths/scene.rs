//! A user who works in an unpacked archive: a run with a teammate in a worktree, its review, its
//! merge, its end and `doctor`, all through the binary.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use super::plant::open_up;
use super::recorded::Checkout;
use crate::patience::within;

/// A user id that no system assigns. If root runs the tests, this user works in the archive, so that
/// modes hold.
const OTHER: u32 = 54_321;

/// A text outside of the archive that nobody may see.
pub(super) const CANARY: &str = "CANARY-OUTSIDE-OF-THE-ARCHIVE";

/// The time after which a command hangs. A command without a planted file takes a few seconds.
const HANGS: Duration = Duration::from_secs(30);

/// The time that a command may take to end after TERM. The promise is a second. The machine of the
/// tests may be busy, so the test allows more.
pub(super) const ENDS: Duration = Duration::from_secs(6);

/// Memory that a command may use, in kilobytes.
const KILOBYTES: &str = "6000000";

/// The line of a run that says that the script has done everything.
const DONE: &str = "team-lead TaskList";

/// The script of a lead that uses all file tools, and of a teammate that commits in a worktree.
const SCRIPT: &str = r#"
agents:
  team-lead:
    - tools:
        - {name: Read, input: {file_path: CLAUDE.md}}
        - {name: Read, input: {file_path: src/lib.txt}}
        - {name: Read, input: {file_path: image.png}}
        - {name: Glob, input: {pattern: '**/*'}}
        - {name: Grep, input: {pattern: needle, output_mode: content}}
        - {name: Edit, input: {file_path: src/lib.txt, old_string: needle, new_string: noodle}}
        - {name: Write, input: {file_path: src/new.txt, content: new}}
        - {name: Bash, input: {command: 'true'}}
    - tools: [{name: Task, input: {name: bob, description: Commit, prompt: Commit., isolation: worktree}}]
    - when: {contains: 'agent_id: bob', from: tool_result}
      wait_for: {contains: it is there, from: message}
    - tools: [{name: TaskList}]
    - wait_for: {contains: never}
  bob:
    - tools:
        - {name: Read, input: {file_path: src/lib.txt}}
        - {name: Grep, input: {pattern: needle, output_mode: content}}
        - {name: Write, input: {file_path: made.txt, content: made}}
        - {name: Bash, input: {command: 'timeout 20 git add made.txt && timeout 20 git -c user.name=t -c user.email=t@example.org commit -qm made', timeout: 45000}}
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: it is there, summary: done}}]
    - text: I wait.
"#;

/// The files of the archive.
const FILES: [(&str, &str); 11] = [
    ("CLAUDE.md", "Indent by three spaces.\n@docs/style.md\n"),
    ("AGENTS.md", "Write tests.\n"),
    ("docs/style.md", "Short names.\n"),
    (".claude/settings.json", r#"{"permissions": {"deny": ["Read(keys/**)"]}}"#),
    (".claude/settings.local.json", "{}"),
    (".claude/agents/helper.md", "---\nname: helper\ndescription: helps\n---\nHelp.\n"),
    (".mcp.json", "{}"),
    (".gitignore", "target\n"),
    (".ignore", "vendor\n"),
    (".gitattributes", "*.txt text\n"),
    ("src/lib.txt", "a needle\n"),
];

/// The programs and the prepared archive that all scenes of a test share.
pub(super) struct Prepared {
    dir: tempfile::TempDir,
}

impl Prepared {
    pub(super) fn new() -> Self {
        let prepared = Self { dir: tempfile::tempdir_in("/tmp").unwrap() };
        fs::set_permissions(prepared.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_pitcrew"), prepared.pitcrew()).unwrap();
        let archive = prepared.archive();
        for (file, text) in FILES {
            let path = archive.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(archive.join("image.png"), [137, 80, 78, 71, 13, 10, 26, 10]).unwrap();
        for words in
            ["init -q -b main --template=", "add -A -f", "commit -q -m first", "pack-refs --all"]
        {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
            git.args(words.split(' ')).current_dir(&archive).env("GIT_CONFIG_GLOBAL", "/dev/null");
            assert!(git.status().unwrap().success(), "git {words}");
        }
        fs::create_dir(archive.join(".git/info")).unwrap();
        fs::write(archive.join(".git/info/exclude"), "secret\n").unwrap();
        prepared
    }

    fn pitcrew(&self) -> PathBuf {
        self.dir.path().join("pitcrew")
    }

    fn archive(&self) -> PathBuf {
        self.dir.path().join("archive")
    }
}

/// The folders of a user who unpacks the archive.
pub(super) struct Scene<'a> {
    prepared: &'a Prepared,
    dir: tempfile::TempDir,
    /// Where `strace` writes what the commands open, if they are recorded.
    traces: Option<PathBuf>,
    faults: Vec<String>,
    said: String,
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        open_up(self.dir.path());
    }
}

impl<'a> Scene<'a> {
    pub(super) fn new(prepared: &'a Prepared) -> Self {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let scene = Self { prepared, dir, traces: None, faults: Vec::new(), said: String::new() };
        for folder in ["home/.claude", "tmp", "outside/folder", "traces"] {
            fs::create_dir_all(scene.at(folder)).unwrap();
        }
        fs::write(scene.at("script.yaml"), SCRIPT).unwrap();
        fs::write(scene.at("outside/secret"), format!("{CANARY}\n")).unwrap();
        for name in ["HEAD", "note.md", "settings.json"] {
            fs::write(scene.at("outside/folder").join(name), format!("{CANARY}\n")).unwrap();
        }
        let copied =
            Command::new("cp").arg("-a").arg(prepared.archive()).arg(scene.work()).status();
        assert!(copied.unwrap().success());
        scene
    }

    pub(super) fn recorded(mut self) -> Self {
        self.traces = Some(self.at("traces"));
        self
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(super) fn outside(&self) -> PathBuf {
        self.at("outside")
    }

    fn work(&self) -> PathBuf {
        self.at("home/work")
    }

    pub(super) fn folder_of(&self, checkout: Checkout) -> PathBuf {
        match checkout {
            Checkout::Work => self.work(),
            Checkout::Worktree => self.at("home/.claude/pitcrew/worktrees/work/bob"),
        }
    }

    /// Gives all folders to the user that works in them.
    pub(super) fn give(&self) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut todo = vec![self.dir.path().to_owned()];
        while let Some(path) = todo.pop() {
            lchown(&path, Some(OTHER), Some(OTHER)).unwrap();
            if path.symlink_metadata().unwrap().is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    }

    /// Runs the team until the script has done everything, and ends the run with TERM.
    pub(super) fn run(&mut self) {
        let model = format!("script:{}", self.at("script.yaml").display());
        let args = ["run", "go", "--team", "work", "--model", &model, "--sandbox"];
        let mode = ["--permission-mode", "acceptEdits"];
        self.play(&[&args[..], &mode].concat(), Some(DONE));
    }

    /// Reviews and merges the work of the teammate, cleans up, and looks for faults.
    pub(super) fn afterwards(&mut self) {
        self.play(&["trust", "show"], None);
        self.review();
        self.play(&["doctor"], None);
        self.play(&["team", "delete", "work", "--force"], None);
        self.play(&["doctor", "--repair"], None);
    }

    /// Returns what was wrong, and the output of all commands.
    pub(super) fn ended(mut self) -> (Vec<String>, String) {
        let left: Vec<u32> = self.processes();
        if !left.is_empty() {
            self.faults.push(format!("{} processes are left", left.len()));
        }
        for id in left {
            if let Some(id) = Pid::from_raw(id.cast_signed()) {
                let _gone = kill_process(id, Signal::KILL);
            }
        }
        if self.said.contains(CANARY) || has_canary(&self.at("home/.claude")) {
            self.faults.push("a text from outside was read".to_owned());
        }
        (std::mem::take(&mut self.faults), std::mem::take(&mut self.said))
    }

    /// Runs a command to its end, or until it says a text. Then it is ended with TERM.
    fn play(&mut self, args: &[&str], until: Option<&str>) {
        let mut started = Started::of(&mut self.command(args));
        let reached = within(HANGS, || {
            let is_said = until.is_some_and(|text| started.said().contains(text));
            (is_said || started.has_ended()).then_some(())
        });
        self.end(args, started, reached.is_none());
    }

    fn end(&mut self, args: &[&str], mut started: Started, is_hanging: bool) {
        let name = args.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        if is_hanging {
            self.faults.push(format!("`{name}` hangs"));
        }
        if !started.has_ended() {
            let asked = Instant::now();
            started.signal(Signal::TERM);
            if within(ENDS, || started.has_ended().then_some(())).is_none() {
                self.faults.push(format!("TERM does not end `{name}`"));
            }
            self.said += &format!("[TERM took {} ms]\n", asked.elapsed().as_millis());
        }
        self.said += &format!("$ pitcrew {}\n{}", args.join(" "), started.said());
    }

    /// Asks a server for the changes of all members, and merges those of the teammate.
    fn review(&mut self) {
        let args = ["serve", "--port", "0", "--json"];
        let mut started = Started::of(&mut self.command(&args));
        // The first line says where the server is. Without it, the server has refused to start.
        let said = within(HANGS, || {
            let line =
                started.said().lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
            let line = line.filter(|line| line["url"].is_string());
            line.map(Some).or_else(|| started.has_ended().then_some(None))
        });
        let mut is_hanging = said.is_none();
        if let Some(said) = said.flatten() {
            let token = fs::read_to_string(said["token_file"].as_str().unwrap()).unwrap();
            let host = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
            let (member, prefix) = ("/api/teams/work/members/bob", as_user());
            let mut asks = |method: &str, path: &str, body: Value| {
                let answer = asked(&prefix, &host, &token, (method, path, &body));
                is_hanging |= answer.is_none();
                let answer = answer.unwrap_or_default();
                self.said += &format!("{method} {path}: {answer}\n");
                answer
                    .split_once("\r\n\r\n")
                    .map_or(Value::Null, |(_, body)| serde_json::from_str(body).unwrap_or_default())
            };
            asks("GET", "/api/teams/work/members/team-lead/changes", Value::Null);
            let changes = asks("GET", &format!("{member}/changes"), Value::Null);
            let commit = json!({"commit": changes["branch"]["commit"].as_str().unwrap_or("x")});
            asks("POST", &format!("{member}/merge"), commit);
        }
        self.end(&args, started, is_hanging);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut words: Vec<String> = Vec::new();
        if let Some(traces) = &self.traces {
            let file = traces.join(args[0]);
            let strace = ["strace", "-ff", "-y", "-qq", "-s", "4096", "-e", "trace=%file", "-o"];
            words.extend(strace.map(str::to_owned));
            words.push(file.display().to_string());
        }
        words.extend(as_user());
        let limited = format!("ulimit -v {KILOBYTES}; exec \"$0\" \"$@\"");
        words.extend(["sh".to_owned(), "-c".to_owned(), limited]);
        words.push(self.prepared.pitcrew().display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(args).current_dir(self.work()).env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.at("home"))
            .env("CLAUDE_CONFIG_DIR", self.at("home/.claude"))
            .env("TMPDIR", self.at("tmp"));
        command
    }

    /// Returns the processes whose environment names this scene's folders.
    fn processes(&self) -> Vec<u32> {
        let home = format!("HOME={}", self.at("home").display());
        let is_ours = |id: &u32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())
        };
        let find = || -> Vec<u32> {
            let entries = fs::read_dir("/proc").unwrap().flatten();
            let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            ids.filter(is_ours).collect()
        };
        let mut left = find();
        within(ENDS, || {
            left = find();
            left.is_empty().then_some(())
        });
        left
    }
}

/// A command that runs, and its output so far.
struct Started {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Started {
    fn of(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let pipes: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for mut pipe in pipes {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = pipe.read(&mut piece) {
                    said.lock().unwrap().extend_from_slice(&piece[..length]);
                }
            });
        }
        Self { child, said }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    fn signal(&self, signal: Signal) {
        let _ended = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.signal(Signal::KILL);
            let _reaped = self.child.wait();
        }
    }
}

/// Returns the words before a command that make it run as the user who works in the archive.
fn as_user() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let (user, group) = (format!("--reuid={OTHER}"), format!("--regid={OTHER}"));
    vec!["setpriv".to_owned(), user, group, "--clear-groups".to_owned()]
}

/// Sends a request as the user, because the server refuses all others. Returns `None` if no answer
/// comes.
fn asked(
    as_user: &[String],
    host: &str,
    token: &str,
    (method, path, body): (&str, &str, &Value),
) -> Option<String> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (address, port) = host.split_once(':').unwrap();
    let sent = "exec 3<>/dev/tcp/$0/$1; printf %s \"$2\" >&3; exec timeout $3 cat <&3";
    let seconds = HANGS.as_secs().to_string();
    let mut words = as_user.iter().map(String::as_str).chain(["bash", "-c", sent, address, port]);
    let mut command = Command::new(words.next().unwrap());
    let answer = command.args(words).args([&request, &seconds]).output().unwrap();
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// Whether a file of the team has the text from outside.
fn has_canary(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => has_canary(&path),
        Ok(meta) if meta.is_file() && meta.len() < 1 << 20 => {
            let content = fs::read(&path).unwrap_or_default();
            content.windows(CANARY.len()).any(|part| part == CANARY.as_bytes())
        }
        Ok(_) | Err(_) => false,
    })
}
