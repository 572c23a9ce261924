//! Tests with the real kernel that no command and no tool of an agent changes the team's own files
//! or the user's settings.
//!
//! A test that this machine cannot run prints a message and is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use pitcrew_process::sandbox::{Machine, Mechanism, Profile, Sandbox, Support};
use pitcrew_tools::{ShellState, ToolContext};
use serde_json::json;

use crate::patience::until;
use crate::sandbox_read::inner;
use crate::tools_env::TestEnv;

mod attacks;

use attacks::{ESCAPES, attacks};

/// A working folder, and beside it a root folder of pitcrew with one team.
struct Ground {
    setting: TestEnv,
    base: PathBuf,
    root: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let mut setting = TestEnv::new();
        let base = setting.context.cwd.parent().unwrap().to_path_buf();
        let root = base.join("root");
        for folder in [
            "teams/t/inboxes",
            "teams/empty",
            "tasks/t",
            "plans",
            "pitcrew/rates",
            "pitcrew/archive",
            "pitcrew/repositories/k/worktrees",
            "pitcrew/tmp",
            "pitcrew/worktrees",
            "agents",
            "hooks",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("teams/t/inboxes/lead.json"), "[]").unwrap();
        fs::write(root.join("teams/t/config.json"), "{}").unwrap();
        fs::write(root.join("tasks/t/1.json"), "{\"id\":\"1\"}").unwrap();
        for file in [
            "pitcrew/rates/calls",
            "pitcrew/repositories/k/lock",
            "pitcrew/repositories/k/worktrees/w.json",
            "settings.json",
            "agents/a.md",
            "hooks/check.sh",
            "history",
        ] {
            fs::write(root.join(file), "kept").unwrap();
        }
        let variables =
            [("ROOT", root.display().to_string()), ("OTHER", std::process::id().to_string())];
        setting.context.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
        setting.write("mine", "forged");
        Self { setting, base, root }
    }

    fn context(&self, sandbox: &Sandbox) -> ToolContext {
        ToolContext { sandbox: sandbox.clone(), ..self.setting.context.clone() }
    }

    /// Returns the inode, the mode and the content of every protected file, by path.
    fn kept(&self) -> BTreeMap<PathBuf, (u64, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let names = [
            "teams",
            "tasks",
            "settings.json",
            "settings.local.json",
            "agents",
            "hooks",
            "plugins",
            "pitcrew",
        ];
        let mut todo: Vec<PathBuf> =
            names.iter().map(|name| self.root.join(name)).chain([self.root.clone()]).collect();
        while let Some(path) = todo.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() && path != self.root {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found.insert(path, (metadata.ino(), metadata.mode(), content));
        }
        found
    }

    async fn bash(&self, sandbox: &Sandbox, command: &str) -> String {
        self.setting
            .call_as(&self.context(sandbox), "Bash", json!({ "command": command }))
            .await
            .text
    }

    async fn check_attacks(&self, sandbox: &Sandbox) {
        let before = self.kept();
        for command in attacks().chain(ESCAPES.iter().map(ToString::to_string)) {
            let said = self.bash(sandbox, &command).await;
            assert_eq!(self.kept(), before, "{command}: {said}");
        }
    }

    /// Checks that the sandbox still allows an agent's ordinary work.
    async fn check_work(&self, sandbox: &Sandbox) {
        let read = self.bash(sandbox, "cat $ROOT/teams/t/config.json && ls $ROOT/tasks/t").await;
        assert_eq!(read, "{}1.json");
        for command in [
            "echo x > new && mv new newer && rm newer",
            "mkdir -p a/b c && echo x > a/b/f && mv a/b c/b && ln c/b/f c/g && ln -s g c/h && rm -r c",
            "echo x > $ROOT/plans/p.md && echo x > $ROOT/pitcrew/tmp/o && mkdir $ROOT/pitcrew/worktrees/w && mv $ROOT/plans/p.md moved && rm moved",
            "cat $ROOT/settings.json && echo x >> $ROOT/history && mkdir -p $ROOT/plans/agents && rmdir $ROOT/plans/agents",
            "mkdir -p .claude/agents && echo x > .claude/settings.json && mv .claude/settings.json .claude/agents/a.md",
            "f=$(mktemp -p /var/tmp) && echo x > $f && mv $f here && rm here",
            "f=$(mktemp) && echo x > $f && mv $f here && rm here",
            "echo x > /dev/null && : 2> /dev/null",
            "git init -q repo && cd repo && echo x > f && git add f && \
             git -c user.name=a -c user.email=b@c commit -q -m x && git gc -q && git checkout -q -b other",
            "python3 -c \"import multiprocessing as m, socket, os; m.Lock(); s = socket.socket(socket.AF_UNIX); s.bind('s')\"",
        ] {
            let outcome = self
                .setting
                .call_as(&self.context(sandbox), "Bash", json!({ "command": command }))
                .await;
            assert!(!outcome.is_error, "{command}: {}", outcome.text);
            self.bash(sandbox, "rm -rf repo s").await;
        }
    }
}

