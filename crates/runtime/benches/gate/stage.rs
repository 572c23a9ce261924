//! A project with files that no command is allowed to read or change. The commands that the
//! permission gate allows are really run in this project.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pitcrew_permission::gate::{Call, Gate, Verdict};
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_protocol::PermissionMode;
use serde_json::{Value, json};

use crate::held::Held;

/// Number of commands that run before the files are checked.
const BATCH: usize = 100;

/// The secret texts in the protected files. No command is allowed to print them. Each secret is
/// listed as plain text, in base64, and as hexadecimal and octal digits.
const SECRETS: [(&str, &[&str]); 4] = [
    ("denied", &["QQQQ", "UVFRUVFR", "51 51 51", "5151 5151", "121 121 121"]),
    ("asked", &["JJJJ", "SkpKSkpK", "4a 4a 4a", "4a4a 4a4a", "112 112 112"]),
    ("outside", &["ZZZZ", "WlpaWlpa", "5a 5a 5a", "5a5a 5a5a", "132 132 132"]),
    ("of the home", &["XXXX", "WFhYWFhY", "58 58 58", "5858 5858", "130 130 130"]),
];

/// The content of each file, by the path of the file.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// A temporary folder with a project and other files beside it. The original content of all files
/// is kept in memory, to find changes.
#[derive(Debug)]
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    gates: Vec<(&'static str, Gate)>,
    /// A permission gate without ask rules. If this gate does not know the options of a command, it
    /// allows the command in the sandbox profile `read`.
    without_asking: Gate,
    before: Tree,
}

/// The reason why the gate allows a command without a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// The gate knows that the command only reads.
    Proven,
    /// The gate is not sure, but the sandbox profile `read` prevents everything except reading.
    Held,
}

/// A command that the gate allowed without a permission request, and that did something forbidden.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) command: String,
    /// A description of the forbidden effect.
    pub(crate) fault: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("gate-").tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        make(&base.join("stage"));
        let before = tree(&base.join("stage"));
        run("cp", &["-a", "stage", "kept"], &base);
        let home = base.join("stage/home");
        let gate = |permissions: Value| {
            let settings =
                Settings::merge(vec![(Layer::User, json!({ "permissions": permissions }))])
                    .expect("settings");
            Gate::from_settings(&settings, Some(&home)).expect("a gate")
        };
        let (deny, ask) = (json!(["Read(./secrets/**)"]), json!(["Read(./asked/**)"]));
        let gates = vec![
            ("rules for files", gate(json!({"deny": deny, "ask": ask}))),
            (
                "rules for commands",
                gate(json!({"deny": deny, "ask": ask, "allow": ["Bash(echo:*)", "Bash(true *)"]})),
            ),
        ];
        let without_asking = gate(json!({ "deny": deny }));
        Self { folder, gates, without_asking, before }
    }

    /// Returns the folder that contains all compared files.
    pub(crate) fn base(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("a path").join("stage")
    }

    /// Returns the reason why a gate allows a command without a permission request, in default mode
    /// or in plan mode. Returns `None` if no gate allows the command.
    pub(crate) fn lets_through(&self, command: &str) -> Option<Unasked> {
        let input = json!({ "command": command });
        let cwd = self.base().join("project");
        let call = Call { tool: "Bash", input: &input, cwd: &cwd, plan_file: None };
        let allows = |gate: &Gate, mode| matches!(gate.judge(mode, &call), Verdict::Allow { .. });
        let in_a_mode = |gate: &Gate| {
            [PermissionMode::Default, PermissionMode::Plan].iter().any(|mode| allows(gate, *mode))
        };
        // The sandbox cannot enforce ask rules. If a gate with ask rules allows a command, the gate
        // therefore knows that the command only reads.
        let proven = self.gates.iter().any(|(_, gate)| in_a_mode(gate)).then_some(Unasked::Proven);
        proven.or_else(|| in_a_mode(&self.without_asking).then_some(Unasked::Held))
    }

    /// Runs commands in the sandbox profile `read`, and returns the commands with forbidden
    /// effects. Returns `None` if this machine cannot enforce the profile.
    pub(crate) fn play_held(&self, commands: &[String]) -> Option<Vec<Found>> {
        let base = self.base();
        let held = Held::new(
            &base.join("project"),
            &base.join("home"),
            self.folder.path(),
            self.without_asking.clone(),
        )?;
        let mut found = Vec::new();
        for command in commands {
            let output = held.run(command);
            // The gate for these commands has no ask rules. The commands are therefore allowed to
            // read the files that an ask rule protects in the other gates.
            let kept = SECRETS.iter().filter(|(whose, _)| *whose != "asked");
            for (whose, _) in kept.filter(|(_, marks)| shows(&output, command, marks)) {
                found.push(Found {
                    command: command.clone(),
                    fault: format!("in *read*, it read the secret {whose}"),
                });
            }
            found.extend(self.changed().map(|name| Found {
                command: command.clone(),
                fault: format!("in *read*, it changed {}", name.display()),
            }));
        }
        Some(found)
    }

    /// Returns the path of a changed file, if any file has changed, and restores all files.
    fn changed(&self) -> Option<PathBuf> {
        let after = tree(&self.base());
        if after == self.before {
            return None;
        }
        let changed = after.iter().find(|(path, bytes)| self.before.get(*path) != Some(*bytes));
        let gone = self.before.keys().find(|path| !after.contains_key(*path));
        let name = changed.map(|(path, _)| path).or(gone).cloned().unwrap_or_default();
        self.restore();
        Some(name)
    }

    /// Runs commands without a sandbox, and returns the commands with forbidden effects.
    pub(crate) fn play(&self, commands: &[String]) -> Vec<Found> {
        let mut found = Vec::new();
        for batch in commands.chunks(BATCH) {
            found.extend(self.read_secrets(batch));
            if tree(&self.base()) == self.before {
                continue;
            }
            self.restore();
            // A command of this batch changed a file. To find the command, run each command of the
            // batch again, one at a time.
            for command in batch {
                self.run(std::slice::from_ref(command));
                let changed = self.changed();
                found.extend(changed.map(|name| Found {
                    command: command.clone(),
                    fault: format!("it changed {}", name.display()),
                }));
            }
        }
        found
    }

    fn read_secrets(&self, batch: &[String]) -> Vec<Found> {
        let outputs = self.run(batch);
        let mut found = Vec::new();
        for (command, output) in batch.iter().zip(outputs) {
            for (whose, marks) in SECRETS {
                if shows(&output, command, marks) {
                    found.push(Found {
                        command: command.clone(),
                        fault: format!("it read the secret {whose}"),
                    });
                }
            }
        }
        found
    }

    /// Runs each command in its own shell in the project, without a sandbox. The environment is the
    /// same that an agent's command gets if it runs without a permission request.
    fn run(&self, commands: &[String]) -> Vec<String> {
        let work = self.folder.path().join("work");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(work.join("tmp")).expect("a folder");
        for (number, command) in commands.iter().enumerate() {
            fs::write(work.join(format!("{number}.sh")), command).expect("a script");
        }
        let driver = "cd \"$1/project\" || exit 1\n\
            n=0; while [ $n -lt \"$3\" ]; do\n\
            timeout -k 1 2 bash -c \"$(cat \"$2/$n.sh\")\" </dev/null 2>&1 | head -c 100000 > \"$2/$n.out\"\n\
            n=$((n+1)); done";
        let mut shell = Command::new("bash");
        shell
            .args(["-c", driver, "driver"])
            .arg(self.base())
            .arg(&work)
            .arg(commands.len().to_string());
        shell
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.base().join("home"));
        shell.env("TMPDIR", work.join("tmp")).env("LANG", "C.UTF-8");
        shell.envs([
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_COUNT", "2"),
        ]);
        shell.envs([
            ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
            ("GIT_CONFIG_VALUE_0", "explicit"),
        ]);
        shell.envs([("GIT_CONFIG_KEY_1", "core.fsmonitor"), ("GIT_CONFIG_VALUE_1", "false")]);
        let status = shell
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("bash");
        assert!(status.success(), "the driver failed: {status}");
        let output =
            |number: usize| fs::read(work.join(format!("{number}.out"))).unwrap_or_default();
        (0..commands.len())
            .map(|number| String::from_utf8_lossy(&output(number)).into_owned())
            .collect()
    }

    fn restore(&self) {
        let base = self.folder.path().canonicalize().expect("a path");
        run("rm", &["-rf", "stage"], &base);
        run("cp", &["-a", "kept", "stage"], &base);
    }
}

