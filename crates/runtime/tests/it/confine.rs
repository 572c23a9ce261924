//! No command and no tool of an agent changes the team's own files, tried with the real kernel.
//!
//! What this machine cannot do is skipped, and said loudly.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use pitcrew_runtime::confine::{Confinement, Level, Means};
use pitcrew_runtime::tools::{ShellState, ToolContext};
use serde_json::json;

use crate::patience::until;
use crate::tools_setting::Setting;

/// What an agent could think of, from the working folder; each works where nothing is confined. `$ROOT` is the root,
/// `$OTHER` a process outside.
const ATTACKS: &[&str] = &[
    "echo forged > $ROOT/teams/t/inboxes/new.json",
    "echo forged > $ROOT/teams/t/inboxes/lead.json",
    "echo forged >> $ROOT/teams/t/inboxes/lead.json",
    ": > $ROOT/tasks/t/1.json",
    "truncate -s 0 $ROOT/tasks/t/1.json",
    "cp mine $ROOT/tasks/t/1.json",
    "mkdir $ROOT/teams/t/inboxes/lead.json.lock",
    "rm $ROOT/tasks/t/1.json",
    "rm -rf $ROOT/teams",
    "rmdir $ROOT/teams/empty",
    "mv mine $ROOT/teams/t/inboxes/lead.json",
    "mv $ROOT/teams/t/inboxes/lead.json $ROOT/teams/t/inboxes/bob.json",
    "mv $ROOT/teams/t/inboxes/lead.json .",
    "ln mine $ROOT/teams/t/inboxes/bob.json",
    "ln -s $PWD/mine $ROOT/teams/t/inboxes/bob.json",
    "ln -sf $PWD/mine $ROOT/teams/t/inboxes/lead.json",
    "ln $ROOT/teams/t/inboxes/lead.json hard && echo forged > hard",
    "ln -s $ROOT/teams soft && echo forged > soft/t/inboxes/bob.json",
    "mkfifo $ROOT/tasks/t/2.json",
    "mv $ROOT/teams $ROOT/teams2 && mkdir -p $ROOT/teams/t/inboxes",
    "mv $ROOT/teams . && ln -s $PWD/teams $ROOT/teams",
    "mv $ROOT $ROOT.old && mkdir -p $ROOT/teams/t/inboxes",
    "mv $ROOT ./root && ln -s $PWD/root $ROOT",
    "cd $ROOT/teams/t/inboxes && echo forged > bob.json",
    "sh -c 'bash -c \"echo forged >> $ROOT/teams/t/inboxes/lead.json\"'",
    "setsid -w sh -c 'echo forged >> $ROOT/teams/t/inboxes/lead.json'",
    "(setsid sh -c 'echo forged >> $ROOT/teams/t/inboxes/lead.json; touch tried' &); until [ -e tried ]; do sleep 0.01; done; rm tried",
    "echo forged | tee -a /proc/self/root$ROOT/teams/t/inboxes/lead.json",
    "echo forged > /proc/$OTHER/root$ROOT/teams/t/inboxes/lead.json",
    "git init -q g && cd g && echo 'echo forged >> $ROOT/teams/t/inboxes/lead.json' > .git/hooks/post-commit && \
     chmod +x .git/hooks/post-commit && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m x",
];

/// The same from python, which has system calls that the shell has not.
const ATTACKS_IN_PYTHON: &[&str] = &[
    "open(root + '/teams/t/inboxes/bob.json', 'w').write('forged')",
    "os.truncate(root + '/tasks/t/1.json', 0)",
    "os.rename('mine', root + '/tasks/t/1.json')",
    "os.replace(root + '/teams/t', root + '/teams/u')",
    "os.unlink(root + '/tasks/t/1.json')",
    "os.write(os.open(root + '/tasks/t/1.json', os.O_RDWR), b'forged')",
    "os.mknod(root + '/tasks/t/3.json')",
];

