//! Tests with unusual objects at the path of a file of a project or of the user: a FIFO without a
//! writer, an endless device, a link out of the project, a huge file. No command may wait for such
//! an object or fill the memory with it. If pitcrew does not read an object, `run` must say so.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::test_env::{Ran, TestEnv};

/// The time limit in seconds. A command that takes longer counts as hanging.
const SECONDS: &str = "100";

/// The memory limit in kilobytes. No command needs more, but a command that reads an endless device
/// would.
const KILOBYTES: &str = "4000000";

const DONE: &str = "agents:\n  team-lead:\n    - text: Done.\n  bob:\n    - text: Done.\n  guest:\n    - text: Done.\n";

/// The files of a project and of the user that commands read.
const FILES: [&str; 10] = [
    "work/.claude/settings.json",
    "work/.claude/settings.local.json",
    "work/.claude/agents/a.md",
    "work/.claude/agents",
    "work/.mcp.json",
    "work/CLAUDE.md",
    "work/AGENTS.md",
    "root/settings.json",
    "root/agents/a.md",
    "root/CLAUDE.md",
];

/// The commands that read [`FILES`].
const COMMANDS: [&[&str]; 12] = [
    &["run", "go", "--team", "made", "--model", "SCRIPT"],
    &["join", "crew", "--as", "guest", "--model", "SCRIPT", "--max-turns", "1"],
    &["agent", "--agent-id", "bob@crew", "--model", "SCRIPT", "--max-turns", "1"],
    &["team", "list"],
    &["team", "show", "crew"],
    &["task", "list", "--team", "crew"],
    &["member", "list", "--team", "crew"],
    &["send", "--team", "crew", "bob", "hello"],
    &["inbox", "bob", "--team", "crew"],
    &["doctor"],
    &["trust", "list"],
    &["trust", "add", "--yes"],
];

/// The commands that run until somebody stops them.
const LIVES_ON: [&str; 2] = ["join", "agent"];

struct Scene {
    room: TestEnv,
    model: String,
}

impl Scene {
    fn new(file: &str) -> Self {
        let room = TestEnv::with_crew();
        let model = room.script(DONE);
        fs::create_dir(room.work().join(".git")).unwrap();
        let scene = Self { room, model };
        fs::create_dir_all(scene.path(file).parent().unwrap()).unwrap();
        scene
    }

    fn path(&self, file: &str) -> PathBuf {
        self.room.work().parent().unwrap().join(file)
    }

    /// Runs a command with the limits on time and memory.
    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        let own = env!("CARGO_BIN_EXE_pitcrew");
        let limited =
            format!("ulimit -v {KILOBYTES}; exec timeout -s KILL {SECONDS} \"$0\" \"$@\"");
        let args = args.iter().map(|arg| if *arg == "SCRIPT" { self.model.as_str() } else { arg });
        let mut command = self.room.tool("sh", &["-c", &limited, own]);
        let ran = Ran::of(
            command.args(args.clone()).stdin(std::process::Stdio::null()).output().unwrap(),
        );
        assert!(
            ran.code != 137 && ran.code != -1,
            "{:?} hung or was killed: {ran:?}",
            args.collect::<Vec<_>>()
        );
        ran
    }
}

fn make_fifo(path: &std::path::Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn no_command_waits_for_a_fifo() {
    for file in FILES {
        let scene = Scene::new(file);
        make_fifo(&scene.path(file));
        let is_settings = file.contains("settings");
        // `join` and `agent` do not end after they have read their files. Only an error ends them,
        // and only unreadable settings cause such an error. The test therefore runs these two
        // commands only for settings files.
        for args in COMMANDS.into_iter().filter(|args| is_settings || !LIVES_ON.contains(&args[0]))
        {
            let ran = scene.run(args);
            if args[0] == "run" {
                assert_eq!(ran.code == 0, !is_settings, "{file}: {ran:?}");
                let words = if file.ends_with("agents") { "Not a directory" } else { "a FIFO" };
                assert!(ran.stderr.contains(words), "{file}: {ran:?}");
            }
            if is_settings && LIVES_ON.contains(&args[0]) {
                assert!(ran.stderr.contains("a FIFO"), "{file}: {ran:?}");
            }
        }
    }
}

#[test]
fn no_command_reads_a_device_a_giant_or_what_lies_outside() {
    for file in FILES.into_iter().filter(|file| *file != "work/.claude/agents") {
        for (what, words) in
            [("/dev/zero", "/dev/zero"), ("giant", "longer than"), ("secret", "it is a link to")]
        {
            let scene = Scene::new(file);
            let path = scene.path(file);
            match what {
                "giant" => fs::File::create(&path).unwrap().set_len(5 << 30).unwrap(),
                "secret" => {
                    fs::write(scene.path("secret"), "PRIVATE").unwrap();
                    symlink(scene.path("secret"), &path).unwrap();
                }
                device => symlink(device, &path).unwrap(),
            }
            let ran = scene.run(COMMANDS[0]);
            let is_user_s = file.starts_with("root");
            match (is_user_s, what) {
                // The user is allowed to replace one of the user's own files by a link to any file,
                // so the link itself is not an error. pitcrew reports only invalid content.
                (true, "secret") => {}
                (true, "/dev/zero") => assert!(ran.stderr.contains("a device"), "{file}: {ran:?}"),
                _ => assert!(ran.stderr.contains(words), "{file}, {what}: {ran:?}"),
            }
            assert!(!ran.stderr.contains("PRIVATE"), "{ran:?}");
        }
    }
}

#[test]
fn the_user_s_own_files_may_be_links() {
    let scene = Scene::new("root/agents/a.md");
    fs::create_dir(scene.path("dotfiles")).unwrap();
    fs::write(scene.path("dotfiles/settings.json"), r#"{"pitcrew": {"limits": {"teams": 1}}}"#)
        .unwrap();
    symlink(scene.path("dotfiles/settings.json"), scene.path("root/settings.json")).unwrap();
    let ran = scene.run(&["team", "create", "second"]);
    assert_ne!(ran.code, 0, "the setting does not hold: {ran:?}");
}

/// Files of a repository that git opens each time a git command runs.
const OF_GIT: [&str; 5] = [".git/config", ".git/HEAD", ".git/commondir", ".git/index", ".git"];

#[test]
fn no_command_waits_for_a_fifo_of_git() {
    let looks = "agents:\n  team-lead:\n    - tools: [{name: Bash, input: {command: ls}}]\n    - text: Done.\n";
    for file in OF_GIT {
        let room = TestEnv::with_crew();
        let model = room.script(looks);
        let scene = Scene { room, model };
        assert!(scene.room.tool("git", &["init", "--quiet"]).status().unwrap().success());
        let path = scene.path("work").join(file);
        match path.is_dir() {
            true => fs::remove_dir_all(&path).unwrap(),
            false => _ = fs::remove_file(&path),
        }
        make_fifo(&path);
        for args in [COMMANDS[0], &["doctor"], &["trust", "add", "--yes"], &["team", "list"]] {
            let ran = scene.run(args);
            assert!(args[0] != "run" || ran.stdout.contains("Done."), "{file}: {ran:?}");
        }
    }
}
