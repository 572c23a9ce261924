//! Tests the sandbox profile `work` on places in the working folder that grant permissions or
//! contain files that run later. A command must leave nothing in such a place, even if it changes
//! the modes of folders, makes links, or is killed together with its run.
//!
//! A test that this machine cannot run prints a message and is skipped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pitcrew_process::sandbox::{Unfinished, put_aside_unfinished};

use crate::another_user;
use crate::sandbox_read::git;
use crate::sandbox_work::ground;

/// Commands with which an attacker tries to prevent that pitcrew moves the attacker's new file
/// away. Each command runs after the file is made.
const TAKEN_RIGHTS: &[&str] =
    &["chmod 555 $D", "chmod 000 $D", "chmod 555 $D .", "chmod 000 $D; chmod 000 ."];

/// Each entry is a new file, and the folder whose permissions the attack then removes.
const APPEARING: &[(&str, &str)] = &[
    (".git/commondir", ".git"),
    (".git/modules", ".git"),
    (".git/config.worktree", ".git"),
    (".git/info/attributes", ".git/info"),
    (".git/objects/info/alternates", ".git/objects/info"),
    (".mcp.json", "."),
    (".envrc", "."),
    (".vscode", "."),
];

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[tokio::test]
async fn as_any_user_rights_taken_from_a_folder_keep_nothing_that_appeared_in_it() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    fs::create_dir_all(cwd.join(".git/objects/info")).unwrap();
    let _none = fs::remove_file(cwd.join(".git/info/attributes"));
    let mut through = Vec::new();
    for (place, folder) in APPEARING {
        for taken in TAKEN_RIGHTS {
            let before = (
                fs::metadata(&cwd).unwrap().mode(),
                fs::metadata(cwd.join(folder)).unwrap().mode(),
            );
            let said =
                ground.bash(&format!("echo x > {place}; {}", taken.replace("$D", folder))).await;
            let is_left = is_there(&cwd.join(place)) || !said.contains("put out of the way");
            for (path, mode) in [(cwd.clone(), before.0), (cwd.join(folder), before.1)] {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            if is_left || is_there(&cwd.join(place)) {
                through.push(format!("{place} {taken}: {said}"));
                let _left = fs::remove_file(cwd.join(place));
            }
        }
    }
    assert!(
        through.is_empty(),
        "{} of {}: {through:#?}",
        through.len(),
        APPEARING.len() * TAKEN_RIGHTS.len()
    );
}

#[tokio::test]
async fn as_any_user_the_rights_that_a_command_gave_a_folder_are_those_it_has_afterwards() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    ground.bash("echo x > .git/commondir; chmod 555 .git").await;
    assert!(!cwd.join(".git/commondir").exists());
    assert_eq!(fs::metadata(cwd.join(".git")).unwrap().mode() & 0o7777, 0o555);
}

/// Each command tries to make a set-user-id or set-group-id file, which would run with the rights
/// of its owner or group. `stat` shows whether the command succeeded.
const SET_ID: &[&str] = &[
    "cp /bin/true sb; chmod 4755 sb",
    "cp /bin/true sb; chmod u+s sb",
    "cp /bin/true sb; chmod 2755 sb",
    "cp /bin/true sb; chmod g+s sb",
    "install -m 4755 /bin/true sb",
    "python3 -c \"import os; os.open('sb', os.O_CREAT | os.O_WRONLY, 0o4755)\"",
    "python3 -c \"import os; os.open('sb', os.O_CREAT | os.O_WRONLY, 0o2755)\"",
    "python3 -c \"import os; os.mknod('sb', 0o104755)\"",
    "python3 -c \"import os; f = os.open('sb', os.O_CREAT | os.O_WRONLY, 0o755); os.fchmod(f, 0o4755)\"",
    "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(2, b'sb', 0o101, 0o4755)\"",
    "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(85, b'sb', 0o4755)\"",
    "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(133, b'sb', 0o104755, 0)\"",
    "touch sb; python3 -c \"import ctypes; ctypes.CDLL(None).syscall(90, b'sb', 0o6755)\"",
    "touch sb; python3 -c \"import ctypes; ctypes.CDLL(None).syscall(268, -100, b'sb', 0o4755)\"",
    "touch sb; python3 -c \"import ctypes; ctypes.CDLL(None).syscall(452, -100, b'sb', 0o4755, 0)\"",
    "python3 -c \"import ctypes, struct; ctypes.CDLL(None).syscall(437, -100, b'sb', struct.pack('QQQ', 0o101, 0o4755, 0), 24)\"",
    "python3 -c \"import ctypes, os; f = ctypes.CDLL(None).syscall(257, -100, b'.', 0o20200001, 0o4755); os.link(f'/proc/self/fd/{f}', 'sb', follow_symlinks=True)\"",
    "mkdir sb; chmod 2755 sb",
];