/// Ways out that could be tried first; where nothing is confined there is nothing to leave.
const ESCAPES: &[&str] = &[
    "umount $ROOT/teams; mount -o remount,bind,rw $ROOT/teams; echo forged > $ROOT/teams/t/inboxes/lead.json",
    "unshare -rm sh -c 'umount $ROOT/teams; echo forged > $ROOT/teams/t/inboxes/lead.json'",
    "mkdir -p m && mount --bind $ROOT/teams m && echo forged > m/t/inboxes/lead.json",
    "unshare -rm sh -c 'mkdir -p m && mount --bind $ROOT/teams m && echo forged > m/t/inboxes/lead.json'",
    // renameat2 with RENAME_EXCHANGE, by its number on x86-64.
    "mkdir -p dir && python3 -c \"import os, ctypes; ctypes.CDLL(None).syscall(316, -100, \
     (os.environ['ROOT'] + '/teams').encode(), -100, b'dir', 2)\"",
    "mkdir -p dir && mv -T --exchange dir $ROOT/teams",
    "python3 -c \"import os; f = os.open(os.environ['ROOT'] + '/teams/t/inboxes', os.O_TMPFILE | os.O_RDWR); \
     os.link(f'/proc/self/fd/{f}', os.environ['ROOT'] + '/teams/t/inboxes/bob.json', follow_symlinks=True)\"",
];

/// A root beside the working folder, as a team has it.
struct Ground {
    setting: Setting,
    base: PathBuf,
    root: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let mut setting = Setting::new();
        let base = setting.context.cwd.parent().unwrap().to_path_buf();
        let root = base.join("root");
        for folder in ["teams/t/inboxes", "teams/empty", "tasks/t", "plans", "pitcrew/shells"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("teams/t/inboxes/lead.json"), "[]").unwrap();
        fs::write(root.join("teams/t/config.json"), "{}").unwrap();
        fs::write(root.join("tasks/t/1.json"), "{\"id\":\"1\"}").unwrap();
        let variables = [("ROOT", root.display().to_string()), ("OTHER", std::process::id().to_string())];
        setting.context.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
        setting.write("mine", "forged");
        Self { setting, base, root }
    }

    fn context(&self, confinement: &Confinement) -> ToolContext {
        ToolContext { confinement: confinement.clone(), ..self.setting.context.clone() }
    }

    /// Everything below the kept folders: what it is, which file it is, and what it holds.
    fn kept(&self) -> BTreeMap<PathBuf, (u64, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.root.join("teams"), self.root.join("tasks"), self.root.clone()];
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

    async fn bash(&self, confinement: &Confinement, command: &str) -> String {
        self.setting.call_as(&self.context(confinement), "Bash", json!({ "command": command })).await.text
    }

    async fn check_attacks(&self, confinement: &Confinement) {
        let before = self.kept();
        for command in attacks().chain(ESCAPES.iter().map(ToString::to_string)) {
            let said = self.bash(confinement, &command).await;
            assert_eq!(self.kept(), before, "{command}: {said}");
        }
    }

    /// What must go on working.
    async fn check_work(&self, confinement: &Confinement) {
        let read = self.bash(confinement, "cat $ROOT/teams/t/config.json && ls $ROOT/tasks/t").await;
        assert_eq!(read, "{}1.json");
        for command in [
            "echo x > new && mv new newer && rm newer",
            "mkdir -p a/b c && echo x > a/b/f && mv a/b c/b && ln c/b/f c/g && ln -s g c/h && rm -r c",
            "echo x > $ROOT/plans/p.md && echo x > $ROOT/pitcrew/shells/o && mv $ROOT/plans/p.md moved && rm moved",
            "f=$(mktemp -p /var/tmp) && echo x > $f && mv $f here && rm here",
            "f=$(mktemp) && echo x > $f && mv $f here && rm here",
            "echo x > /dev/null && : 2> /dev/null",
            "git init -q repo && cd repo && echo x > f && git add f && \
             git -c user.name=a -c user.email=b@c commit -q -m x && git gc -q && git checkout -q -b other",
            "python3 -c \"import multiprocessing as m, socket, os; m.Lock(); s = socket.socket(socket.AF_UNIX); s.bind('s')\"",
        ] {
            let outcome = self.setting.call_as(&self.context(confinement), "Bash", json!({ "command": command })).await;
            assert!(!outcome.is_error, "{command}: {}", outcome.text);
            self.bash(confinement, "rm -rf repo s").await;
        }
    }
}

fn attacks() -> impl Iterator<Item = String> {
    let in_python = ATTACKS_IN_PYTHON.iter();
    let in_python = in_python.map(|code| format!("python3 -c \"import os; root = os.environ['ROOT']; {code}\""));
    ATTACKS.iter().map(ToString::to_string).chain(in_python)
}