fn skipped(what: &str) {
    eprintln!("\n!!! SKIPPED: {what}. Nothing was proved about it on this machine. !!!\n");
}

/// Describes the machine for a sandbox. The description names the program that restricts a command
/// further inside bubblewrap. In a real run, pitcrew's own binary is this program.
fn machine(root: &Path) -> Machine {
    Machine {
        inner: Some(vec![inner().into_os_string()]),
        ..Machine::with_root(root, &temporary())
    }
}

/// Returns the system's folder for temporary files. The test folders are inside it.
fn temporary() -> PathBuf {
    tempfile::env::temp_dir()
}

fn landlock(ground: &Ground) -> Option<Sandbox> {
    let sandbox = Sandbox::by_landlock(Machine::with_root(&ground.root, &temporary()));
    if matches!(sandbox.support(Profile::Free), Support::Held { .. }) {
        return Some(sandbox);
    }
    skipped("this kernel has no Landlock of version 3 or later");
    None
}

fn bubblewrap(ground: &Ground, cwd: &Path) -> Option<Sandbox> {
    let tried = Command::new("bwrap").args(["--dev-bind", "/", "/", "--", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        skipped("bubblewrap is not installed, or may not be used");
        return None;
    }
    let sandbox = Sandbox::new(machine(&ground.root));
    assert_eq!(sandbox.means(cwd), Mechanism::Bubblewrap);
    Some(sandbox)
}

#[tokio::test]
async fn the_attacks_succeed_where_nothing_is_confined() {
    for attack in attacks() {
        let ground = Ground::new();
        let before = ground.kept();
        let said = ground.bash(&Sandbox::default(), &attack).await;
        assert_ne!(ground.kept(), before, "{attack}: {said}");
    }
}

#[tokio::test]
async fn a_command_under_landlock_changes_nothing_of_the_team() {
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    assert_eq!(sandbox.means(&ground.setting.context.cwd), Mechanism::Landlock);
    ground.check_attacks(&sandbox).await;
}

#[tokio::test]
async fn a_command_under_landlock_does_its_work() {
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    ground.check_work(&sandbox).await;
}

#[tokio::test]
async fn a_command_in_bubblewrap_changes_nothing_of_the_team() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    ground.setting.write("mine", "forged");
    let Some(sandbox) = bubblewrap(&ground, &ground.base) else { return };
    ground.check_attacks(&sandbox).await;
}

#[tokio::test]
async fn a_command_in_bubblewrap_without_landlock_changes_nothing_of_the_team() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    ground.setting.write("mine", "forged");
    let Some(_usable) = bubblewrap(&ground, &ground.base) else { return };
    // Create a sandbox that uses bubblewrap without Landlock. Landlock needs a program that pitcrew
    // runs inside bubblewrap, and this description of the machine names no such program.
    let sandbox = Sandbox::new(Machine::with_root(&ground.root, &temporary()));
    ground.check_attacks(&sandbox).await;
}

#[tokio::test]
async fn bubblewrap_keeps_what_is_not_there_and_leaves_nothing_in_its_place() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    let Some(sandbox) = bubblewrap(&ground, &ground.base) else { return };
    for folder in ["teams", "tasks", "agents", "hooks"] {
        fs::remove_dir_all(ground.root.join(folder)).unwrap();
    }
    fs::remove_file(ground.root.join("settings.json")).unwrap();
    assert_eq!(sandbox.means(&ground.base), Mechanism::Bubblewrap);
    for name in
        ["teams", "tasks", "settings.json", "settings.local.json", "agents", "hooks", "plugins"]
    {
        ground
            .bash(&sandbox, &format!("echo forged > $ROOT/{name}; mkdir -p $ROOT/{name}/x; true"))
            .await;
        assert!(fs::symlink_metadata(ground.root.join(name)).is_err(), "{name}");
    }
}