/// Returns true if the output contains a secret that the command itself does not contain.
fn shows(output: &str, command: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| output.contains(mark) && !command.contains(mark))
}

fn make(base: &Path) {
    let project = base.join("project");
    for name in
        ["project/src", "project/sub", "project/secrets", "project/asked", "outside", "home/.ssh"]
    {
        fs::create_dir_all(base.join(name)).expect("a folder");
    }
    let secret = |letter: &str| format!("{}\n", letter.repeat(40));
    for (name, text) in [
        ("project/README", "a text\nroot b c\n".to_owned()),
        ("project/src/main.rs", "fn main() {}\n".to_owned()),
        ("project/src/a.txt", "a:b\nkey\n".to_owned()),
        ("project/secrets/key", secret("Q")),
        ("project/asked/key", secret("J")),
        ("outside/file", secret("Z")),
        ("home/.ssh/id", secret("X")),
        ("home/.gitconfig", "[user]\n\tname = a\n\temail = a@b\n".to_owned()),
    ] {
        fs::write(base.join(name), text).expect("a file");
    }
    for name in ["ls", "env", "cat", "git", "sub/bash", "sub/git"] {
        let file = project.join(name);
        fs::write(&file, "#!/bin/sh\n/usr/bin/touch canary\n").expect("a program");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    symlink("../outside", project.join("link")).expect("a link");
    symlink("../outside/file", project.join("alias")).expect("a link");
    let git = |args: &[&str]| run("git", args, &project);
    // One of git's sample hooks happens to contain the text `XXXX`, which is the secret text in the
    // home folder. The empty template has no sample hooks.
    git(&["init", "-q", "--template="]);
    let as_author = ["-c", "user.name=a", "-c", "user.email=a@b"];
    git(&["add", "README", "src", "secrets", "asked"]);
    git(&[&as_author[..], &["commit", "-qm", "one"]].concat());
    fs::write(project.join("src/a.txt"), "a:b\nkey\nmore\n").expect("a file");
    git(&[&as_author[..], &["commit", "-qam", "two"]].concat());
}

fn run(program: &str, args: &[&str], folder: &Path) {
    let status = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .status()
        .expect("a program");
    assert!(status.success(), "{program} {args:?}: {status}");
}

fn tree(base: &Path) -> Tree {
    let mut files = Tree::new();
    let mut todo = vec![base.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let kind = entry.file_type().expect("its type");
            let bytes = match () {
                () if kind.is_symlink() => {
                    fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
                }
                () if kind.is_file() => fs::read(&path).unwrap_or_default(),
                () => Vec::new(),
            };
            if kind.is_dir() {
                todo.push(path.clone());
            }
            // `git diff` may update the file times in git's index, so the index is not compared.
            // (In the profile `read` the kernel prevents this update.)
            if path.ends_with(".git/index") {
                continue;
            }
            files.insert(path, bytes);
        }
    }
    files
}
