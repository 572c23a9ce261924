//! Tests that the permission gate protects the team's own folders and the user's settings. No
//! permission mode and no rule allows an agent to change these files. A project's settings have
//! less protection: an agent is allowed to change them in one permission mode, or if a rule names
//! their folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pitcrew_permission::gate::{Call, Gate, Verdict};
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_protocol::PermissionMode::{
    self, AcceptEdits, BypassPermissions, Default, DontAsk, Plan,
};
use serde_json::{Value, json};

/// A home folder that contains pitcrew's root folder, and a project folder beside the home folder.
struct Place {
    _dir: tempfile::TempDir,
    base: PathBuf,
    gate: Gate,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in [
            "home/.claude/teams/t/inboxes",
            "home/.claude/tasks/t",
            "home/.claude/plans",
            "project",
        ] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        symlink(base.join("home/.claude/teams"), base.join("project/soft")).unwrap();
        let allow = json!({"permissions": {"allow": ["Bash", "Write", "Edit", "Read"], "additionalDirectories": ["~"]}});
        let settings = Settings::merge(vec![(Layer::User, allow)]).unwrap();
        let home = base.join("home");
        let gate =
            Gate::from_settings(&settings, Some(&home)).unwrap().guarding(&home.join(".claude"));
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
        self.judge(
            mode,
            tool,
            &json!({"file_path": path, "content": "x", "old_string": "x", "new_string": "y"}),
        )
    }
}

fn is_allowed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Allow { .. })
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
    let Verdict::Deny { reason } = place.file(Default, "Write", "BASE/home/.claude/teams/a") else {
        panic!()
    };
    let reason = reason.replace(place.base.to_str().unwrap(), "BASE");
    insta::assert_snapshot!(reason, @"BASE/home/.claude/teams/a belongs to the team's own files, which are not changed by hand: write to a teammate with SendMessage, and make and change tasks with TaskCreate and TaskUpdate. Reading there is allowed");
}