#[tokio::test]
async fn as_any_user_nothing_is_made_that_runs_with_the_user_s_rights() {
    let Some(ground) = ground() else { return };
    let mut through = Vec::new();
    for command in SET_ID {
        let said = ground.bash(&format!("{command}; ls -l sb")).await;
        let made = ground.setting.path("sb");
        if fs::symlink_metadata(&made).is_ok_and(|meta| meta.mode() & 0o6000 != 0) {
            through.push(format!("{command}: {said}"));
        }
        let _file = fs::remove_file(&made);
        let _folder = fs::remove_dir(&made);
    }
    assert!(through.is_empty(), "{} of {}: {through:#?}", through.len(), SET_ID.len());
    let done = ground
        .bash("touch f && chmod 1755 f && chmod 600 f && mkdir -m 1777 d && stat -c %a f d")
        .await;
    assert_eq!(done, "600\n1777");
}

/// Protected files. Most of them are protected because a file of the repository names them. Each
/// entry has a description of the protected file, and a command that tries to change it.
const NAMED: &[(&str, &str)] = &[
    ("what core.hooksPath names", "echo x > .husky/_/pre-commit"),
    ("what core.hooksPath names", "mv .husky h; mkdir -p .husky/_; echo x > .husky/_/pre-commit"),
    ("where husky's hooks lead", "echo x > .husky/pre-commit"),
    ("what include.path names", "echo x >> conf/included"),
    ("what include.path names", "mv conf c; mkdir conf; echo x > conf/included"),
    ("what an included file includes", "echo x > conf/nested"),
    ("what includeIf names", "echo x > conditional"),
    ("the program that core.fsmonitor names", "echo x > tools/monitor"),
    ("the target of a link", "echo x > conf/claude/settings.json"),
    (
        "the target of a link",
        "rm -r conf/claude; mkdir conf/claude; echo x > conf/claude/settings.json",
    ),
    ("a link on the way of a link", "rm way; mkdir -p way/idea; echo x > way/idea/evil"),
    ("a target that is not there", "echo x > absent"),
    ("attributes", "mkdir -p .git/info; echo x > .git/info/attributes"),
    ("alternates", "mkdir -p .git/objects/info; echo /tmp > .git/objects/info/alternates"),
    ("a worktree's configuration", "echo x > .git/worktrees/tree/config.worktree"),
    (
        "a new worktree's configuration",
        "mkdir .git/worktrees/n; echo x > .git/worktrees/n/config.worktree",
    ),
    ("settings in a subfolder", "echo x > sub/.claude/settings.json"),
    ("settings in a subfolder", "mkdir empty/.claude; echo x > empty/.claude/settings.json"),
    ("settings in a new subfolder", "mkdir -p fresh/.claude; echo x > fresh/.claude/settings.json"),
];

/// Paths of files that run later. If the path is a folder, every file in the folder counts too.
const RUN_LATER: &[&str] = &[
    ".husky",
    "conf/included",
    "conf/nested",
    "conditional",
    "tools/monitor",
    "conf/claude",
    ".claude",
    "way/idea",
    ".idea",
    "absent",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    ".git/worktrees/tree/config.worktree",
    ".git/worktrees/n/config.worktree",
    "sub/.claude",
    "empty/.claude",
    "fresh/.claude",
];

fn content(path: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut todo = vec![path.to_path_buf()];
    while let Some(path) = todo.pop() {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                found.push((path, Vec::new()));
            }
            Ok(_) => found.push((path.clone(), fs::read(&path).unwrap())),
            Err(_) => {}
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn as_any_user_places_that_the_repository_names_stay_as_they_are() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for (file, text) in [
        (".husky/_/h", "true\n"),
        ("conf/included", "[include]\n\tpath = nested\n"),
        ("tools/monitor", "#!/bin/sh\n"),
        ("conf/claude/agents/a.md", "a"),
        ("real/idea/x", "x"),
        ("sub/.claude/settings.json", "{}"),
    ] {
        ground.setting.write(file, text);
    }
    for (key, value) in [
        ("core.hooksPath", ".husky/_"),
        ("include.path", "../conf/included"),
        ("includeIf.gitdir:/none/.path", "../conditional"),
        ("core.fsmonitor", "tools/monitor --now"),
    ] {
        git(&cwd, &["config", key, value]);
    }
    fs::remove_dir_all(cwd.join(".claude")).unwrap();
    symlink("conf/claude", cwd.join(".claude")).unwrap();
    symlink("real", cwd.join("way")).unwrap();
    symlink("way/idea", cwd.join(".idea")).unwrap();
    symlink("absent", cwd.join(".envrc")).unwrap();
    let look =
        || RUN_LATER.iter().map(|place| (*place, content(&cwd.join(place)))).collect::<Vec<_>>();
    let mut before = look();
    let mut through = Vec::new();
    for (what, command) in NAMED {
        let said = ground.bash(command).await;
        let now = look();
        let differs: Vec<_> =
            before.iter().zip(&now).filter(|(was, is)| was != is).map(|(_, is)| &is.0).collect();
        if !differs.is_empty() {
            through.push(format!("{what}: {command}: {differs:?}: {said}"));
        }
        before = now;
    }
    assert!(through.is_empty(), "{} of {}: {through:#?}", through.len(), NAMED.len());
}