#[tokio::test]
async fn settings_that_the_user_replaces_meanwhile_stay_out_of_reach_in_bubblewrap() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    let Some(sandbox) = bubblewrap(&ground, &ground.base) else { return };
    let context = ground.context(&sandbox);
    let command = "touch started; while [ ! -e go ]; do :; done; echo forged >> $ROOT/settings.json; touch ended";
    let input = json!({"command": command, "run_in_background": true});
    assert!(!ground.setting.call_as(&context, "Bash", input).await.is_error);
    until("the command runs", async || ground.base.join("started").exists().then_some(())).await;
    // Editors save a file in this way: they write a new file and rename it to the old name.
    fs::write(ground.base.join("new"), "changed").unwrap();
    fs::rename(ground.base.join("new"), ground.root.join("settings.json")).unwrap();
    fs::write(ground.base.join("go"), "").unwrap();
    until("the command ended", async || ground.base.join("ended").exists().then_some(())).await;
    assert_eq!(fs::read_to_string(ground.root.join("settings.json")).unwrap(), "changed");
}

/// Checks a settings file that is a symbolic link to a file elsewhere. An agent attacks the link
/// and its target.
async fn check_linked_settings(ground: &Ground, sandbox: &Sandbox, wanted: Mechanism) {
    let (dotfiles, link) = (ground.base.join("dotfiles"), ground.root.join("settings.json"));
    fs::create_dir_all(dotfiles.join("more")).unwrap();
    fs::write(dotfiles.join("claude.json"), "kept").unwrap();
    fs::write(dotfiles.join("other"), "").unwrap();
    fs::remove_file(&link).unwrap();
    symlink("../dotfiles/claude.json", &link).unwrap();
    assert_eq!(sandbox.means(&ground.setting.context.cwd), wanted);
    for command in [
        "echo forged > $ROOT/settings.json",
        "echo forged > $ROOT/../dotfiles/claude.json",
        "rm $ROOT/settings.json && echo forged > $ROOT/settings.json",
        "cd $ROOT/../dotfiles && rm claude.json && echo forged > claude.json",
        "cd $ROOT/../dotfiles && echo forged > more/new && mv -f more/new claude.json",
        "cd $ROOT/.. && mv dotfiles aside && mkdir dotfiles && echo forged > dotfiles/claude.json",
    ] {
        let said = ground.bash(sandbox, command).await;
        assert_eq!(fs::read_to_string(&link).unwrap(), "kept", "{command}: {said}");
        assert_eq!(
            fs::read_link(&link).unwrap(),
            Path::new("../dotfiles/claude.json"),
            "{command}: {said}"
        );
    }
    let beside = "cd $ROOT/../dotfiles && cat claude.json && echo x > other && echo x > more/new";
    assert_eq!(ground.bash(sandbox, beside).await, "kept");
}

#[tokio::test]
async fn settings_behind_a_link_are_kept_by_landlock() {
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    check_linked_settings(&ground, &sandbox, Mechanism::Landlock).await;
}

#[tokio::test]
async fn settings_behind_a_link_are_kept_by_bubblewrap() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    let Some(sandbox) = bubblewrap(&ground, &ground.base) else { return };
    check_linked_settings(&ground, &sandbox, Mechanism::Bubblewrap).await;
}

#[tokio::test]
async fn who_works_in_the_root_itself_is_told_what_cannot_be_made_there() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.root.clone();
    let Some(sandbox) = bubblewrap(&ground, &ground.root) else { return };
    let warning =
        sandbox.warnings(&ground.root).join("\n").replace(ground.base.to_str().unwrap(), "BASE");
    insta::assert_snapshot!(warning, @"commands cannot make, rename or remove anything directly in BASE/root, because they are kept out of the teams and tasks of BASE/root, and its settings.json, settings.local.json, agents, hooks, plugins; in other folders there they can");
    let said = ground.bash(&sandbox, "LC_ALL=C touch new; echo x > plans/new").await;
    assert!(said.contains("[commands cannot write into the teams"), "{said}");
    assert!(!ground.root.join("new").exists() && ground.root.join("plans/new").exists(), "{said}");
}

#[tokio::test]
async fn a_command_in_a_folder_that_holds_the_root_does_its_work_in_bubblewrap() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    let Some(sandbox) = bubblewrap(&ground, &ground.base) else { return };
    assert_eq!(sandbox.warnings(&ground.base), [] as [&str; 0]);
    ground.check_work(&sandbox).await;
}

