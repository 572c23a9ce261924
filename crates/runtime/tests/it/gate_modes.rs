//! The decisions of the permission gate in each permission mode, tested in a real folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use pitcrew_permission::gate::{Call, Gate, Spawns, Verdict};
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_process::sandbox::Profile;
use pitcrew_protocol::PermissionMode::{
    self, AcceptEdits, BypassPermissions, Default, Delegate, DontAsk, Plan,
};
use serde_json::{Value, json};

/// A folder that contains a project, files outside the project, and a plan file.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    gate: Gate,
}

impl Place {
    pub(crate) fn new(permissions: Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["project/src", "project/secrets", "outside", "plans", "home"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in ["project/src/main.rs", "project/secrets/key", "outside/file"] {
            fs::write(dir.path().join(file), "text").unwrap();
        }
        let settings =
            Settings::merge(vec![(Layer::Project, json!({ "permissions": permissions }))]).unwrap();
        let gate = Gate::from_settings(&settings, Some(&dir.path().join("home"))).unwrap();
        Self { dir, gate }
    }

    /// Creates the given programs in the project, and makes the gate search for programs in `path`.
    pub(crate) fn searching(self, path: &str, programs: &[&str]) -> Self {
        for program in programs {
            let file = self.path("project").join(program);
            fs::write(&file, "#!/bin/sh\ntouch canary\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // `PROJECT` stands for the path of the project, which is known only now.
        let path = path.replace("PROJECT", &self.path("project").to_string_lossy());
        Self { gate: self.gate.searching(std::env::split_paths(&path).collect()), ..self }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn judge(&self, mode: PermissionMode, tool: &str, input: &Value) -> Verdict {
        let plan = self.path("plans/plan.md");
        let call = Call { tool, input, cwd: &self.path("project"), plan_file: Some(&plan) };
        self.gate.judge(mode, &call)
    }

    pub(crate) fn word(&self, mode: PermissionMode, tool: &str, input: &Value) -> &'static str {
        match self.judge(mode, tool, input) {
            Verdict::Allow { .. } => "allow",
            Verdict::Deny { .. } => "deny",
            Verdict::Ask { .. } => "ask",
        }
    }

    pub(crate) fn bash(&self, mode: PermissionMode, command: &str) -> &'static str {
        self.word(mode, "Bash", &json!({ "command": command }))
    }

    /// Returns the decision about a command if there is one more allow rule: `free`, `confined`,
    /// `ask` or `deny`.
    pub(crate) fn bash_with(
        &self,
        rule: &str,
        mode: PermissionMode,
        command: &str,
    ) -> &'static str {
        let (tool, content) = match rule.split_once('(') {
            Some((tool, content)) => (tool, content.strip_suffix(')')),
            None => (rule, None),
        };
        let rule = json!({"toolName": tool, "ruleContent": content});
        let update = json!({"type": "addRules", "rules": [rule], "behavior": "allow"});
        let mut gate = self.gate.clone();
        gate.apply(&update).unwrap();
        let dir = self.dir.path();
        let input = json!({ "command": command });
        let call = Call { tool: "Bash", input: &input, cwd: &dir.join("project"), plan_file: None };
        match gate.judge(mode, &call) {
            Verdict::Allow { profile: Profile::Free } => "free",
            Verdict::Allow { profile: Profile::Read | Profile::Work } => "confined",
            Verdict::Deny { .. } => "deny",
            Verdict::Ask { .. } => "ask",
        }
    }

    pub(crate) fn file(&self, mode: PermissionMode, tool: &str, path: &str) -> &'static str {
        self.word(mode, tool, &json!({ "file_path": path }))
    }
}