/// Says loudly that something could not be tried here.
fn skipped(what: &str) {
    eprintln!("\n!!! SKIPPED: {what}. Nothing was proved about it on this machine. !!!\n");
}

/// Where programs put their temporary files; the grounds are below.
fn temporary() -> PathBuf {
    tempfile::env::temp_dir()
}

fn landlock(ground: &Ground) -> Option<Confinement> {
    let confinement = Confinement::by_landlock(&ground.root, &temporary());
    if confinement.level() == Level::Full {
        return Some(confinement);
    }
    skipped("this kernel has no Landlock of version 3 or later");
    None
}

fn bubblewrap(ground: &Ground, cwd: &Path) -> Option<Confinement> {
    let confinement = Confinement::of_root(&ground.root, &temporary());
    if confinement.means(cwd) == Means::Bubblewrap {
        return Some(confinement);
    }
    skipped("bubblewrap is not installed, or may not be used");
    None
}

#[tokio::test]
async fn the_attacks_succeed_where_nothing_is_confined() {
    for attack in attacks() {
        let ground = Ground::new();
        let before = ground.kept();
        let said = ground.bash(&Confinement::default(), &attack).await;
        assert_ne!(ground.kept(), before, "{attack}: {said}");
    }
}

#[tokio::test]
async fn a_command_under_landlock_changes_nothing_of_the_team() {
    let ground = Ground::new();
    let Some(confinement) = landlock(&ground) else { return };
    assert_eq!(confinement.means(&ground.setting.context.cwd), Means::Landlock);
    ground.check_attacks(&confinement).await;
}

#[tokio::test]
async fn a_command_under_landlock_does_its_work() {
    let ground = Ground::new();
    let Some(confinement) = landlock(&ground) else { return };
    ground.check_work(&confinement).await;
}

#[tokio::test]
async fn a_command_in_bubblewrap_changes_nothing_of_the_team() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    ground.setting.write("mine", "forged");
    let Some(confinement) = bubblewrap(&ground, &ground.base) else { return };
    ground.check_attacks(&confinement).await;
}

#[tokio::test]
async fn a_command_in_a_folder_that_holds_the_root_does_its_work_in_bubblewrap() {
    let mut ground = Ground::new();
    ground.setting.context.cwd = ground.base.clone();
    let Some(confinement) = bubblewrap(&ground, &ground.base) else { return };
    assert_eq!(confinement.warnings(&ground.base), [] as [&str; 0]);
    ground.check_work(&confinement).await;
}

#[tokio::test]
async fn landlock_alone_says_what_a_folder_that_holds_the_root_cannot_have() {
    let mut ground = Ground::new();
    let Some(confinement) = landlock(&ground) else { return };
    let warning = confinement.warnings(&ground.base).join("\n").replace(ground.base.to_str().unwrap(), "BASE");
    ground.setting.context.cwd = ground.base.clone();
    insta::assert_snapshot!(warning, @"commands cannot make, rename or remove anything directly in BASE, because BASE/root/teams and BASE/root/tasks are below; in other folders there they can. With bubblewrap installed they could");
    let said = ground.bash(&confinement, "LC_ALL=C touch new; echo x > project/new").await;
    assert!(said.contains("[commands cannot write into ROOT/root/teams and ROOT/root/tasks, nor make"), "{said}");
    assert!(ground.setting.context.cwd.join("project/new").exists());
    // What an agent cannot make by a command there, it can by a tool.
    let context = ground.context(&confinement);
    let made = ground.setting.call_as(&context, "Write", json!({"file_path": "new", "content": "x"})).await;
    assert!(!made.is_error, "{}", made.text);
}