#[tokio::test]
async fn landlock_alone_says_what_a_folder_that_holds_the_root_cannot_have() {
    let mut ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    let warning =
        sandbox.warnings(&ground.base).join("\n").replace(ground.base.to_str().unwrap(), "BASE");
    ground.setting.context.cwd = ground.base.clone();
    insta::assert_snapshot!(warning, @"commands cannot make, rename or remove anything directly in BASE, because they are kept out of the teams and tasks of BASE/root, and its settings.json, settings.local.json, agents, hooks, plugins; in other folders there they can. With bubblewrap installed they could");
    let said = ground.bash(&sandbox, "LC_ALL=C touch new; echo x > project/new").await;
    assert!(
        said.contains(
            "[commands cannot write into the teams and tasks of ROOT/root, and its settings.json"
        ),
        "{said}"
    );
    assert!(ground.setting.context.cwd.join("project/new").exists());
    // The working folder contains pitcrew's root folder. Therefore Landlock does not let a command
    // create files directly in the working folder, but the tool `Write` can.
    let context = ground.context(&sandbox);
    let made = ground
        .setting
        .call_as(&context, "Write", json!({"file_path": "new", "content": "x"}))
        .await;
    assert!(!made.is_error, "{}", made.text);
}

#[tokio::test]
async fn a_command_in_the_background_changes_nothing_and_neither_does_what_it_leaves_behind() {
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    let before = ground.kept();
    let context = ground.context(&sandbox);
    let command = "(setsid sh -c 'echo forged >> $ROOT/teams/t/inboxes/lead.json; echo x > left' &); \
                   echo forged >> $ROOT/teams/t/inboxes/lead.json; echo x > $ROOT/plans/ok; while [ ! -e left ]; do :; done";
    let input = json!({"command": command, "run_in_background": true});
    assert!(!ground.setting.call_as(&context, "Bash", input).await.is_error);
    until("the command ended", async || {
        context.shells.list().iter().all(|shell| shell.state != ShellState::Running).then_some(())
    })
    .await;
    assert_eq!(ground.kept(), before);
    assert!(ground.root.join("plans/ok").exists());
    assert!(ground.setting.path("left").exists());
}

#[tokio::test]
async fn a_command_cannot_get_hold_of_a_process_that_has_more_rights() {
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    let mut outside = Command::new("sleep").arg("60").spawn().unwrap();
    let attach = "ctypes.CDLL(None, use_errno=True).ptrace(16, int(os.environ['PID']), 0, 0)";
    let command = format!("PID={} python3 -c \"import ctypes, os; print({attach})\"", outside.id());
    let said = ground.bash(&sandbox, &command).await;
    outside.kill().unwrap();
    outside.wait().unwrap();
    assert_eq!(said, "-1");
}

