//! Tests that sandboxed commands which run at the same time leave nothing in protected places. The
//! commands belong to different members of a team: in one process, or in a process for each member.
//!
//! A test that this machine cannot run prints a message and is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pitcrew_process::protected::PROTECTED;
use pitcrew_process::sandbox::{Grant, Machine, Profile, Sandbox, Support};
use pitcrew_protocol::PermissionMode::AcceptEdits;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::another_user;
use crate::gate_modes::Place;
use crate::sandbox_read::{git, inner};
use crate::sandbox_work::ground;

/// Commands of which each creates or replaces a protected file. None of the files exists at first,
/// except the link `.idea`.
const PLANTS: &[&str] = &[
    "echo x > .mcp.json",
    "mkdir -p .vscode; echo x > .vscode/tasks.json",
    "ln -sfn kept .envrc",
    "mkdir -p sub/.claude; echo x > sub/.claude/settings.json",
    "mkdir -p new/.claude; echo x > new/.claude/settings.json",
    "echo x > sub/.MCP.json",
    "echo x > .git/commondir",
    "mkdir -p .git/modules; echo x > .git/modules/config",
    "echo x > a.code-workspace",
    "mkdir -p .CURSOR; echo x > .CURSOR/mcp.json",
    "echo x > .cursor/mcp.json",
    "echo x > .npmrc",
    "ln -sfn missing .idea",
    "rm -f .idea; mkdir -p .idea; echo x > .idea/workspace.xml",
    "echo x > HEAD",
];

/// The steps of commands that run at the same time. A letter is a command. `+` starts it, `p` makes
/// it run all [`PLANTS`], and `-` ends it.
const SCHEDULES: &[&str] = &[
    "A+ Ap B+ A- Bp B-",
    "A+ Ap B+ B- Ap A-",
    "A+ B+ Ap A- Bp B-",
    "A+ B+ Ap Bp B- A-",
    "A+ Ap B+ Ap Bp A- B-",
    "A+ Ap B+ Ap A- B-",
    "A+ Ap B+ A- Bp C+ B- Cp C-",
    "A+ B+ Ap C+ A- B- Cp C-",
];

/// The environment variable that makes [`a_member_in_a_process_of_its_own`] run a command. Its
/// value is the folder of the checkout.
const MEMBER: &str = "PITCREW_TEST_MEMBER";

/// The environment variable with the command of that member.
const COMMAND: &str = "PITCREW_TEST_COMMAND";

/// The environment variable with the number of rounds of the random tests.
const ROUNDS: &str = "PITCREW_QUARANTINE_ROUNDS";

/// A checkout, with a home folder beside it.
struct Checkout {
    dir: tempfile::TempDir,
    /// The sandbox of the members that share this process.
    sandbox: Sandbox,
}

/// The processes and threads of a team in which the members run their commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Members {
    InThreads,
    InProcesses,
}

/// A running command of a member.
enum Running {
    Thread(JoinHandle<()>),
    Process(Child),
}

fn sandbox(base: &Path) -> Sandbox {
    let path = std::env::var_os("PATH").unwrap();
    Sandbox::new(Machine {
        root: base.join("home/.claude"),
        temporary: tempfile::env::temp_dir(),
        path: std::env::split_paths(&path).collect(),
        home: Some(base.join("home")),
        inner: Some(vec![inner().into_os_string()]),
        ..Machine::default()
    })
}

/// Runs a command in the sandbox profile `work`, until all its processes have ended.
fn run(sandbox: &Sandbox, base: &Path, command: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let grant = Grant::at(&base.join("work"));
        let started = sandbox.start(Profile::Work, &grant, "bash", |shell| {
            shell.arg("-c").arg(command);
        });
        let end = tokio::time::Instant::now() + Duration::from_secs(300);
        let never = CancellationToken::new();
        let ended = started.unwrap().run(Some(end), Duration::from_secs(1), &never, |_, _| {});
        drop(ended.await.unwrap());
    });
}

