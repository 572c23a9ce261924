//! Tests that the permission gate asks when a repository's files can make git run a program. Some
//! of these files contain the name of a program. Other files, such as hooks, are programs
//! themselves.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use pitcrew_permission::gate::Verdict;
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

/// Something that a repository's files make of a command which the user has allowed.
struct Made {
    /// The name of the row.
    by: &'static str,
    /// Makes the files in the project, which is a repository with one commit.
    make: fn(&Path),
    command: &'static str,
    /// The decision about the command under any allow rule: `ask`, or `confined` to a sandbox in
    /// which git does not do it.
    then: &'static str,
}

const PROGRAM: &str = "[core]\n\tfsmonitor = ./x\n";

/// Makes a repository in a folder, with this text added to its configuration.
fn nested(project: &Path, name: &str, config: &str) {
    fs::create_dir_all(project.join(name)).unwrap();
    git(&project.join(name), "init -q");
    append(&project.join(name).join(".git/config"), config);
}

/// Makes a bare repository, with this text added to its configuration.
fn bare(project: &Path, name: &str, config: &str) {
    git(project, &format!("init -q --bare {name}"));
    append(&project.join(name).join("config"), config);
}

fn executable(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a repository's files make of a command. Each row is asked about under any allow rule.
const MADE: &[Made] = &[
    Made {
        by: "its configuration",
        make: |it| append(&it.join(".git/config"), PROGRAM),
        command: "git status",
        then: "ask",
    },
    Made {
        by: "an included file",
        make: |it| {
            fs::write(it.join("more"), PROGRAM).unwrap();
            append(&it.join(".git/config"), "[include]\n\tpath = ../more\n");
        },
        command: "git status",
        then: "ask",
    },
    Made {
        by: "a filter, behind a wrapper",
        make: |it| append(&it.join(".git/config"), "[filter \"x\"]\n\tclean = ./x\n"),
        command: "timeout 5 git status",
        then: "ask",
    },
    Made {
        by: "an ssh command",
        make: |it| append(&it.join(".git/config"), "[core]\n\tsshCommand = ./x\n"),
        command: "git fetch",
        then: "ask",
    },
    Made {
        by: "a head that is a link",
        make: |it| {
            append(&it.join(".git/config"), PROGRAM);
            fs::remove_file(it.join(".git/HEAD")).unwrap();
            symlink("refs/heads/none", it.join(".git/HEAD")).unwrap();
        },
        command: "git status",
        then: "ask",
    },
    Made {
        by: "a nested bare repository",
        make: |it| bare(it, "bare", PROGRAM),
        command: "cd bare && git status",
        then: "ask",
    },
    Made {
        by: "a bare repository below a nested folder",
        make: |it| {
            bare(it, "bare", PROGRAM);
            fs::create_dir_all(it.join("bare/deep/er")).unwrap();
        },
        command: "git -C bare/deep/er status",
        then: "ask",
    },
    Made {
        by: "a bare repository that borrows its configuration",
        make: |it| {
            bare(it, "real", PROGRAM);
            fs::create_dir(it.join("bare")).unwrap();
            fs::write(it.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(it.join("bare/commondir"), "../real\n").unwrap();
        },
        command: "cd bare && git status",
        then: "ask",
    },
    Made {
        by: "a bare repository in the working folder itself",
        make: |it| {
            fs::rename(it.join(".git"), it.join("old")).unwrap();
            fs::create_dir(it.join(".git")).unwrap();
            for name in ["HEAD", "objects", "refs", "config"] {
                fs::rename(it.join("old").join(name), it.join(name)).unwrap();
            }
            append(&it.join("config"), PROGRAM);
        },
        command: "git status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by cd",
        make: |it| nested(it, "nested", PROGRAM),
        command: "cd nested && git status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by pushd",
        make: |it| nested(it, "nested", PROGRAM),
        command: "pushd nested && git status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by an option",
        make: |it| nested(it, "nested", PROGRAM),
        command: "git -C nested status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by two options",
        make: |it| nested(it, "a/nested", PROGRAM),
        command: "git -C a -C nested status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by a variable of the script",
        make: |it| nested(it, "nested", PROGRAM),
        command: "d=nested; git -C $d status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by a folder that is not known",
        make: |it| nested(it, "nested", PROGRAM),
        command: "git -C \"$D\" status",
        then: "ask",
    },
    Made {
        by: "a nested repository, in a script",
        make: |it| nested(it, "nested", PROGRAM),
        command: "sh -c 'cd nested; git status'",
        then: "ask",
    },
    Made {
        by: "a nested repository, in a substitution",
        make: |it| nested(it, "nested", PROGRAM),
        command: "echo $(cd nested && git status)",
        then: "ask",
    },
    Made {
        by: "a nested repository, by --git-dir",
        make: |it| nested(it, "nested", PROGRAM),
        command: "git --git-dir=nested/.git status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by GIT_DIR",
        make: |it| nested(it, "nested", PROGRAM),
        command: "GIT_DIR=nested/.git git status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by an exported GIT_DIR",
        make: |it| nested(it, "nested", PROGRAM),
        command: "export GIT_DIR=nested/.git; git status",
        then: "ask",
    },
    Made {
        by: "a nested repository, by env",
        make: |it| nested(it, "nested", PROGRAM),
        command: "env GIT_DIR=nested/.git git status",
        then: "ask",
    },
    Made {
        by: "a hook of a nested repository",
        make: |it| {
            nested(it, "nested", "");
            executable(&it.join("nested/.git/hooks/pre-commit"));
        },
        command: "cd nested && git commit -m x",
        then: "ask",
    },
    Made {
        by: "a folder of hooks of a nested repository",
        make: |it| {
            nested(it, "nested", "[core]\n\thooksPath = hooks\n");
            executable(&it.join("nested/hooks/pre-commit"));
        },
        command: "cd nested && git commit -m x",
        then: "ask",
    },
    Made {
        by: "the hook that a command which reads runs",
        make: |it| executable(&it.join(".git/hooks/post-index-change")),
        command: "git status",
        then: "confined",
    },
    Made {
        by: "a submodule",
        make: |it| {
            nested(it, "nested", "");
            git(&it.join("nested"), "commit -q --allow-empty -m first");
            git(it, "add nested");
            append(&it.join("nested/.git/config"), PROGRAM);
        },
        command: "git status",
        then: "ask",
    },
    Made {
        by: "an alias",
        make: |it| append(&it.join(".git/config"), "[alias]\n\tlint = !./x\n"),
        command: "git lint",
        then: "ask",
    },
    Made {
        by: "a git folder of another repository",
        make: |it| {
            fs::rename(it.join(".git"), it.join("../outside/git")).unwrap();
            fs::write(it.join(".git"), "gitdir: ../outside/git\n").unwrap();
        },
        command: "git log",
        then: "confined",
    },
    Made {
        by: "an object store of another repository",
        make: |it| {
            git(&it.join("../outside"), "init -q");
            let alternates = it.join(".git/objects/info/alternates");
            fs::create_dir_all(alternates.parent().unwrap()).unwrap();
            let store = it.join("../outside/.git/objects").canonicalize().unwrap();
            fs::write(alternates, format!("{}\n", store.display())).unwrap();
        },
        command: "git log",
        then: "confined",
    },
];

/// The allow rules of a user who meant the command of a row.
fn rules_for(command: &str) -> Vec<String> {
    let each = ["Bash", "Bash(git:*)", "Bash(git status:*)", "Bash(*git*)"].map(str::to_owned);
    let exact = format!("Bash({command})");
    each.into_iter().chain([exact]).collect()
}

#[test]
fn no_allow_rule_answers_for_what_a_repository_makes_of_a_command() {
    for Made { by, make, command, then } in MADE {
        let place = repository(json!({}));
        make(&place.path("project"));
        for rule in rules_for(command) {
            for mode in [Default, AcceptEdits, DontAsk] {
                let expected = if mode == DontAsk && *then == "ask" { "deny" } else { then };
                let decided = place.bash_with(&rule, mode, command);
                assert_eq!(decided, expected, "{by}: {command}, {rule} in {mode}");
            }
        }
        assert_eq!(place.bash(BypassPermissions, command), "allow", "{by}: {command}");
        let verdict = place.judge(Default, "Bash", &json!({ "command": command }));
        let is_marked = matches!(&verdict, Verdict::Ask { is_about_repository: true, .. });
        assert_eq!(is_marked, *then == "ask", "no hook answers either: {by}: {verdict:?}");
    }
}

/// Commands that a rule allows, in a repository with these files. Nothing in them makes git run a
/// program.
const HARMLESS: &[Made] = &[
    Made { by: "nothing", make: |_| {}, command: "git status", then: "free" },
    Made { by: "nothing", make: |_| {}, command: "git -C src commit -m 'in src'", then: "free" },
    Made { by: "nothing", make: |_| {}, command: "git --git-dir=.git log", then: "free" },
    Made {
        by: "a nested repository",
        make: |it| nested(it, "nested", ""),
        command: "cd nested && git commit -m x",
        then: "free",
    },
    Made {
        by: "a bare repository",
        make: |it| bare(it, "bare", ""),
        command: "git -C bare log",
        then: "free",
    },
    Made {
        by: "a hook of its own",
        make: |it| executable(&it.join(".git/hooks/pre-commit")),
        command: "git commit -m x",
        then: "free",
    },
    Made {
        by: "a hook of a nested repository that nobody runs",
        make: |it| {
            nested(it, "nested", "");
            executable(&it.join("nested/.git/hooks/pre-commit"));
        },
        command: "git -C nested status",
        then: "free",
    },
    Made {
        by: "an alias that is not used",
        make: |it| append(&it.join(".git/config"), "[alias]\n\tlint = !./x\n"),
        command: "git status",
        then: "free",
    },
    Made {
        by: "a program of git's, for another program",
        make: |it| append(&it.join(".git/config"), PROGRAM),
        command: "ls",
        then: "free",
    },
];

#[test]
fn an_allow_rule_answers_where_a_repository_adds_nothing() {
    for Made { by, make, command, then } in HARMLESS {
        let place = repository(json!({}));
        make(&place.path("project"));
        for rule in ["Bash".to_owned(), format!("Bash({command})")] {
            assert_eq!(place.bash_with(&rule, Default, command), *then, "{by}: {command}, {rule}");
        }
    }
}

#[test]
fn no_allow_rule_is_meant_for_a_program_of_the_project_with_the_name_of_a_known_one() {
    for path in [".:/usr/bin:/bin", "PROJECT:/usr/bin:/bin", "src/..:/usr/bin:/bin"] {
        let place = repository(json!({})).searching(path, &["ls", "git", "timeout", "mytool"]);
        for command in ["ls", "git status", "timeout 5 mytool", "env ls"] {
            for rule in ["Bash".to_owned(), format!("Bash({command})"), "Bash(ls:*)".to_owned()] {
                assert_eq!(
                    place.bash_with(&rule, Default, command),
                    "ask",
                    "{path}: {command}, {rule}"
                );
            }
        }
        // The user names this program, and no other has its name.
        assert_eq!(place.bash_with("Bash(mytool:*)", Default, "mytool x"), "free", "{path}");
        assert_eq!(place.bash_with("Bash(./ls:*)", Default, "./ls x"), "free", "{path}");
    }
}
