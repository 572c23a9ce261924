//! Tests that files which a deny rule names stay denied when a folder around them is renamed, when
//! they have other names, and when several commands and processes work together.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_permission::gate::{Call, Gate, Verdict};
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_process::sandbox::{Machine, Profile, Sandbox, Support};
use pitcrew_protocol::PermissionMode;
use serde_json::{Value, json};

use crate::sandbox_read::Ground;

/// Rules that deny reading and changing files of the working folder.
const RULES: [&str; 5] = [
    "Read(./a/b/secrets/**)",
    "Read(**/*.pem)",
    "Edit(./fixed/inner/**)",
    "Edit(./later/**)",
    "Edit(./lone)",
];

/// The files that the rules name, and those beside them.
const FILES: [(&str, &str); 7] = [
    ("a/b/secrets/key", "SECRET"),
    ("pem/deep/x.pem", "SECRET"),
    ("fixed/inner/file", "fixed"),
    ("lone", "fixed"),
    ("other/sub/file", "plain"),
    ("plain", "plain"),
    ("src/main.rs", "plain"),
];

/// Commands that try to come past a `Read` rule, one after the other, in the sandbox profile
/// *work*. None of them prints the secret.
const READING: &[&[&str]] = &[
    &["mv a/b a/c", "cat a/c/secrets/key"],
    &["mv a z", "cat z/b/secrets/key"],
    &["mv a/b/secrets s", "cat s/key"],
    &["mkdir n && mv a n/a", "cat n/a/b/secrets/key"],
    &["mv a other/sub/a", "cat other/sub/a/b/secrets/key"],
    &["mv a $TMPDIR/a", "cat $TMPDIR/a/b/secrets/key"],
    &[
        "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(316, -100, b'a', -100, b'other', 2)\"",
        "cat other/b/secrets/key",
    ],
    &["python3 -c \"import os; os.rename('a', 'z')\"", "cat z/b/secrets/key"],
    &["perl -e 'rename \"a/b\", \"a/c\"'", "cat a/c/secrets/key"],
    &["ln a/b/secrets/key hard", "cat hard"],
    &["ln -s b a/l", "cat a/l/secrets/key"],
    &["cp -r a copy", "cat copy/b/secrets/key"],
    &["cp -al a copy", "cat copy/b/secrets/key"],
    &["git init -q . ; git add -f a; git mv a g", "cat g/b/secrets/key; git show :a/b/secrets/key"],
    &["tar cf x.tar a; tar xOf x.tar"],
    &["mv a/b gone; ln -s ../other a/b; mv gone z", "cat gone/secrets/key z/secrets/key"],
    &["mkdir s; unshare -Urm sh -c 'mount --bind a/b/secrets s; cat s/key'"],
    &["mkdir s; mount --bind a/b/secrets s", "cat s/key"],
    &["mv pem/deep/x.pem pem/deep/y", "cat pem/deep/y"],
    &["mv pem q", "cat q/deep/x.pem"],
    &["mv pem/deep q && cd q && cat x.pem", "cat q/x.pem"],
    &["find . -type f -exec cat {} +"],
];

/// Commands that try to come past an `Edit` rule in the sandbox profile *work*.
const WRITING: &[&str] = &[
    "echo x > fixed/inner/file",
    "echo x >> lone",
    "rm -rf fixed lone",
    "mv fixed f2; mkdir -p fixed/inner && echo x > fixed/inner/file",
    "mv fixed/inner fixed/i2; mkdir fixed/inner; echo x > fixed/inner/file",
    "mv lone l2; echo x > lone",
    "cp -f plain lone; ln -f plain lone; ln -sf plain lone",
    "sed -i s/f/x/ lone fixed/inner/file",
    "python3 -c \"open('lone', 'w').write('x')\"",
    "echo x > fixed/inner/new",
    "ln lone hard && echo x > hard",
    "truncate -s 0 lone fixed/inner/file",
    "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(316, -100, b'fixed', -100, b'other', 2)\"",
    "git init -q . ; git add -f lone fixed; echo x > lone; git rm -qf lone; git checkout -- lone",
    "mkdir later && echo x > later/file",
    "echo x > hard-lone",
    "echo x > mine; sed -i s/./x/ mine",
];