impl Checkout {
    /// Makes a checkout. Returns `None` if this machine cannot enforce the sandbox profile `work`.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = sandbox(&dir.path().canonicalize().unwrap());
        let checkout = Self { dir, sandbox };
        for folder in ["home/.claude", "work/sub", "work/new", "work/real", "work/.cursor/rules"] {
            fs::create_dir_all(checkout.base().join(folder)).unwrap();
        }
        let work = checkout.base().join("work");
        fs::write(work.join("kept"), "kept").unwrap();
        fs::write(work.join(".cursor/rules/style.mdc"), "short").unwrap();
        symlink("real", work.join(".idea")).unwrap();
        git(&work, &["init", "-q"]);
        if let Support::Missing { reason } = checkout.sandbox.support(Profile::Work) {
            eprintln!(
                "\n!!! SKIPPED: {reason}. Nothing was proved about *work* on this machine. !!!\n"
            );
            return None;
        }
        Some(checkout)
    }

    fn base(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn start(&self, members: Members, command: &str) -> Running {
        let base = self.base();
        if members == Members::InThreads {
            let command = command.to_owned();
            let sandbox = self.sandbox.clone();
            return Running::Thread(thread::spawn(move || run(&sandbox, &base, &command)));
        }
        let mut member = Command::new(std::env::current_exe().unwrap());
        member.args(["--exact", "sandbox_quarantine::a_member_in_a_process_of_its_own"]);
        member.args(["--nocapture", "--test-threads=1"]).stdout(Stdio::null());
        Running::Process(member.env(MEMBER, base).env(COMMAND, command).spawn().unwrap())
    }

    /// Returns what lies in the checkout, except what was put aside and the notes for the commands.
    fn content(&self) -> BTreeMap<PathBuf, String> {
        let work = self.base().join("work");
        let mut found = BTreeMap::new();
        let mut todo = vec![work.clone()];
        while let Some(path) = todo.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let text = match fs::read_link(&path) {
                Ok(target) => format!("link to {}", target.display()),
                Err(_) if metadata.is_dir() => "folder".to_owned(),
                Err(_) => fs::read_to_string(&path).unwrap(),
            };
            if metadata.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found.insert(path.strip_prefix(&work).unwrap().to_path_buf(), text);
        }
        found.retain(|path, _| {
            let path = path.to_string_lossy();
            !path.contains(".quarantined-") && !path.starts_with("steps")
        });
        found
    }
}

impl Checkout {
    /// Removes what was put aside.
    fn clear(&self) {
        let mut todo = vec![self.base().join("work")];
        while let Some(folder) = todo.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let is_folder = fs::symlink_metadata(&path).unwrap().is_dir();
                match (path.to_string_lossy().contains(".quarantined-"), is_folder) {
                    (true, true) => fs::remove_dir_all(path).unwrap(),
                    (true, false) => fs::remove_file(path).unwrap(),
                    (false, true) => todo.push(path),
                    (false, false) => {}
                }
            }
        }
    }
}

