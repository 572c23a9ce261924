//! The user unpacks a stranger's archive, which contains a whole `.git` folder, and gives a teammate
//! a worktree there, without trusting it. What the archive says about worktrees harms nobody.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use pitcrew_process::worktree::{Worktree, Worktrees};
use serde_json::json;

use crate::supervision::block_on;
use crate::test_env::{Ran, TestEnv};

/// The time limit of a run in seconds. A run that takes longer counts as hanging.
const SECONDS: &str = "200";

/// The file in the archive by which earlier versions of pitcrew found their unfinished work.
const EARLIER_LOCK: &str = ".git/pitcrew-worktrees.lock";

/// A lead whose teammate works in a worktree and shuts down.
const SCRIPT: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, isolation: worktree, description: w, prompt: Go.}}]
    - wait_for: {contains: it is there, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: has shut down, from: message}
    - text: All is done.
  bob:
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: it is there, summary: done}}]
    - wait_for: {contains: shutdown_request}
      text: Done.
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

/// The user's machine: a repository with a teammate at work, a file, and the unpacked archive.
struct Machine {
    room: TestEnv,
    /// The worktree of a teammate of another team, in another repository.
    neighbour: Worktree,
    bashrc: PathBuf,
}

fn git(room: &TestEnv, folder: &Path, args: &[&str]) {
    let name = ["-c", "user.name=Tess", "-c", "user.email=tess@example.org"];
    let done = room.tool("git", &name).args(args).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "git {args:?}: {done:?}");
}

impl Machine {
    fn new() -> Self {
        let room = TestEnv::new();
        let other = room.root().with_file_name("other");
        fs::create_dir(&other).unwrap();
        for repository in [&other, &room.work()] {
            git(&room, repository, &["init", "--quiet", "--initial-branch=main"]);
            git(&room, repository, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        }
        let worktrees = Worktrees::new(&other, Worktrees::folder_below(&room.root()));
        let neighbour = block_on(worktrees.create("neighbour", "ann")).unwrap();
        fs::write(neighbour.path.join("notes"), "a day's work").unwrap();
        let bashrc = room.root().with_file_name("bashrc");
        fs::write(&bashrc, "alias ll='ls -l'\n").unwrap();
        Self { room, neighbour, bashrc }
    }

    fn lock(&self) -> PathBuf {
        self.room.work().join(EARLIER_LOCK)
    }

    /// Runs a team with a teammate in a worktree of the archive.
    fn run(&self) -> Ran {
        let model = self.room.script(SCRIPT);
        let program = env!("CARGO_BIN_EXE_pitcrew");
        let args =
            ["--signal=KILL", SECONDS, program, "run", "go", "--team", "work", "--model", &model];
        Ran::of(self.room.tool("timeout", &args).output().unwrap())
    }
}

/// What is planted at the path of the lock, and the words by which `doctor` shows it.
type Planted = (&'static str, fn(&Machine), &'static str);

const PLANTED: &[Planted] = &[
    (
        "a record that names the neighbour's worktree",
        |machine| {
            let path = &machine.neighbour.path;
            let record = json!({"path": path, "branch": "pitcrew/work/x"});
            fs::write(machine.lock(), record.to_string()).unwrap();
        },
        "it claims that the worktree",
    ),
    (
        "a link to a file of the user",
        |machine| symlink(&machine.bashrc, machine.lock()).unwrap(),
        "it is a link, but only regular files are read",
    ),
    (
        "a FIFO",
        |machine| {
            assert!(Command::new("mkfifo").arg(machine.lock()).status().unwrap().success());
        },
        "it is a FIFO, but only regular files are read",
    ),
];

#[test]
fn an_archive_that_is_not_trusted_harms_no_worktree_of_another_team() {
    for (name, plant, shown) in PLANTED {
        let machine = Machine::new();
        plant(&machine);
        let ran = machine.run();
        // What git could follow or wait for is refused by name. The run goes on without the teammate.
        let is_refused = ran.stderr.contains("a worktree for bob cannot be created")
            && ran.stderr.contains(".git/pitcrew-worktrees.lock");
        assert!(ran.stdout.contains("All is done.") || is_refused, "{name}: {ran:?}");
        assert!(ran.stderr.contains("bob"), "{name}: {ran:?}");
        let looked = machine.room.json(&["doctor"]);
        let notes = looked["notes"].to_string();
        let is_shown = notes.contains("earlier_record") && notes.contains(shown);
        let is_harmless = is_shown && notes.contains("nothing is done by it");
        // Git is not asked about a repository that it could not read, and the reason names the file.
        let is_named = is_refused && looked.to_string().contains("pitcrew-worktrees.lock");
        assert!(is_harmless || is_named, "{name}: {looked:#}");
        machine.room.run(&["doctor", "--repair"]);
        let work = fs::read_to_string(machine.neighbour.path.join("notes"));
        assert_eq!(work.unwrap(), "a day's work", "{name}");
        assert_eq!(fs::read_to_string(&machine.bashrc).unwrap(), "alias ll='ls -l'\n", "{name}");
        assert!(machine.lock().symlink_metadata().is_ok(), "{name}: it was removed");
    }
}