#[test]
fn reading_there_and_writing_beside_are_as_before() {
    let place = Place::new();
    assert!(is_allowed(&place.file(Default, "Read", "BASE/home/.claude/teams/t/config.json")));
    for path in [
        "BASE/home/.claude/plans/p.md",
        "BASE/home/.claude/teams2",
        "a",
        "BASE/home/.claude/x/teams/y",
    ] {
        assert!(is_allowed(&place.file(BypassPermissions, "Write", path)), "{path}");
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
        assert!(is_allowed(&place.bash(command)), "{command}");
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
fn the_user_s_settings_are_the_user_s_in_every_mode() {
    let place = Place::new();
    fs::create_dir(place.base.join("home/.claude/agents")).unwrap();
    fs::write(place.base.join("home/.claude/settings.json"), "{}").unwrap();
    symlink(place.base.join("home/.claude/settings.json"), place.base.join("project/mine"))
        .unwrap();
    fs::hard_link(place.base.join("home/.claude/settings.json"), place.base.join("project/hard"))
        .unwrap();
    let is_refused = |verdict: &Verdict| matches!(verdict, Verdict::Deny { reason } if reason.contains("only the user"));
    for mode in [Default, AcceptEdits, DontAsk, BypassPermissions, Plan] {
        for path in [
            "~/.claude/settings.json",
            "BASE/home/.claude/settings.local.json",
            "~/.claude/agents/new.md",
            "~/.claude/hooks/check.sh",
            "~/.claude/plugins/a/hooks/hooks.json",
            "~/.Claude/SETTINGS.json",
            "mine",
            "hard",
        ] {
            let verdict = place.file(mode, "Write", path);
            assert!(is_refused(&verdict), "{mode} {path}: {verdict:?}");
            assert!(!is_refused(&place.file(mode, "Read", path)), "{path}");
        }
    }
    for command in [
        "echo '{}' > ~/.claude/settings.json",
        "echo '{}' > $CLAUDE_CONFIG_DIR/settings.local.json",
        "sed -i s/a/b/ mine",
        "mv a ~/.claude/agents",
        "cd ~/.claude && cp -r /tmp/x hooks",
        "rm ~/.claude/settings.json",
    ] {
        let verdict = place.bash(command);
        assert!(is_refused(&verdict), "{command}: {verdict:?}");
    }
    for command in [
        "cat ~/.claude/settings.json > copy",
        "touch ~/.claude/settings.json.bak",
        "cp ~/.claude/agents/a.md .",
    ] {
        assert!(is_allowed(&place.bash(command)), "{command}");
    }
    let Verdict::Deny { reason } = place.file(Default, "Write", "~/.claude/settings.json") else {
        panic!()
    };
    let reason = reason.replace(place.base.to_str().unwrap(), "BASE");
    insta::assert_snapshot!(reason, @"BASE/home/.claude/settings.json belongs to the user's settings, which decide what agents may do: only the user changes them. Say what should stand there, and the user can put it in. Reading there is allowed");
}

/// The paths of a project's settings files, as an agent would write them in a tool call.
const OF_A_PROJECT: [&str; 8] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/agents/a.md",
    ".claude/hooks/check.sh",
    ".Claude/Settings.json",
    "sub/.claude/settings.json",
    "BASE/elsewhere/.claude/agents/a.md",
    "aside/settings.json",
];

#[test]
fn a_project_s_settings_are_asked_for_whatever_a_broad_rule_says() {
    let place = Place::new();
    fs::create_dir(place.base.join("project/.claude")).unwrap();
    symlink(".claude", place.base.join("project/aside")).unwrap();
    for path in OF_A_PROJECT {
        for mode in [Default, AcceptEdits] {
            for tool in ["Write", "Edit"] {
                let verdict = place.file(mode, tool, path);
                let Verdict::Ask { suggestions, .. } = &verdict else {
                    panic!("{mode} {tool} {path}: {verdict:?}")
                };
                assert!(suggestions.is_empty(), "{suggestions:?}");
            }
            let input = json!({"command": format!("echo x > {path}").replace("BASE", place.base.to_str().unwrap())});
            let verdict = place.judge(mode, "Bash", &input);
            assert!(matches!(verdict, Verdict::Ask { .. }), "{mode} {path}: {verdict:?}");
        }
        assert!(matches!(place.file(DontAsk, "Write", path), Verdict::Deny { .. }), "{path}");
        assert!(is_allowed(&place.file(BypassPermissions, "Write", path)), "{path}");
        assert!(is_allowed(&place.file(Default, "Read", path)), "{path}");
    }
    for command in [
        "cp -r evil/. .claude",
        "rm -rf .claude",
        "mv evil .claude",
        "ln -s ../evil .claude",
        "cd .claude && echo x > settings.json",
        "true; sed -i s/a/b/ .claude/agents/a.md",
        "bash -c 'tee .claude/settings.json'",
    ] {
        let verdict = place.judge(Default, "Bash", &json!({ "command": command }));
        assert!(matches!(verdict, Verdict::Ask { .. }), "{command}: {verdict:?}");
        assert!(is_allowed(&place.bash(command)), "{command}");
    }
}

#[test]
fn beside_a_project_s_settings_a_broad_rule_is_enough() {
    let place = Place::new();
    for path in [
        ".claude/skills/a/SKILL.md",
        ".claude/CLAUDE.md",
        "settings.json",
        "agents/a.md",
        "claude/settings.json",
    ] {
        assert!(is_allowed(&place.file(Default, "Write", path)), "{path}");
        let input = json!({ "command": format!("echo x > {path}") });
        assert!(is_allowed(&place.judge(Default, "Bash", &input)), "{path}");
    }
    for command in [
        "cat .claude/settings.json > copy",
        "cp .claude/agents/a.md copy",
        "grep -r x .claude",
        "cd .claude",
    ] {
        assert!(
            is_allowed(&place.judge(Default, "Bash", &json!({ "command": command }))),
            "{command}"
        );
    }
}

#[test]
fn a_worktree_below_the_root_is_edited_like_any_other_folder() {
    let place = Place::new();
    let cwd = place.base.join("home/.claude/pitcrew/worktrees/t/bob");
    fs::create_dir_all(&cwd).unwrap();
    let gate = Gate::default().guarding(&place.base.join("home/.claude"));
    for (path, is_free) in [
        ("src/a.rs", true),
        (".claude/settings.json", false),
        (".git/config", false),
        ("../../x", false),
    ] {
        let write = json!({"file_path": path, "content": "x"});
        let touch = json!({ "command": format!("touch {path}") });
        for (tool, input) in [("Write", &write), ("Bash", &touch)] {
            let verdict =
                gate.judge(AcceptEdits, &Call { tool, input, cwd: &cwd, plan_file: None });
            assert_eq!(is_allowed(&verdict), is_free, "{tool} {path}: {verdict:?}");
        }
    }
}

#[test]
fn a_rule_that_names_their_folder_opens_a_project_s_settings() {
    let place = Place::new();
    let rules = ["Edit(.claude/agents/**)", "Bash(tee .claude/settings.json)", "Bash(cp:*)"];
    let settings =
        Settings::merge(vec![(Layer::User, json!({"permissions": {"allow": rules}}))]).unwrap();
    let home = place.base.join("home");
    let place = Place {
        gate: Gate::from_settings(&settings, Some(&home)).unwrap().guarding(&home.join(".claude")),
        ..place
    };
    assert!(is_allowed(&place.file(Default, "Write", ".claude/agents/a.md")));
    assert!(matches!(place.file(Default, "Write", ".claude/settings.json"), Verdict::Ask { .. }));
    for (command, is_open) in [
        ("tee .claude/settings.json", true),
        ("echo x > .claude/agents/a.md", true),
        ("cp a b", true),
        ("cp a .claude/settings.json", false),
    ] {
        let verdict = place.judge(Default, "Bash", &json!({ "command": command }));
        assert_eq!(is_allowed(&verdict), is_open, "{command}: {verdict:?}");
    }
    // The rule for `.claude/agents` does not allow changes to the user's own settings in the home
    // folder.
    assert!(matches!(place.file(Default, "Write", "~/.claude/agents/a.md"), Verdict::Deny { .. }));
}

#[test]
fn a_folder_is_known_by_whatever_name_it_has() {
    let place = Place::new();
    // The link imitates a second mount, which is another path to the same folder. The gate gets the
    // link's path and must still recognise the folder.
    let other = place.base.join("other");
    symlink(place.base.join("home"), &other).unwrap();
    let gate = Gate::default().guarding(&other.join(".claude"));
    let input = json!({"file_path": place.base.join("home/.claude/teams/x"), "content": "x"});
    let call = Call { tool: "Write", input: &input, cwd: Path::new("/"), plan_file: None };
    assert!(is_refused(&gate.judge(BypassPermissions, &call)));
}