#[test]
fn every_mode_has_its_default_for_every_kind_of_call() {
    let place = Place::new(json!({}));
    let outside = place.path("outside/file").display().to_string();
    let modes = [Default, AcceptEdits, Plan, Delegate, DontAsk, BypassPermissions];
    let row = |name: &str, word: &dyn Fn(PermissionMode) -> &'static str| {
        format!("{name:<12}{}", modes.map(|mode| format!("{:<7}", word(mode))).concat().trim_end())
    };
    let rows = [
        row("Read", &|mode| place.file(mode, "Read", "src/main.rs")),
        row("Read out", &|mode| place.file(mode, "Read", &outside)),
        row("Write", &|mode| place.file(mode, "Write", "src/new.rs")),
        row("Edit out", &|mode| place.file(mode, "Edit", &outside)),
        row("Edit .git", &|mode| place.file(mode, "Edit", ".git/config")),
        row("Glob", &|mode| place.word(mode, "Glob", &json!({"pattern": "**/*.rs"}))),
        row("Grep out", &|mode| place.word(mode, "Grep", &json!({"pattern": "x", "path": ".."}))),
        row("ls", &|mode| place.bash(mode, "ls -la src | wc -l")),
        row("cat out", &|mode| place.bash(mode, &format!("cat {outside}"))),
        row("touch", &|mode| place.bash(mode, "mkdir -p a && touch a/b")),
        row("touch out", &|mode| place.bash(mode, "touch ../x")),
        row("redirect", &|mode| place.bash(mode, "echo x > out.txt")),
        row("commit", &|mode| place.bash(mode, "git commit -m x")),
        row("heredoc", &|mode| place.bash(mode, "cat <<EOF\nx\nEOF")),
        row("SendMessage", &|mode| place.word(mode, "SendMessage", &json!({}))),
        row("TaskUpdate", &|mode| place.word(mode, "TaskUpdate", &json!({}))),
        row("Task", &|mode| place.word(mode, "Task", &json!({}))),
        row("Agent", &|mode| place.word(mode, "Agent", &json!({}))),
        row("TeamCreate", &|mode| place.word(mode, "TeamCreate", &json!({}))),
        row("TeamDelete", &|mode| place.word(mode, "TeamDelete", &json!({}))),
        row("ExitPlan", &|mode| place.word(mode, "ExitPlanMode", &json!({}))),
        row("unknown", &|mode| place.word(mode, "Frobnicate", &json!({}))),
    ];
    insta::assert_snapshot!(rows.join("\n"), @r"
    Read        allow  allow  allow  deny   allow  allow
    Read out    ask    ask    ask    deny   deny   allow
    Write       ask    allow  deny   deny   deny   allow
    Edit out    ask    ask    deny   deny   deny   allow
    Edit .git   ask    ask    deny   deny   deny   allow
    Glob        allow  allow  allow  deny   allow  allow
    Grep out    ask    ask    ask    deny   deny   allow
    ls          allow  allow  allow  deny   allow  allow
    cat out     ask    ask    ask    deny   deny   allow
    touch       ask    allow  deny   deny   deny   allow
    touch out   ask    ask    deny   deny   deny   allow
    redirect    ask    allow  deny   deny   deny   allow
    commit      ask    ask    deny   deny   deny   allow
    heredoc     ask    ask    deny   deny   deny   allow
    SendMessage allow  allow  allow  allow  allow  allow
    TaskUpdate  allow  allow  allow  allow  allow  allow
    Task        allow  allow  deny   allow  allow  allow
    Agent       allow  allow  deny   allow  allow  allow
    TeamCreate  allow  allow  allow  allow  allow  allow
    TeamDelete  allow  allow  deny   allow  allow  allow
    ExitPlan    allow  allow  allow  deny   allow  allow
    unknown     ask    ask    deny   deny   deny   allow
    ");
}