impl Running {
    fn wait(self) {
        match self {
            Self::Thread(thread) => thread.join().unwrap(),
            Self::Process(mut process) => assert!(process.wait().unwrap().success()),
        }
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs one command of a member. Without the environment variable [`MEMBER`], this test does
/// nothing.
#[test]
fn a_member_in_a_process_of_its_own() {
    if let Some(base) = std::env::var_os(MEMBER) {
        let base = Path::new(&base);
        run(&sandbox(base), base, &std::env::var(COMMAND).unwrap());
    }
}

/// The command of a letter of a schedule. It waits for a file for each of its steps.
fn stepwise(letter: &str) -> String {
    format!(
        "touch steps/{letter}.0.done; n=1; while :; do \
         until [ -e steps/{letter}.$n ]; do sleep 0.01; done; \
         case $(cat steps/{letter}.$n) in p) {{ {}; }} 2> steps/{letter}.errors;; esac; \
         touch steps/{letter}.$n.done; \
         [ \"$(cat steps/{letter}.$n)\" != - ] || exit 0; n=$((n + 1)); done",
        PLANTS.join("; ")
    )
}

fn play(schedule: &str, members: Members) {
    let Some(checkout) = Checkout::new() else { return };
    let steps = checkout.base().join("work/steps");
    fs::create_dir(&steps).unwrap();
    let before = checkout.content();
    let mut running: BTreeMap<String, (usize, Running)> = BTreeMap::new();
    for step in schedule.split(' ') {
        let (letter, what) = step.split_at(1);
        let done = |number: usize| {
            let path = steps.join(format!("{letter}.{number}.done"));
            until(&format!("{schedule}: {step}"), || path.exists());
        };
        let Some((number, command)) = running.remove(letter) else {
            if what == "+" {
                let command = checkout.start(members, &stepwise(letter));
                done(0);
                running.insert(letter.to_owned(), (1, command));
            }
            continue;
        };
        // The command must not read the file before the text is in it.
        let draft = steps.join("draft");
        fs::write(&draft, what).unwrap();
        fs::rename(&draft, steps.join(format!("{letter}.{number}"))).unwrap();
        done(number);
        if what == "-" {
            command.wait();
        } else {
            running.insert(letter.to_owned(), (number + 1, command));
        }
    }
    assert!(running.is_empty(), "{schedule} ends all commands");
    assert_eq!(checkout.content(), before, "{schedule} {members:?}");
}

#[test]
fn commands_of_one_process_that_overlap_leave_nothing_by_any_schedule() {
    SCHEDULES.iter().for_each(|schedule| play(schedule, Members::InThreads));
}

#[test]
fn commands_of_two_processes_that_overlap_leave_nothing_by_any_schedule() {
    SCHEDULES.iter().for_each(|schedule| play(schedule, Members::InProcesses));
}

/// Returns a command that creates protected files at random moments.
fn at_random(random: &mut StdRng) -> String {
    let steps = (0..random.random_range(1..12)).map(|_| {
        let plant = PLANTS.choose(random).unwrap();
        format!("{plant}; sleep 0.0{}", random.random_range(0..6))
    });
    format!("{{ {}; }} 2> /dev/null", steps.collect::<Vec<_>>().join("; "))
}

/// Runs commands at random, all at the same time. After each round, nothing may stay. With
/// [`ROUNDS`] in the environment there are as many rounds, else 20.
fn play_at_random(count: usize, members: Members) {
    let Some(checkout) = Checkout::new() else { return };
    let rounds = std::env::var(ROUNDS).map_or(20, |it| it.parse().unwrap());
    let before = checkout.content();
    for round in 0..rounds {
        let mut random = StdRng::seed_from_u64(round);
        let commands: Vec<Running> =
            (0..count).map(|_| checkout.start(members, &at_random(&mut random))).collect();
        commands.into_iter().for_each(Running::wait);
        assert_eq!(checkout.content(), before, "round {round} of {count} {members:?}");
        checkout.clear();
    }
}

#[test]
fn two_commands_of_one_process_leave_nothing_at_random() {
    play_at_random(2, Members::InThreads);
}

#[test]
fn eight_commands_of_one_process_leave_nothing_at_random() {
    play_at_random(8, Members::InThreads);
}

#[test]
fn two_members_in_processes_of_their_own_leave_nothing_at_random() {
    play_at_random(2, Members::InProcesses);
}

#[test]
fn eight_members_in_processes_of_their_own_leave_nothing_at_random() {
    play_at_random(8, Members::InProcesses);
}

/// What a running command does with a file that a person allowed meanwhile, and whether the file
/// stays when the command has ended.
const DECISIONS: &[(&str, bool)] = &[
    ("true", true),
    ("echo x > .vscode/tasks.json; mkdir -p .vscode/deep; echo x > .vscode/deep/x", true),
    ("echo evil > .vscode/settings.json", false),
    ("rm .vscode/settings.json; ln -s ../kept .vscode/settings.json", false),
    ("ln .vscode/settings.json hard", false),
    ("mv .vscode v; cp -r v .vscode; echo x > .vscode/tasks.json", true),
];

#[tokio::test]
async fn a_file_that_a_person_allowed_meanwhile_stays_and_nothing_beside_it_does() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for (what, stays) in DECISIONS {
        let waits = "touch started; until [ -e go ]; do sleep 0.01; done";
        let command = format!("mkdir -p .vscode; echo x > .vscode/early; {waits}; {what}");
        let write = async {
            while !cwd.join("started").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let file = cwd.join(".vscode/settings.json");
            let input = json!({"file_path": file, "content": "{}"});
            // The command has made the folder, so the first attempt is refused.
            let refused = ground.setting.call("Write", input.clone()).await;
            let written = ground.setting.call("Write", input).await;
            fs::write(cwd.join("go"), "").unwrap();
            (refused, written)
        };
        let (said, (refused, written)) = tokio::join!(ground.bash(&command), write);
        assert!(refused.is_error && refused.text.contains("put aside"), "{what}: {}", refused.text);
        assert!(!written.is_error, "{what}: {}", written.text);
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let expected: &[&str] = if *stays { &["settings.json"] } else { &[] };
        assert_eq!(names(&cwd.join(".vscode")), expected, "{what}: {said}");
        if *stays {
            assert_eq!(fs::read_to_string(cwd.join(".vscode/settings.json")).unwrap(), "{}");
        }
        for name in [".vscode", "v"] {
            let _removed = fs::remove_dir_all(cwd.join(name));
        }
        for name in ["started", "go", "hard"] {
            let _removed = fs::remove_file(cwd.join(name));
        }
    }
}

/// Commands that run freely, because a person allowed them, while a sandboxed command runs. With
/// each is the file that it makes, and whether the gate sees that in its text.
const ALLOWED: &[(&str, &str, bool)] = &[
    ("mkdir -p .vscode; echo '{}' > .vscode/settings.json", ".vscode/settings.json", true),
    ("echo '{}' > .mcp.json", ".mcp.json", true),
    ("echo true > .npmrc", ".npmrc", true),
    ("sh list-of-commands", ".zed/tasks.json", false),
];

#[tokio::test]
async fn a_file_that_an_allowed_command_names_stays_while_a_sandboxed_command_runs() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    ground.setting.write("list-of-commands", "mkdir -p .zed; echo '{}' > .zed/tasks.json");
    let mut freely = ground.setting.context.clone();
    freely.profile = Profile::Free;
    for (command, file, is_named) in ALLOWED {
        let free = async {
            while !cwd.join("started").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let said = ground.setting.call_as(&freely, "Bash", json!({"command": command})).await;
            fs::write(cwd.join("go"), "").unwrap();
            said
        };
        let waits = "touch started; until [ -e go ]; do sleep 0.01; done; echo x > .envrc";
        let (said, free) = tokio::join!(ground.bash(waits), free);
        assert!(!free.is_error, "{command}: {}", free.text);
        assert_eq!(cwd.join(file).exists(), *is_named, "{command}: {said}");
        assert!(!cwd.join(".envrc").exists(), "{command}: {said}");
        for name in ["started", "go"] {
            fs::remove_file(cwd.join(name)).unwrap();
        }
    }
}

