//! Tests that the permission gate asks when a repository's files can make git run a program. Some
//! of these files contain the name of a program. Other files, such as hooks, are programs
//! themselves.

use std::fs;
use std::path::Path;
use std::process::Command;

use pitcrew_protocol::PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
use serde_json::json;

use crate::gate_modes::Place;

/// Git commands that only read. To find or display changes, each of them is able to run a program
/// that the repository's configuration names.
const READING: &[&str] = &[
    "git blame src/main.rs",
    "git status",
    "git status --short",
    "git ls-files -m",
    "git describe --dirty --always",
    "git diff",
    "git diff --stat",
    "git diff --name-only",
    "git diff --name-status",
    "git diff --numstat",
    "git diff --shortstat",
    "git log --oneline",
    "git log --stat",
    "git log -p",
    "git log -L1,1:src/main.rs",
    "git log -Stext",
    "git log -Gtext",
    "git log --follow src/main.rs",
    "git show",
    "git show --stat",
    "git grep text",
    "git rev-parse HEAD",
    "git --no-pager status",
    "env git status",
    "sh -c 'git status'",
    "ls | xargs git status",
    "cd src && git status",
];

fn git(folder: &Path, words: &str) {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.invalid",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(words.split(' '))
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {words}: {output:?}");
}

/// Creates a project that is a git repository with one commit.
fn repository(permissions: serde_json::Value) -> Place {
    let place = Place::new(permissions);
    let project = place.path("project");
    git(&project, "init -q");
    git(&project, "add .");
    git(&project, "commit -q -m first");
    place
}

/// Returns the commands of [`READING`] that the gate allows without a permission request.
fn unasked(place: &Place) -> Vec<&'static str> {
    READING.iter().copied().filter(|command| place.bash(Default, command) == "allow").collect()
}

fn append(file: &Path, text: &str) {
    let before = fs::read_to_string(file).unwrap_or_default();
    fs::write(file, before + text).unwrap();
}

#[test]
fn git_is_asked_for_where_the_repository_names_a_program() {
    let place = repository(json!({}));
    // The commands with `xargs` are left out, because the gate cannot know which arguments `xargs`
    // appends.
    let usual: Vec<_> =
        READING.iter().copied().filter(|command| !command.contains("xargs")).collect();
    assert_eq!(unasked(&place), usual);
    let config = place.path("project/.git/config");
    let clean = fs::read_to_string(&config).unwrap();
    for program in [
        "[diff \"ev\"]\n\ttextconv = ./x\n",
        "[filter \"ev\"]\n\tclean = ./x\n",
        "[filter \"ev\"]\n\tprocess = ./x\n",
        "[gpg]\n\tprogram = ./x\n[log]\n\tshowSignature = true\n",
        "[core]\n\tfsmonitor = ./x\n",
        "[diff]\n\texternal = ./x\n",
        "[include]\n\tpath = ../more\n",
        "[includeIf \"gitdir:/never\"]\n\tpath = ../more\n",
        "[core\n",
    ] {
        fs::write(place.path("project/more"), "[core]\n\tfsmonitor = ./x\n").unwrap();
        fs::write(&config, format!("{clean}{program}")).unwrap();
        assert_eq!(unasked(&place), Vec::<&str>::new(), "{program}");
        assert_eq!(place.bash(Plan, "git status"), "deny", "{program}");
        assert_eq!(place.bash(DontAsk, "git status"), "deny", "{program}");
        assert_eq!(place.bash(AcceptEdits, "git status"), "ask", "{program}");
        assert_eq!(place.bash(Default, "ls"), "allow", "{program}");
    }
    fs::write(&config, format!("{clean}[core]\n\tfsmonitor = true\n\thooksPath = .husky/_\n"))
        .unwrap();
    assert_eq!(unasked(&place), usual);
}