#[test]
fn in_plan_mode_only_the_plan_file_is_written() {
    let place = Place::new(
        json!({"allow": ["Edit", "Write", "Bash", "Task"], "additionalDirectories": ["/"]}),
    );
    let plan = place.path("plans/plan.md").display().to_string();
    let project = place.path("project");
    symlink(place.path("plans"), project.join("link")).unwrap();
    symlink(place.path("project/src/main.rs"), place.path("plans/other.md")).unwrap();
    for (path, expected) in [
        (plan.as_str(), "allow"),
        ("../plans/plan.md", "allow"),
        ("link/plan.md", "allow"),
        ("src/../../plans/./plan.md", "allow"),
        ("../plans/plan.md/../other.md", "deny"),
        ("../plans/other.md", "deny"),
        ("../plans/plan.md.bak", "deny"),
        ("../plans/PLAN.md", "deny"),
        ("src/main.rs", "deny"),
        ("plan.md", "deny"),
    ] {
        assert_eq!(place.file(Plan, "Write", path), expected, "{path}");
        assert_eq!(place.file(Plan, "Edit", path), expected, "{path}");
    }
    symlink(project.join("src/main.rs"), &plan).unwrap();
    assert_eq!(place.file(Plan, "Write", &plan), "deny");
}

#[test]
fn in_plan_mode_allow_rules_loosen_nothing() {
    let place = Place::new(
        json!({"allow": ["Bash", "Bash(touch:*)", "Bash(git commit:*)", "Task", "Frobnicate"]}),
    );
    for command in [
        "touch x",
        "echo x > y",
        "git commit -m x",
        "ls > /dev/null; touch x",
        "sh -c 'touch x'",
        "sh script.sh",
        "env touch x",
        "ls $(touch x)",
        "cat <(touch x)",
        "xargs touch",
        "find . -delete",
        "sort -o x y",
        "git -c core.fsmonitor=./x status",
        "cd sub && git status",
        "PATH=. ls",
        "$x",
        "cat <<EOF > x\nEOF",
        "f() { ls; }; f",
        "sed -i s/a/b/ x",
        "awk 'BEGIN { system(\"touch x\") }'",
        "python3 -c 'open(\"x\", \"w\")'",
        "tee x",
        "eval \"$x\"",
        "nohup ls",
        "ls 'unfinished",
        "cargo test",
    ] {
        assert_eq!(place.bash(Plan, command), "deny", "{command}");
    }
    for command in [
        "ls -la",
        "git log --oneline | head -3",
        "grep -rn foo src 2>/dev/null",
        "cat src/main.rs",
        "sh -c 'ls src'",
    ] {
        assert_eq!(place.bash(Plan, command), "allow", "{command}");
    }
    assert_eq!(place.word(Plan, "Task", &json!({})), "deny");
    assert_eq!(place.word(Plan, "Frobnicate", &json!({})), "deny");
}

#[test]
fn an_ask_carries_the_suggestions_as_recorded() {
    let place = Place::new(json!({}));
    let verdict = place.judge(
        Default,
        "Bash",
        &json!({"command": "touch out.txt", "description": "touch out"}),
    );
    let project = place.path("project").display().to_string();
    let Verdict::Ask { description, suggestions, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(description, "touch out");
    let redirect =
        place.judge(Default, "Bash", &json!({"command": "echo x > out.txt 2> /dev/null"}));
    assert_eq!(
        redirect,
        Verdict::Ask {
            description: "echo x > out.txt 2> /dev/null".to_owned(),
            suggestions: suggestions.clone(),
            is_about_repository: false,
        }
    );
    let recorded = recorded_suggestions();
    let text = serde_json::to_string(&suggestions).unwrap().replace(&project, "/home/dev/project");
    assert_eq!(text, recorded.to_string());
}

/// Returns the permission suggestions of a recorded permission request. The reference client wrote
/// it for the command `touch out.txt`.
fn recorded_suggestions() -> Value {
    let inbox = "../../fixtures/claude-2.1.39/refusals/teams/probe/inboxes/team-lead.json";
    let inbox = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(inbox)).unwrap();
    let messages: Vec<Value> = serde_json::from_str(&inbox).unwrap();
    let frames = messages
        .iter()
        .map(|message| serde_json::from_str::<Value>(message["text"].as_str().unwrap()).unwrap());
    let mut asks = frames.filter(|frame| frame["type"] == "permission_request");
    asks.next().unwrap()["permission_suggestions"].clone()
}