/// The paths of the table of protected names: a file for each, and the path of the name itself.
fn rows() -> Vec<(String, String)> {
    let row = |name: &str| {
        let path = name.replace('*', "some");
        let file = if path.ends_with('/') { format!("{path}file") } else { path.clone() };
        (file, path.trim_end_matches('/').to_owned())
    };
    PROTECTED.iter().map(|it| row(it.name)).collect()
}

#[tokio::test]
async fn as_any_user_no_file_of_the_table_is_left_by_a_command() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    fs::remove_dir_all(cwd.join(".claude")).unwrap();
    let plant =
        |(file, _): &(String, String)| format!("mkdir -p $(dirname {file}); echo x > {file}");
    let script: Vec<String> = rows().iter().map(plant).collect();
    let said = ground.bash(&script.join("; ")).await;
    let stay = |rows: Vec<(String, String)>| -> Vec<String> {
        let there = |path: &String| fs::symlink_metadata(cwd.join(path)).is_ok();
        rows.into_iter().map(|(_, path)| path).filter(there).collect()
    };
    assert_eq!(stay(rows()), [] as [String; 0], "{said}");
    let other = |(file, path): (String, String)| (file.to_uppercase(), path.to_uppercase());
    let script: Vec<String> = rows().into_iter().map(other).map(|row| plant(&row)).collect();
    let said = ground.bash(&script.join("; ")).await;
    assert_eq!(stay(rows().into_iter().map(other).collect()), [] as [String; 0], "{said}");
}

#[tokio::test]
async fn as_any_user_no_file_of_the_table_is_changed_by_a_command() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    rows().iter().for_each(|(file, _)| _ = ground.setting.write(file, "kept"));
    for attack in
        ["echo x > FILE", "mv PATH away", "rm -rf PATH", "ln -sfn kept PATH", "cp kept FILE"]
    {
        let tried: Vec<String> = rows()
            .iter()
            .map(|(file, path)| attack.replace("FILE", file).replace("PATH", path))
            .collect();
        ground.bash(&tried.join("; ")).await;
        for (file, _) in rows() {
            let now = fs::read_to_string(cwd.join(&file)).ok();
            assert_eq!(now.as_deref(), Some("kept"), "{attack}: {file}");
        }
    }
}

/// Runs the tests of this file again as a user without privileges, in a copy of this test program.
#[test]
fn another_user_s_commands_leave_nothing_either() {
    let passed = another_user::play("sandbox_quarantine::as_any_user", "another_user");
    assert!(passed.is_none_or(|passed| passed == 2), "{passed:?}");
}

#[test]
fn a_change_of_a_file_of_the_table_is_asked_for() {
    let place = Place::new(json!({}));
    for (file, path) in rows() {
        for file in [file.clone(), file.to_uppercase(), format!("sub/{file}")] {
            for tool in ["Write", "Edit"] {
                assert_eq!(place.file(AcceptEdits, tool, &file), "ask", "{tool} {file}");
            }
            let command = format!("echo x > {file}");
            assert_eq!(place.bash(AcceptEdits, &command), "ask", "{command}");
        }
        for command in [format!("rm -r {path}"), format!("mv src {path}")] {
            assert_eq!(place.bash(AcceptEdits, &command), "ask", "{command}");
        }
    }
}