/// Makes a working folder with the files and rules, for commands in a profile. Returns `None` if
/// this machine cannot enforce the profile.
fn ground(profile: Profile, sandbox: impl FnOnce(Machine) -> Sandbox) -> Option<Ground> {
    let mut ground = Ground::with(sandbox);
    if let Support::Missing { reason } = ground.sandbox.support(profile) {
        eprintln!("\n!!! SKIPPED: {reason}. Nothing was proved about {profile:?}. !!!\n");
        return None;
    }
    for (file, text) in FILES {
        ground.setting.write(file, text);
    }
    // The person's own secrets of other tests lie in the folder too.
    for other in ["denied", "deep", "link-env"] {
        let path = ground.setting.path(other);
        drop(fs::remove_dir_all(&path).or_else(|_a_link| fs::remove_file(&path)));
    }
    let settings = json!({ "permissions": { "deny": RULES } });
    let settings = Settings::merge(vec![(Layer::User, settings)]).unwrap();
    let home = ground.base.join("home");
    let gate = Gate::from_settings(&settings, Some(&home)).unwrap();
    ground.setting.context.gate = Arc::new(gate.held_by(ground.sandbox.clone()));
    ground.setting.context.profile = profile;
    Some(ground)
}

fn decision(ground: &Ground, tool: &str, input: &Value) -> Verdict {
    let cwd = &ground.setting.context.cwd;
    let call = Call { tool, input, cwd, plan_file: None };
    ground.setting.context.gate.judge(PermissionMode::AcceptEdits, &call)
}

fn is_denied(ground: &Ground, tool: &str, path: &Path) -> bool {
    matches!(decision(ground, tool, &json!({ "file_path": path })), Verdict::Deny { .. })
}

/// Asserts that neither a command nor a tool reads the secret at this path.
async fn stays_denied(ground: &Ground, path: &str, how: &str) {
    let said = ground.bash(&format!("cat {path}; find . -type f -exec cat {{}} +")).await;
    assert!(!said.contains("SECRET"), "{how}: {said}");
    assert!(said.contains("plain"), "{how}: other files are read: {said}");
    assert!(is_denied(ground, "Read", &ground.setting.path(path)), "{how}: the tool Read");
    let found = ground
        .setting
        .call("Grep", json!({"pattern": "SECRET", "output_mode": "content"}))
        .await
        .text;
    assert!(!found.contains("SECRET\n") && !found.contains(":SECRET"), "{how}: Grep: {found}");
}

#[tokio::test]
async fn no_command_in_work_takes_a_denied_file_out_of_a_rule_s_sight() {
    for commands in READING {
        let Some(mut ground) = ground(Profile::Work, Sandbox::new) else { return };
        for command in *commands {
            let said = ground.bash(command).await;
            assert!(!said.contains("SECRET"), "{commands:?}: {said}");
        }
        // The next command may be one that only reads.
        ground.setting.context.profile = Profile::Read;
        let said = ground
            .bash(&format!("{}; find . -type f -exec cat {{}} +", commands[commands.len() - 1]))
            .await;
        assert!(!said.contains("SECRET"), "{commands:?} in read: {said}");
    }
}

/// A change of the working folder by another program.
type Change = fn(&Path);

/// Ways in which a person, or a command that runs freely, gives a denied file another path.
const BY_OTHERS: &[(&str, Change, &str)] = &[
    (
        "the folder is renamed",
        |it| fs::rename(it.join("a/b/secrets"), it.join("s")).unwrap(),
        "s/key",
    ),
    (
        "a folder above is renamed",
        |it| fs::rename(it.join("a"), it.join("z")).unwrap(),
        "z/b/secrets/key",
    ),
    ("the file is renamed", |it| fs::rename(it.join("pem/deep/x.pem"), it.join("y")).unwrap(), "y"),
];

#[tokio::test]
async fn a_denied_file_stays_denied_under_every_later_name() {
    for (how, rename, path) in BY_OTHERS {
        for profile in [Profile::Read, Profile::Work] {
            let Some(ground) = ground(profile, Sandbox::new) else { return };
            ground.bash("true").await;
            rename(&ground.setting.context.cwd);
            stays_denied(&ground, path, how).await;
        }
        let Some(ground) = ground(Profile::Read, Sandbox::by_landlock) else { return };
        ground.bash("true").await;
        rename(&ground.setting.context.cwd);
        stays_denied(&ground, path, &format!("{how}, by Landlock alone")).await;
    }
}

