//! The team's own folders behind the gate: no mode and no rule opens them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pitcrew_runtime::gate::PermissionMode::{self, AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
use pitcrew_runtime::gate::{Call, Gate, Verdict};
use pitcrew_runtime::settings::{Layer, Settings};
use serde_json::{Value, json};

/// A home with a root in it, and a project beside.
struct Place {
    _dir: tempfile::TempDir,
    base: PathBuf,
    gate: Gate,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["home/.claude/teams/t/inboxes", "home/.claude/tasks/t", "home/.claude/plans", "project"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        symlink(base.join("home/.claude/teams"), base.join("project/soft")).unwrap();
        let allow =
            json!({"permissions": {"allow": ["Bash", "Write", "Edit", "Read"], "additionalDirectories": ["~"]}});
        let settings = Settings::merge(vec![(Layer::User, allow)]).unwrap();
        let home = base.join("home");
        let gate = Gate::from_settings(&settings, Some(&home)).unwrap().guarding(&home.join(".claude"));
        Self { _dir: dir, base, gate }
    }

    fn judge(&self, mode: PermissionMode, tool: &str, input: &Value) -> Verdict {
        let cwd = self.base.join("project");
        let plan = self.base.join("home/.claude/plans/p.md");
        self.gate.judge(mode, &Call { tool, input, cwd: &cwd, plan_file: Some(&plan) })
    }

    fn bash(&self, command: &str) -> Verdict {
        let command = command.replace("BASE", self.base.to_str().unwrap());
        self.judge(BypassPermissions, "Bash", &json!({ "command": command }))
    }

    fn file(&self, mode: PermissionMode, tool: &str, path: &str) -> Verdict {
        let path = path.replace("BASE", self.base.to_str().unwrap());
        self.judge(mode, tool, &json!({"file_path": path, "content": "x", "old_string": "x", "new_string": "y"}))
    }
}

fn is_refused(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Deny { reason } if reason.contains("SendMessage") && reason.contains("TaskUpdate"))
}

#[test]
fn no_mode_lets_the_file_tools_write_there() {
    let place = Place::new();
    for mode in [Default, AcceptEdits, DontAsk, BypassPermissions, Plan] {
        for path in [
            "BASE/home/.claude/teams/t/inboxes/lead.json",
            "BASE/home/.claude/tasks/t/1.json",
            "BASE/home/.claude/tasks",
            "~/.claude/teams/t/config.json",
            "soft/t/inboxes/lead.json",
            "../home/x/../.claude/teams/new",
            "BASE/home/.claude/plans/../teams/new",
            "BASE/HOME/.Claude/Teams/t/config.json",
        ] {
            for tool in ["Write", "Edit"] {
                let verdict = place.file(mode, tool, path);
                assert!(is_refused(&verdict), "{mode} {tool} {path}: {verdict:?}");
            }
            assert!(!is_refused(&place.file(mode, "Read", path)), "{path}");
        }
    }
    let Verdict::Deny { reason } = place.file(Default, "Write", "BASE/home/.claude/teams/a") else { panic!() };
    let reason = reason.replace(place.base.to_str().unwrap(), "BASE");
    insta::assert_snapshot!(reason, @"BASE/home/.claude/teams/a belongs to the team's own files, which are not changed by hand: write to a teammate with SendMessage, and make and change tasks with TaskCreate and TaskUpdate. Reading there is allowed");
}

#[test]
fn reading_there_and_writing_beside_are_as_before() {
    let place = Place::new();
    assert_eq!(place.file(Default, "Read", "BASE/home/.claude/teams/t/config.json"), Verdict::Allow);
    for path in ["BASE/home/.claude/plans/p.md", "BASE/home/.claude/teams2", "a", "BASE/home/.claude/x/teams/y"] {
        assert_eq!(place.file(BypassPermissions, "Write", path), Verdict::Allow, "{path}");
    }
    for command in [
        "cat ~/.claude/teams/t/config.json > config",
        "cp ~/.claude/teams/t/config.json .",
        "grep -r x ~/.claude/tasks | tee found",
        "cd ~/.claude/teams && ls > /dev/null",
        "find ~/.claude/teams -name '*.json'",
        "sed s/a/b/ ~/.claude/teams/t/config.json",
        "echo ~/.claude/teams",
        "rm -rf teams tasks && mkdir teams && echo x > tasks",
        "touch ~/.claude/plans/x ~/x",
        "rm -rf ~/*.log",
        "mkdir -p ~/.claude/x",
        "mv a ~/.claude/x",
    ] {
        assert_eq!(place.bash(command), Verdict::Allow, "{command}");
    }
}