#[test]
fn git_is_asked_for_where_a_worktree_s_or_a_submodule_s_configuration_names_a_program() {
    let place = repository(json!({}));
    let project = place.path("project");
    let nested = project.join("nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, "init -q");
    git(&nested, "commit -q --allow-empty -m first");
    let program = "[core]\n\tfsmonitor = ./x\n";
    append(&nested.join(".git/config"), program);
    assert_eq!(
        place.bash(Default, "git status"),
        "allow",
        "git does not look into what it does not track"
    );
    git(&project, "-c core.fsmonitor=false add nested");
    assert_eq!(place.bash(Default, "git status"), "ask", "a repository in it");
    git(&project, "rm -q -f --cached nested");
    assert_eq!(place.bash(Default, "git status"), "allow");
    append(&project.join(".git/config.worktree"), program);
    assert_eq!(place.bash(Default, "git status"), "ask", "config.worktree");
    fs::remove_file(project.join(".git/config.worktree")).unwrap();
    fs::rename(project.join(".git"), project.join("real")).unwrap();
    append(&project.join("real/config"), program);
    fs::create_dir(project.join(".git")).unwrap();
    fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(project.join(".git/commondir"), "../real\n").unwrap();
    assert_eq!(place.bash(Default, "git status"), "ask", "a common folder elsewhere");
}

#[test]
fn an_edit_of_what_runs_by_itself_is_asked_for() {
    let place = Place::new(json!({}));
    for file in [
        ".mcp.json",
        ".envrc",
        ".vscode/tasks.json",
        ".VSCode/settings.json",
        ".idea/x",
        ".husky/pre-commit",
        ".gitmodules",
        ".devcontainer/devcontainer.json",
        ".zed/tasks.json",
        ".exrc",
        ".bashrc",
        "sub/.ZshRC",
        ".gitconfig",
        ".githooks/pre-commit",
        ".claude/settings.json",
        "sub/.claude/settings.json",
        "sub/.mcp.json",
        "src/../.envrc",
        "sub/.git/config",
    ] {
        for tool in ["Write", "Edit"] {
            assert_eq!(place.file(AcceptEdits, tool, file), "ask", "{tool} {file}");
        }
        assert_eq!(place.bash(AcceptEdits, &format!("echo x > {file}")), "ask", "{file}");
    }
    for file in [
        "src/main.rs",
        "AGENTS.md",
        ".cursorrules",
        "mcp.json",
        "vscode/x",
        "envrc",
        "HEAD",
        "config",
        "sub/objects/x",
        "sub/refs/x",
    ] {
        assert_eq!(place.file(AcceptEdits, "Write", file), "allow", "{file}");
    }
}

#[test]
fn four_files_do_not_become_a_repository_unasked() {
    let files = ["HEAD", "config", "objects/x", "refs/x"];
    // The files `HEAD`, `config`, `objects/x` and `refs/x` together form a git repository. The loop
    // tries to write them in several orders, and writes each file that the gate allows. In each
    // order, the gate must ask about at least one file, and the files that were written must not
    // form a repository.
    for first in 0..files.len() {
        for turn in [1, 3] {
            let place = Place::new(json!({}));
            let mut asked = 0;
            for file in (0..files.len()).map(|number| files[(first + number * turn) % files.len()])
            {
                let path = place.path("project/sub").join(file);
                if place.file(AcceptEdits, "Write", &format!("sub/{file}")) != "allow" {
                    asked += 1;
                    continue;
                }
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "x").unwrap();
            }
            let sub = place.path("project/sub");
            let is_there = |name: &str| sub.join(name).exists();
            assert!(
                asked > 0 && !(is_there("HEAD") && is_there("objects") && is_there("refs")),
                "{first} {turn}"
            );
        }
    }
    let place = Place::new(json!({}));
    git(&place.path("project"), "init -q --bare sub");
    for file in
        ["HEAD", "config", "config.worktree", "hooks/pre-commit", "objects/x", "info/attributes"]
    {
        assert_eq!(place.file(AcceptEdits, "Write", &format!("sub/{file}")), "ask", "{file}");
    }
    fs::create_dir(place.path("project/lent")).unwrap();
    fs::write(place.path("project/lent/commondir"), "../elsewhere").unwrap();
    assert_eq!(place.file(AcceptEdits, "Write", "lent/HEAD"), "ask");
}

#[test]
fn what_git_stored_of_a_denied_file_is_neither_shown_nor_copied_unasked() {
    let place = repository(json!({"allow": ["Bash(git:*)"], "deny": ["Read(./secrets/**)"]}));
    for command in [
        "git reflog -p",
        "git reflog show --patch",
        "git reflog -5 -p",
        "git worktree add ../other",
        "git -C . worktree add ../other",
        "git clone . ../other",
        "git clone -q --bare . ../other",
        "git add -p",
        "git checkout --pat",
        "git reset -p HEAD",
        "git commit -v",
        "git merge-tree HEAD HEAD HEAD",
    ] {
        assert_eq!(place.bash(Default, command), "ask", "{command}");
        assert_eq!(place.bash(BypassPermissions, command), "deny", "{command}");
    }
    for command in [
        "git reflog",
        "git reflog show HEAD",
        "git reflog -5 --oneline",
        "git worktree list",
        "git worktree remove ../other",
        "git add .",
        "git commit -qam text",
        "git commit --message=text",
        "git checkout -b other",
        "git reset --hard",
    ] {
        assert_eq!(place.bash(Default, command), "allow", "{command}");
        assert_eq!(place.bash(BypassPermissions, command), "allow", "{command}");
    }
    let untracked = repository(json!({"allow": ["Bash(git:*)"], "deny": ["Read(**/.env)"]}));
    for command in ["git worktree add ../other", "git clone . ../other"] {
        assert_eq!(untracked.bash(Default, command), "allow", "{command}");
    }
    assert_eq!(untracked.bash(Default, "git reflog -p"), "ask", "the past may hold one");
}