#[tokio::test]
async fn a_denied_file_stays_denied_when_a_free_command_renames_it() {
    let Some(mut ground) = ground(Profile::Work, Sandbox::new) else { return };
    ground.setting.context.profile = Profile::Free;
    ground.bash("mv a z").await;
    assert!(ground.setting.path("z/b/secrets/key").exists());
    for profile in [Profile::Read, Profile::Work] {
        ground.setting.context.profile = profile;
        stays_denied(&ground, "z/b/secrets/key", "after a free command").await;
    }
}

#[tokio::test]
async fn another_process_at_the_root_knows_the_denied_files_too() {
    let mut other = None;
    let made = ground(Profile::Read, |machine| {
        other = Some(Sandbox::new(machine.clone()));
        Sandbox::new(machine)
    });
    let Some(mut ground) = made else { return };
    ground.bash("true").await;
    fs::rename(ground.setting.path("a"), ground.setting.path("z")).unwrap();
    let other = other.unwrap();
    let gate = Gate::clone(&ground.setting.context.gate).held_by(other.clone());
    ground.setting.context.gate = Arc::new(gate);
    ground.setting.context.sandbox = other;
    stays_denied(&ground, "z/b/secrets/key", "in another process").await;
}

#[tokio::test]
async fn a_hard_link_to_a_denied_file_is_denied_and_a_new_file_is_not() {
    for profile in [Profile::Read, Profile::Work] {
        let Some(ground) = ground(profile, Sandbox::new) else { return };
        let path = |name: &str| ground.setting.path(name);
        fs::hard_link(path("a/b/secrets/key"), path("src/hard")).unwrap();
        fs::hard_link(path("pem/deep/x.pem"), path("src/hard-pem")).unwrap();
        ground.bash("true").await;
        stays_denied(&ground, "src/hard", "a link to a file in a denied folder").await;
        stays_denied(&ground, "src/hard-pem", "a link to a denied file").await;
        ground.setting.write("src/new.pem", "SECRET");
        stays_denied(&ground, "src/new.pem", "a file that was made in between").await;
        fs::remove_file(path("src/hard")).unwrap();
        ground.setting.write("src/hard", "another");
        assert_eq!(ground.bash("cat src/hard").await, "another");
    }
}

#[tokio::test]
async fn an_edit_rule_holds_for_every_command_in_work() {
    let made = ground(Profile::Work, Sandbox::new);
    let Some(mut ground) = made else { return };
    let path = |name: &str| ground.setting.path(name);
    let settings = ground.base.join("home/.claude/settings.json");
    fs::write(&settings, "{}").unwrap();
    fs::hard_link(&settings, path("mine")).unwrap();
    fs::hard_link(path("lone"), path("hard-lone")).unwrap();
    for command in WRITING {
        ground.bash(command).await;
        for file in ["lone", "hard-lone", "fixed/inner/file"] {
            assert_eq!(
                fs::read_to_string(path(file)).ok().as_deref(),
                Some("fixed"),
                "{file}: {command}"
            );
        }
        assert!(!path("fixed/inner/new").exists(), "{command}");
        assert!(!path("later/file").exists(), "{command}");
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}", "{command}");
    }
    ground.bash("echo x > src/new && echo y > plain").await;
    assert_eq!(fs::read_to_string(path("plain")).unwrap(), "y\n", "other files are changed");
    let mine: PathBuf = path("mine");
    let lone = path("hard-lone");
    ground.setting.context.gate = Arc::new(
        Gate::clone(&ground.setting.context.gate).guarding(&ground.base.join("home/.claude")),
    );
    assert!(is_denied(&ground, "Write", &mine), "another name of the settings");
    assert!(is_denied(&ground, "Write", &lone), "another name of a file that a rule names");
}

#[tokio::test]
async fn a_free_command_writes_no_settings_by_another_name_of_them() {
    let Some(mut ground) = ground(Profile::Work, Sandbox::new) else { return };
    ground.setting.context.profile = Profile::Free;
    let root = ground.base.join("home/.claude");
    fs::create_dir_all(root.join("hooks")).unwrap();
    for name in ["settings.json", "hooks/h"] {
        fs::write(root.join(name), "{}").unwrap();
        let mine = ground.setting.path("src/mine");
        fs::hard_link(root.join(name), &mine).unwrap();
        ground
            .bash(
                "echo x > src/mine; echo x >> src/mine; cp plain src/mine; sed -i s/./x/ src/mine",
            )
            .await;
        assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "{}", "{name}");
        fs::remove_file(&mine).unwrap();
    }
    ground.bash("echo x > src/other").await;
    assert!(ground.setting.path("src/other").exists());
}