#[tokio::test]
async fn as_any_user_a_git_folder_that_is_a_file_or_a_link_is_put_out_of_the_way() {
    let Some(mut ground) = ground() else { return };
    let cwd = ground.setting.path("fresh");
    fs::create_dir(&cwd).unwrap();
    ground.setting.context.cwd.clone_from(&cwd);
    for command in
        ["echo gitdir: evil > .git", "ln -s evil .git", "git init -q evil; ln -s evil/.git .git"]
    {
        let said = ground.bash(&format!("mkdir -p evil; {command}")).await;
        assert!(
            !is_there(&cwd.join(".git")) && said.contains("put out of the way"),
            "{command}: {said}"
        );
    }
}

/// Runs the tests of this file again as a user without privileges, in a copy of this test program.
#[test]
fn another_user_s_commands_leave_nothing_either() {
    let passed = another_user::play("sandbox_places::as_any_user", "another_user");
    assert!(passed.is_none_or(|passed| passed == 5), "{passed:?}");
}

/// The environment variable that makes [`the_killed_run`] start its run. Only the test that kills
/// this run sets the variable.
const VICTIM: &str = "PITCREW_TEST_VICTIM";

/// A run that another test kills while a command of the run is active. Without the environment
/// variable [`VICTIM`], this test does nothing.
#[tokio::test]
async fn the_killed_run() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let ground = ground().unwrap();
    println!("{} {}", ground.base.display(), ground.other.id());
    let planting = "echo x > .mcp.json; mkdir .git/modules; mkdir -p empty/.claude; chmod 555 .git; touch planted; sleep 1000";
    ground.bash(planting).await;
}

#[tokio::test]
async fn a_killed_run_s_command_ends_with_it_and_what_it_made_is_put_aside_by_the_next_run() {
    if ground().is_none() {
        return;
    }
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", "sandbox_places::the_killed_run", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with('/')).unwrap();
    let (base, other) = line.split_once(' ').unwrap();
    let (base, other) = (Path::new(base), other.parse().unwrap());
    let cwd = fs::read_dir(base)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.join("kept").exists());
    let cwd = cwd.unwrap();
    until("the command has made it", || cwd.join("planted").exists());
    run.kill().unwrap();
    run.wait().unwrap();
    let tagged = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let stands_there = |path: &Path| fs::read_link(path.join("cwd")).is_ok_and(|it| it == cwd);
        processes.filter(|process| stands_there(&process.path())).count()
    };
    until("the command has ended", || tagged() == 0);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(other).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let root = base.join("home/.claude");
    let unfinished = Unfinished::below(&root);
    let mut appeared: Vec<_> = unfinished.iter().flat_map(Unfinished::appeared).collect();
    appeared.sort();
    let made = [".git/modules", ".mcp.json", "empty/.claude"];
    assert_eq!(appeared, made.map(|name| cwd.join(name)));
    assert!(made.iter().all(|name| cwd.join(name).exists()), "looking changes nothing");
    let said = put_aside_unfinished(&root);
    assert!(
        said.len() == 3 && said.iter().all(|words| words.contains("was put aside")),
        "{said:?}"
    );
    assert!(made.iter().all(|name| !cwd.join(name).exists()), "{said:?}");
    let left = fs::read_dir(root.join("pitcrew/quarantine")).unwrap().flatten();
    let records = left.filter(|it| it.path().extension().is_some_and(|it| it == "json"));
    assert_eq!((put_aside_unfinished(&root), records.count()), (vec![], 0));
    fs::set_permissions(cwd.join(".git"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(base).unwrap();
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let Some(ground) = ground() else { return };
    let said =
        ground.bash("setsid -f sh -c 'while :; do mkdir -p .vscode; sleep 0.01; done'; sleep 0.1; echo done").await;
    assert!(
        said.starts_with("done")
            && said.contains("put out of the way")
            && !said.contains("still running"),
        "{said}"
    );
    assert!(!is_there(&ground.setting.path(".vscode")));
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The test below runs itself a second time with the umask 000. This environment variable marks the
/// second run.
const OPENLY: &str = "PITCREW_TEST_OPENLY";

#[tokio::test]
async fn copies_of_the_user_s_git_configuration_are_the_user_s_whatever_the_umask_is() {
    if std::env::var_os(OPENLY).is_none() {
        let mut played = Command::new("sh");
        played
            .args(["-c", "umask 000; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact"]);
        played.arg("sandbox_places::copies_of_the_user_s_git_configuration_are_the_user_s_whatever_the_umask_is");
        let ran = played.env(OPENLY, "1").output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        return;
    }
    let Some(ground) = ground() else { return };
    let said = ground.bash("cd $(dirname $GIT_CONFIG_GLOBAL) && stat -c '%a %n' . *").await;
    assert_eq!(said, "700 .\n600 attributes\n600 config\n600 ignore");
}