#[tokio::test]
async fn a_command_in_the_background_changes_nothing_and_neither_does_what_it_leaves_behind() {
    let ground = Ground::new();
    let Some(confinement) = landlock(&ground) else { return };
    let before = ground.kept();
    let context = ground.context(&confinement);
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
    let Some(confinement) = landlock(&ground) else { return };
    let mut outside = Command::new("sleep").arg("60").spawn().unwrap();
    let attach = "ctypes.CDLL(None, use_errno=True).ptrace(16, int(os.environ['PID']), 0, 0)";
    let command = format!("PID={} python3 -c \"import ctypes, os; print({attach})\"", outside.id());
    let said = ground.bash(&confinement, &command).await;
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
    let confinement = Confinement::of_root(&link, &temporary());
    if confinement.means(&ground.setting.context.cwd) != Means::Landlock {
        skipped("this kernel has no Landlock");
        return;
    }
    let before = ground.kept();
    for command in [
        "echo forged > $ROOT/teams/t/inboxes/bob.json",
        "echo forged > ../home/.claude/teams/t/inboxes/bob.json",
        "rm ../home/.claude && mkdir -p ../home/.claude/teams",
        "mv ../home ../house && mkdir -p ../home/.claude/teams",
    ] {
        let said = ground.bash(&confinement, command).await;
        assert_eq!(ground.kept(), before, "{command}: {said}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("../root"), "{command}: {said}");
    }
}

#[tokio::test]
async fn a_link_put_in_place_after_the_judgement_leads_a_tool_nowhere() {
    let ground = Ground::new();
    let Some(confinement) = landlock(&ground) else { return };
    // As the gate would have let it pass: here there is none.
    symlink(ground.root.join("teams/t/inboxes"), ground.setting.path("soft")).unwrap();
    let context = ground.context(&confinement);
    let before = ground.kept();
    for file in ["soft/bob.json", "soft/../config.json"] {
        let read = ground.setting.call_as(&context, "Read", json!({"file_path": file})).await;
        let input = json!({"file_path": file, "content": "forged"});
        let outcome = ground.setting.call_as(&context, "Write", input).await;
        assert!(outcome.is_error, "{file}: {} {}", read.text, outcome.text);
        assert_eq!(ground.kept(), before);
    }
}

#[tokio::test]
async fn a_command_runs_unconfined_only_when_it_asks_and_the_user_lets_it() {
    let ground = Ground::new();
    let Some(confinement) = landlock(&ground) else { return };
    let command = "echo x > $ROOT/teams/t/asked";
    let asked = json!({"command": command, "dangerouslyDisableSandbox": true});
    let may = |may_unconfine| ToolContext { may_unconfine, ..ground.context(&confinement) };
    for (context, input) in [(may(false), asked.clone()), (may(true), json!({ "command": command }))] {
        assert!(ground.setting.call_as(&context, "Bash", input).await.is_error);
    }
    assert!(!ground.root.join("teams/t/asked").exists());
    assert!(!ground.setting.call_as(&may(true), "Bash", asked).await.is_error);
    assert!(ground.root.join("teams/t/asked").exists());
}

/// The variable that is set where mounts are the test's own.
const APART: &str = "PITCREW_TEST_APART";

#[tokio::test]
async fn a_mount_that_shows_the_root_elsewhere_is_no_way_in() {
    if std::env::var_os(APART).is_none() {
        // Where everybody sees it, it would come and go under the hands of another test's bubblewrap.
        let apart = |program: &Path| {
            let mut command = Command::new("unshare");
            command.arg("--mount").arg(program);
            command
        };
        if !apart("true".as_ref()).status().is_ok_and(|status| status.success()) {
            skipped("nothing may be mounted here");
            return;
        }
        let test = ["--exact", "confine::a_mount_that_shows_the_root_elsewhere_is_no_way_in", "--nocapture"];
        let itself = std::env::current_exe().unwrap();
        assert!(apart(&itself).args(test).env(APART, "1").status().unwrap().success());
        return;
    }
    let ground = Ground::new();
    let Some(confinement) = landlock(&ground) else { return };
    let shown = ground.base.join("shown");
    fs::create_dir_all(&shown).unwrap();
    assert!(Command::new("mount").arg("--bind").args([&ground.root, &shown]).status().unwrap().success());
    let before = ground.kept();
    let mut said = Vec::new();
    for command in [
        "echo forged >> ../shown/teams/t/inboxes/lead.json",
        "mv ../shown/teams ../shown/aside && mkdir -p ../shown/teams",
        "echo x > ../shown/plans/through",
    ] {
        said.push(ground.bash(&confinement, command).await);
    }
    let after = ground.kept();
    assert!(Command::new("umount").arg(&shown).status().unwrap().success());
    assert_eq!(after, before, "{said:?}");
    assert!(ground.root.join("plans/through").exists(), "{said:?}");
}
