//! Git that pitcrew starts for itself: one place starts it, and a repository from an archive gains
//! nothing by it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::test_env::{Ran, TestEnv};

/// The folder of the only code that starts git.
const OWNER: &str = "process/src/our_git";

/// The other files of the product that contain git's name in quotes. They compare it with words of a
/// shell command, and start nothing.
const READ_COMMANDS: &[&str] = &[
    "permission/src/gate/bash.rs",
    "permission/src/gate/bash/doubtful.rs",
    "permission/src/gate/bash/repository.rs",
    "permission/src/gate/bash/rules.rs",
    "permission/src/gate/shell/effect.rs",
    "permission/src/gate/shell/unread.rs",
    "process/src/protected/names.rs",
    "process/src/stuck_git.rs",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(sources(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    found
}

/// Returns the product's part of a source file: the part before its tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap()
}

#[test]
fn one_place_starts_git() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut named = Vec::new();
    for room in fs::read_dir(&crates).unwrap().map(Result::unwrap) {
        // `chaos` is a tool for development, and makes the repositories that it tests.
        let source = room.path().join("src");
        if room.file_name() == "chaos" || !source.is_dir() {
            continue;
        }
        for file in sources(&source) {
            let text = fs::read_to_string(&file).unwrap();
            let is_test = file.components().any(|part| part.as_os_str() == "tests")
                || file.file_name().is_some_and(|name| name == "tests.rs");
            let names_git =
                ["\"git\"", "bin/git\""].iter().any(|name| without_tests(&text).contains(name));
            if names_git && !is_test {
                named.push(file.strip_prefix(&crates).unwrap().display().to_string());
            }
        }
    }
    named.sort();
    let (of_owner, others): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|file| file.starts_with(OWNER));
    assert!(!of_owner.is_empty(), "the search finds nothing");
    assert_eq!(others, READ_COMMANDS, "git is started by {OWNER} alone");
}

/// The script of a lead whose teammate commits in a worktree, puts a repository of the author's
/// there, and goes home.
const IN_A_WORKTREE: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, isolation: worktree, description: w, prompt: Commit.}}]
    - wait_for: {contains: it is there, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: has shut down, from: message}
    - text: All is done.
  bob:
    - tools: [{name: Bash, input: {command: "cp -r UNPACKED inner && git -c filter.evil.clean= -c filter.evil.process= -c core.fsmonitor=false add inner && touch -d 2001-01-01 x.dat inner/y.dat"}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: it is there, summary: done}}]
    - wait_for: {contains: shutdown_request}
      text: Done.
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

/// A user who has unpacked the archive of a stranger, and runs a team in it.
struct Unpacked {
    room: TestEnv,
    home: PathBuf,
    canary: PathBuf,
}

const START_FILE: &str = "# the user's\n";

impl Unpacked {
    fn new() -> Self {
        let room = TestEnv::new();
        let home = room.root().parent().unwrap().to_path_buf();
        let canary = home.join("canary");
        fs::write(home.join(".bashrc"), START_FILE).unwrap();
        let unpacked = Self { room, home, canary };
        let work = unpacked.room.work();
        unpacked.repository(&work, "x.dat");
        unpacked.repository(&unpacked.home.join("unpacked"), "y.dat");
        // Only now the repositories name programs, so that none ran while they were made.
        let evil = unpacked.home.join("evil.sh");
        let text = format!("#!/bin/sh\ntouch {}\ncat\n", unpacked.canary.display());
        fs::write(&evil, text).unwrap();
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
        let evil = evil.display();
        let of_branch = work.join(".git/of-branch");
        fs::write(
            &of_branch,
            format!("[filter \"evil\"]\n\tsmudge = {evil}\n\tprocess = {evil}\n"),
        )
        .unwrap();
        let outer = format!(
            "[user]\n\tname = \"a$(touch {})b\"\n\temail = x\n[core]\n\tfsmonitor = {evil}\n\
             [filter \"evil\"]\n\tclean = {evil}\n[includeIf \"onbranch:pitcrew/**\"]\n\tpath = of-branch\n",
            unpacked.canary.display()
        );
        let inner = format!("[core]\n\tfsmonitor = {evil}\n[filter \"evil\"]\n\tclean = {evil}\n");
        unpacked.append(&work, &outer);
        unpacked.append(&unpacked.home.join("unpacked"), &inner);
        unpacked
    }

    fn repository(&self, folder: &Path, file: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(".gitattributes"), "*.dat filter=evil\n").unwrap();
        fs::write(folder.join(file), "x").unwrap();
        for words in ["init -q -b main", "add --all", "commit -q -m first"] {
            let mut git = self.room.tool("git", &["-c", "user.name=t", "-c", "user.email=t@t"]);
            let done = git.args(words.split(' ')).current_dir(folder).status().unwrap();
            assert!(done.success(), "{words}");
        }
    }

    fn append(&self, repository: &Path, text: &str) {
        let config = repository.join(".git/config");
        let before = fs::read_to_string(&config).unwrap();
        fs::write(&config, before + text).unwrap();
    }

    fn run(&self) -> Ran {
        let script =
            IN_A_WORKTREE.replace("UNPACKED", &self.home.join("unpacked").display().to_string());
        let model = self.room.script(&script);
        self.room.run(&["run", "go", "--team", "work", "--model", &model, "--yes"])
    }

    fn check_untouched(&self, ran: &Ran) {
        assert!(!self.canary.exists(), "a program of the repository ran: {ran:?}");
        assert_eq!(fs::read_to_string(self.home.join(".bashrc")).unwrap(), START_FILE, "{ran:?}");
    }
}

#[test]
fn a_team_with_worktrees_runs_no_program_of_an_unpacked_archive() {
    let unpacked = Unpacked::new();
    let ran = unpacked.run();
    unpacked.check_untouched(&ran);
    assert!(ran.stdout.contains("All is done."), "{ran:?}");
    // The worktree has a file that is not committed, so it stays.
    let worktree = unpacked.room.root().join("pitcrew/worktrees/work/bob");
    assert!(worktree.join("inner/y.dat").is_file() && worktree.join("x.dat").is_file(), "{ran:?}");
    let log = unpacked.room.work().join(".git/logs/refs/heads/pitcrew/work/bob");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("pitcrew <") && !log.contains("touch"), "{log}");
}

#[test]
fn a_reflog_that_is_a_link_to_the_start_file_of_the_shell_makes_no_worktree_and_is_named() {
    let unpacked = Unpacked::new();
    let logs = unpacked.room.work().join(".git/logs/refs/heads/pitcrew/work");
    fs::create_dir_all(&logs).unwrap();
    symlink(unpacked.home.join(".bashrc"), logs.join("bob")).unwrap();
    let worktree = unpacked.room.root().join("pitcrew/worktrees/work/bob");
    let script = "agents:\n  team-lead:\n    - tools: [{name: Task, input: {name: bob, description: w, prompt: w, isolation: worktree}}]\n    - text: All is done.\n";
    let model = unpacked.room.script(script);
    let ran = unpacked.room.run(&["run", "go", "--team", "work", "--model", &model, "--yes"]);
    unpacked.check_untouched(&ran);
    assert!(!worktree.exists(), "{ran:?}");
    let seen = unpacked.room.find("teams/work/pitcrew/transcripts/team-lead.ndjson");
    let seen = fs::read_to_string(seen).unwrap();
    let link = ".git/logs/refs/heads/pitcrew/work/bob";
    assert!(seen.contains(link) && seen.contains("outside of the checkout"), "{seen}");
}