#[test]
fn an_answered_ask_is_not_asked_again() {
    let mut place = Place::new(json!({}));
    let outside = place.path("outside/file").display().to_string();
    assert_eq!(place.file(AcceptEdits, "Edit", &outside), "ask");
    let folder = json!({"type": "addDirectories", "directories": [place.path("outside")], "destination": "session"});
    assert_eq!(place.gate.apply(&folder).unwrap(), None);
    assert_eq!(place.file(AcceptEdits, "Edit", &outside), "allow");
    let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
    assert_eq!(place.gate.apply(&mode).unwrap(), Some(AcceptEdits));
    let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "make:*"}], "behavior": "allow"});
    place.gate.apply(&rule).unwrap();
    assert_eq!(place.bash(Default, "make all"), "allow");
    place.gate.apply(&json!({"type": "format"})).unwrap_err();
}

#[test]
fn a_spawn_that_is_freer_than_its_spawner_is_asked() {
    let spawns = Spawns {
        handed_down: Default,
        defined: [
            ("free".to_owned(), AcceptEdits),
            ("shy".to_owned(), Plan),
            ("plain".to_owned(), Default),
        ]
        .into(),
    };
    let place = Place::new(json!({}));
    let place = Place { gate: place.gate.spawning(spawns.clone()), ..place };
    for (spawner, input, expected) in [
        (Default, json!({}), "allow"),
        (Default, json!({"mode": "acceptEdits"}), "ask"),
        (Default, json!({"subagent_type": "free"}), "ask"),
        (Default, json!({"subagent_type": "free", "mode": "default"}), "allow"),
        (Default, json!({"subagent_type": "free", "mode": "plan"}), "ask"),
        (Default, json!({"subagent_type": "shy"}), "allow"),
        (Default, json!({"subagent_type": "plain", "mode": "dontAsk"}), "allow"),
        (Default, json!({"mode": "bypassPermissions"}), "deny"),
        (Delegate, json!({"mode": "acceptEdits"}), "ask"),
        (Delegate, json!({}), "allow"),
        (DontAsk, json!({"mode": "acceptEdits"}), "deny"),
        (DontAsk, json!({}), "allow"),
        (AcceptEdits, json!({"mode": "acceptEdits"}), "allow"),
        (AcceptEdits, json!({"mode": "bypassPermissions"}), "deny"),
        (BypassPermissions, json!({"mode": "bypassPermissions"}), "allow"),
        (Plan, json!({}), "deny"),
    ] {
        for tool in ["Task", "Agent"] {
            assert_eq!(place.word(spawner, tool, &input), expected, "{spawner} {tool} {input}");
        }
    }
    let Verdict::Ask { description, .. } =
        place.judge(Default, "Task", &json!({"name": "bob", "mode": "acceptEdits"}))
    else {
        panic!("it is not asked")
    };
    assert_eq!(
        description,
        "Spawn bob in mode acceptEdits, which is freer than its spawner's, default"
    );
    // A teammate gets the mode with which the run was started (`handed_down`), even if the lead now
    // has another mode.
    let freer = Spawns { handed_down: AcceptEdits, ..spawns };
    let place = Place { gate: place.gate.spawning(freer), ..place };
    let named = json!({"name": "bob"});
    assert_eq!(place.word(Default, "Task", &named), "ask");
    assert_eq!(place.word(AcceptEdits, "Task", &named), "allow");
    // A Task call without a name starts a subagent. The subagent gets its spawner's mode, not the
    // mode of the run.
    assert_eq!(place.word(Default, "Task", &json!({})), "allow");
    let freest = Spawns { handed_down: BypassPermissions, ..Spawns::default() };
    let place = Place { gate: place.gate.spawning(freest), ..place };
    assert_eq!(place.word(Default, "Task", &named), "ask");
    assert_eq!(place.word(Default, "Task", &json!({})), "allow");
    let place = Place::new(json!({"allow": ["Task(free)"]}));
    assert_eq!(
        place.word(Default, "Task", &json!({"subagent_type": "free", "mode": "acceptEdits"})),
        "allow"
    );
}