#[test]
fn a_command_that_says_it_writes_there_is_refused() {
    let place = Place::new();
    for command in [
        "echo x > BASE/home/.claude/teams/t/inboxes/lead.json",
        "echo x >> ~/.claude/teams/t/inboxes/lead.json",
        "echo x > \"$HOME/.claude/teams/t/inboxes/lead.json\"",
        "echo x > ${HOME}/.claude/tasks/t/$n.json",
        "echo x > $CLAUDE_CONFIG_DIR/teams/t/inboxes/lead.json",
        "cat > ~/.claude/teams/t/inboxes/lead.json <<EOF\nx\nEOF",
        "echo x | tee -a soft/t/inboxes/lead.json",
        "cp a ~/.claude/tasks/t/1.json",
        "cp -t ~/.claude/tasks/t a",
        "mv ~/.claude/tasks/t/1.json .",
        "mv ~/.claude/teams aside",
        "mv ~/.claude elsewhere",
        "rm -rf ~/.claude",
        "rm -f ~/.claude/tasks/t/*.json",
        "rm ../home/.claude/teams/t/config.json",
        "mkdir ~/.claude/TEAMS/x",
        "ln -s a ~/.claude/teams/t/inboxes/bob.json",
        "ln ~/.claude/teams/t/inboxes/lead.json hard",
        "dd if=a of=BASE/home/.claude/teams/x",
        "sed -i s/a/b/ ~/.claude/teams/t/config.json",
        "find ~/.claude/teams -delete",
        "cd ~/.claude && echo x > teams/x",
        "cd ~/.claude/teams; rm -r t",
        "bash -c 'echo x > ~/.claude/teams/x'",
        "timeout 5 rm -r ~/.claude/teams/t",
        "true && (touch ~/.claude/teams/x) &",
        "if true; then touch ~/.claude/teams/x; fi",
        "f() { touch ~/.claude/teams/x; }; f",
        "truncate -s 0 ~/.claude/tasks/t/1.json",
        "chmod 000 ~/.claude/teams",
    ] {
        let verdict = place.bash(command);
        assert!(is_refused(&verdict), "{command}: {verdict:?}");
    }
}

#[test]
fn a_worktree_below_the_root_is_edited_like_any_other_folder() {
    let place = Place::new();
    let cwd = place.base.join("home/.claude/pitcrew/worktrees/t/bob");
    fs::create_dir_all(&cwd).unwrap();
    let gate = Gate::default().guarding(&place.base.join("home/.claude"));
    for (path, is_free) in
        [("src/a.rs", true), (".claude/settings.json", false), (".git/config", false), ("../../x", false)]
    {
        let write = json!({"file_path": path, "content": "x"});
        let touch = json!({ "command": format!("touch {path}") });
        for (tool, input) in [("Write", &write), ("Bash", &touch)] {
            let verdict = gate.judge(AcceptEdits, &Call { tool, input, cwd: &cwd, plan_file: None });
            assert_eq!(verdict == Verdict::Allow, is_free, "{tool} {path}: {verdict:?}");
        }
    }
}

#[test]
fn a_folder_is_known_by_whatever_name_it_has() {
    let place = Place::new();
    // As a second mount would show it: another path to the same folder, which resolving does not reveal.
    let other = place.base.join("other");
    symlink(place.base.join("home"), &other).unwrap();
    let gate = Gate::default().guarding(&other.join(".claude"));
    let input = json!({"file_path": place.base.join("home/.claude/teams/x"), "content": "x"});
    let call = Call { tool: "Write", input: &input, cwd: Path::new("/"), plan_file: None };
    assert!(is_refused(&gate.judge(BypassPermissions, &call)));
}