#[tokio::test]
async fn a_root_behind_a_symbolic_link_is_kept_and_so_is_the_link() {
    let ground = Ground::new();
    fs::create_dir(ground.base.join("home")).unwrap();
    let link = ground.base.join("home/.claude");
    symlink("../root", &link).unwrap();
    let sandbox = Sandbox::new(Machine::with_root(&link, &temporary()));
    if sandbox.means(&ground.setting.context.cwd) != Mechanism::Landlock {
        skipped("this kernel has no Landlock");
        return;
    }
    let before = ground.kept();
    for command in [
        "echo forged > $ROOT/teams/t/inboxes/bob.json",
        "echo forged > ../home/.claude/teams/t/inboxes/bob.json",
        "echo forged > ../home/.claude/settings.json",
        "echo forged > ../home/.claude/settings.local.json",
        "rm ../home/.claude && mkdir -p ../home/.claude/teams",
        "mv ../home ../house && mkdir -p ../home/.claude/teams",
    ] {
        let said = ground.bash(&sandbox, command).await;
        assert_eq!(ground.kept(), before, "{command}: {said}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("../root"), "{command}: {said}");
    }
}

#[tokio::test]
async fn a_link_put_in_place_after_the_judgement_leads_a_tool_nowhere() {
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    // A real attacker would create the link after the permission gate has allowed the call. The
    // test calls the tool without the gate, so it creates the link before the call.
    symlink(ground.root.join("teams/t/inboxes"), ground.setting.path("soft")).unwrap();
    let context = ground.context(&sandbox);
    let before = ground.kept();
    symlink(&ground.root, ground.setting.path("top")).unwrap();
    for file in [
        "soft/bob.json",
        "soft/../config.json",
        "top/settings.json",
        "top/settings.local.json",
        "top/Settings.Local.JSON",
        "top/agents/a.md",
    ] {
        let read = ground.setting.call_as(&context, "Read", json!({"file_path": file})).await;
        let input = json!({"file_path": file, "content": "forged"});
        let outcome = ground.setting.call_as(&context, "Write", input).await;
        assert!(outcome.is_error, "{file}: {} {}", read.text, outcome.text);
        assert_eq!(ground.kept(), before);
    }
    let input = json!({"file_path": "top/beside", "content": "x"});
    assert!(!ground.setting.call_as(&context, "Write", input).await.is_error);
}

#[tokio::test]
async fn a_command_runs_unconfined_only_when_it_asks_and_the_user_lets_it() {
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    let command = "echo x > $ROOT/teams/t/asked";
    let asked = json!({"command": command, "dangerouslyDisableSandbox": true});
    let may = |may_unconfine| ToolContext { may_unconfine, ..ground.context(&sandbox) };
    for (context, input) in
        [(may(false), asked.clone()), (may(true), json!({ "command": command }))]
    {
        assert!(ground.setting.call_as(&context, "Bash", input).await.is_error);
    }
    assert!(!ground.root.join("teams/t/asked").exists());
    assert!(!ground.setting.call_as(&may(true), "Bash", asked).await.is_error);
    assert!(ground.root.join("teams/t/asked").exists());
}

/// This environment variable is set in a test process that has a private mount namespace.
const APART: &str = "PITCREW_TEST_APART";

/// Returns true if this process has a private mount namespace. If not, runs the named test in a new
/// process with a private mount namespace. In a shared namespace, the test's mount would appear and
/// vanish while the bubblewrap of another test runs.
fn is_apart(test: &str) -> bool {
    if std::env::var_os(APART).is_some() {
        return true;
    }
    let apart = |program: &Path| {
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(program);
        command
    };
    if apart("true".as_ref()).status().is_ok_and(|status| status.success()) {
        let itself = std::env::current_exe().unwrap();
        let test = ["--exact", &format!("sandbox_free::{test}"), "--nocapture"];
        assert!(apart(&itself).args(test).env(APART, "1").status().unwrap().success());
    } else {
        skipped("nothing may be mounted here");
    }
    false
}

/// Checks a second mount of pitcrew's root folder. An agent tries to write there.
async fn check_second_mount(ground: &Ground, sandbox: &Sandbox, wanted: Mechanism) {
    let shown = ground.base.join("shown");
    fs::create_dir_all(&shown).unwrap();
    assert!(
        Command::new("mount")
            .arg("--bind")
            .args([&ground.root, &shown])
            .status()
            .unwrap()
            .success()
    );
    let means = sandbox.means(&ground.setting.context.cwd);
    let before = ground.kept();
    let mut said = Vec::new();
    for command in [
        "cd $ROOT/../shown && echo forged >> teams/t/inboxes/lead.json",
        "cd $ROOT/../shown && mv teams aside && mkdir -p teams",
        "cd $ROOT/../shown; echo forged > settings.json; echo forged > settings.local.json",
        "cd $ROOT/../shown && echo x > plans/through",
    ] {
        said.push(ground.bash(sandbox, command).await);
    }
    let after = ground.kept();
    assert!(Command::new("umount").arg(&shown).status().unwrap().success());
    assert_eq!(means, wanted);
    assert_eq!(after, before, "{said:?}");
    assert!(ground.root.join("plans/through").exists(), "{said:?}");
}

#[tokio::test]
async fn a_mount_that_shows_the_root_elsewhere_is_no_way_in() {
    if !is_apart("a_mount_that_shows_the_root_elsewhere_is_no_way_in") {
        return;
    }
    let ground = Ground::new();
    let Some(sandbox) = landlock(&ground) else { return };
    check_second_mount(&ground, &sandbox, Mechanism::Landlock).await;
}

#[tokio::test]
async fn a_mount_that_shows_the_root_elsewhere_is_no_way_in_for_bubblewrap() {
    if !is_apart("a_mount_that_shows_the_root_elsewhere_is_no_way_in_for_bubblewrap") {
        return;
    }
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    let Some(sandbox) = bubblewrap(&ground, &ground.base) else { return };
    check_second_mount(&ground, &sandbox, Mechanism::Bubblewrap).await;
}
