//! Tests in which a link takes the place of one of pitcrew's folders. No command may follow the
//! link, and each command must report the link. The names, contents and times in the link's target
//! must not change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::test_env::{Ran, TestEnv};

const DONE: &str = "agents:\n  default:\n    - text: Done.\n";

/// pitcrew's folders below the root, including the folders of the team `crew`.
const FOLDERS: [&str; 17] = [
    "pitcrew",
    "pitcrew/tmp",
    "pitcrew/sandbox",
    "pitcrew/rates",
    "pitcrew/archive",
    "pitcrew/worktrees",
    "pitcrew/shells",
    "teams",
    "tasks",
    "teams/crew",
    "teams/crew/inboxes",
    "teams/crew/pitcrew",
    "teams/crew/pitcrew/writes",
    "teams/crew/pitcrew/output",
    "teams/crew/pitcrew/transcripts",
    "teams/crew/pitcrew/read",
    "tasks/crew",
];

/// Commands that read or change the team. Each command uses the team's folders, so it could follow
/// a link that takes the place of a folder.
const COMMANDS: [&[&str]; 9] = [
    &["team", "show", "crew"],
    &["send", "--team", "crew", "bob", "hello"],
    &["task", "create", "one", "to be done", "--team", "crew"],
    &["task", "list", "--team", "crew"],
    &["inbox", "bob", "--team", "crew"],
    &["run", "go", "--resume", "crew", "--model", "SCRIPT"],
    &["shutdown", "crew", "--force"],
    &["member", "remove", "bob", "--team", "crew"],
    &["team", "delete", "crew"],
];

/// The paths in a folder, each with its modification time in two numbers and its content.
type Tree = BTreeMap<PathBuf, (i64, i64, Option<Vec<u8>>)>;

struct Scene {
    room: TestEnv,
    model: String,
}

impl Scene {
    /// Makes a team, and a folder outside the root. The outside folder contains files that look
    /// like files of pitcrew.
    fn new() -> Self {
        let room = TestEnv::with_crew();
        let model = room.script(DONE);
        let scene = Self { room, model };
        for (name, text) in [
            ("calls", "mine"),
            ("teams/notes", "mine"),
            ("config.ndjson", "{\"mine\":1}\n"),
            ("bob.ndjson", "mine"),
            ("bob.json", "[]"),
            ("config.json", "{\"name\":\"crew\",\"members\":[]}"),
            ("1.json", "{}"),
            ("2023999.12.31/photo", "mine"),
            ("999999.1.holidays/photo", "mine"),
            ("999999.1.0123456789abcdef0123456789abcdef/photo", "mine"),
            ("old-20200101T000000Z-12345678/team/config.json", "{}"),
        ] {
            let path = scene.outside().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        scene
    }

    fn outside(&self) -> PathBuf {
        self.room.work().join("outside")
    }

    /// Replaces a folder of the root by a link to the outside folder.
    fn link(&self, folder: &str) {
        let path = self.room.root().join(folder);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.outside(), path).unwrap();
    }

    fn tree(&self) -> Tree {
        let (mut tree, mut folders) = (Tree::new(), vec![self.outside()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let bytes = if meta.is_dir() {
                    folders.push(path.clone());
                    None
                } else {
                    Some(fs::read(&path).unwrap())
                };
                tree.insert(path, (meta.mtime(), meta.mtime_nsec(), bytes));
            }
        }
        let meta = fs::metadata(self.outside()).unwrap();
        tree.insert(self.outside(), (meta.mtime(), meta.mtime_nsec(), None));
        tree
    }

    fn run(&self, words: &[&str]) -> Ran {
        let words: Vec<&str> = words
            .iter()
            .map(|word| if *word == "SCRIPT" { self.model.as_str() } else { *word })
            .collect();
        self.room.run(&words)
    }
}

fn names(ran: &Ran, link: &Path) -> bool {
    ran.stderr.contains(link.to_str().unwrap())
        && ran.stderr.contains("it is a link, but must be a folder")
}

#[test]
fn no_command_goes_through_a_link_in_the_place_of_a_folder() {
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        let scene = Scene::new();
        scene.link(folder);
        let link = scene.room.root().join(folder);
        let before = scene.tree();
        for words in COMMANDS {
            let ran = scene.run(words);
            if ran.code != 70 || !names(&ran, &link) {
                wrong.push(format!("{folder}: {words:?}: {ran:?}"));
            }
            if scene.tree() != before {
                wrong.push(format!("{folder}: {words:?} changed what is behind the link"));
            }
        }
        let found = scene.run(&["doctor"]);
        let is_named = found.stdout.contains(&format!("link {}", link.display()));
        if found.code != 1 || !is_named {
            wrong.push(format!("{folder}: doctor: {found:?}"));
        }
        scene.run(&["doctor", "--repair"]);
        if scene.tree() != before || !link.is_symlink() {
            wrong.push(format!("{folder}: a repair changed what is behind the link, or the link"));
        }
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_team_is_made_listed_and_run_through_no_link_of_the_root() {
    let mut wrong = Vec::new();
    for folder in FOLDERS.iter().filter(|folder| !folder.contains("/crew")) {
        let scene = Scene::new();
        scene.link(folder);
        let link = scene.room.root().join(folder);
        let before = scene.tree();
        for words in [
            ["team", "list"].as_slice(),
            &["team", "create", "other"],
            &["run", "go", "--team", "other", "--model", "SCRIPT"],
            &["team", "delete", "crew", "--force"],
        ] {
            let ran = scene.run(words);
            if ran.code != 70 || !names(&ran, &link) || scene.tree() != before {
                wrong.push(format!("{folder}: {words:?}: {ran:?}"));
            }
        }
        let is_whole = *folder == "tasks" || scene.room.root().join("tasks/crew").is_dir();
        if !is_whole {
            wrong.push(format!("{folder}: the tasks of the team are gone"));
        }
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_link_among_the_teams_is_listed_with_the_reason_and_no_command_takes_it_for_the_only_team() {
    let scene = Scene::new();
    for (name, target) in
        [("linked", scene.outside()), ("nowhere", scene.outside().join("missing"))]
    {
        symlink(target, scene.room.root().join("teams").join(name)).unwrap();
        let listed = scene.run(&["team", "list"]);
        let line = listed.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.contains("it is a link, but must be a"), "{listed:?}");
        let shown = scene.room.run(&["team", "show", name]);
        assert!(
            shown.code == 70 && shown.stderr.contains("it is a link, but must be a folder"),
            "{shown:?}"
        );
        let found = scene.run(&["doctor"]);
        assert!(
            found.stdout.contains(&format!("teams/{name}: a link where a folder should be")),
            "{found:?}"
        );
    }
    let shown = scene.room.ok(&["team", "show"]);
    assert!(shown.stdout.contains("crew"), "{shown:?}");
}

#[test]
fn a_forced_delete_moves_the_links_of_a_team_and_follows_none() {
    for folder in FOLDERS.iter().filter(|folder| folder.contains("/crew")) {
        let scene = Scene::new();
        scene.link(folder);
        let before = scene.tree();
        let ran = scene.run(&["team", "delete", "crew", "--force"]);
        assert_eq!(ran.code, 0, "{folder}: {ran:?}");
        assert!(scene.tree() == before, "{folder}: what is behind the link changed");
        for gone in ["teams/crew", "tasks/crew"] {
            assert!(
                fs::symlink_metadata(scene.room.root().join(gone)).is_err(),
                "{folder}: {gone} is there"
            );
        }
    }
}

#[test]
fn the_root_may_be_a_link_and_below_one() {
    let scene = Scene::new();
    let real = scene.room.work().join("real");
    fs::rename(scene.room.root(), &real).unwrap();
    symlink(&real, scene.room.root()).unwrap();
    let through = scene.room.root();
    let below = scene.room.work().join("work");
    symlink(scene.room.work(), &below).unwrap();
    for root in [through, below.join("real")] {
        let root = root.to_str().unwrap();
        for words in
            [["send", "--team", "crew", "bob", "hello"].as_slice(), &["team", "list"], &["doctor"]]
        {
            let ran = scene.run(&[&["--root", root], words].concat());
            assert_eq!(ran.code, 0, "{words:?}: {ran:?}");
        }
        let team = if root.ends_with("real") { "other" } else { "another" };
        let ran = scene.run(&["--root", root, "run", "go", "--team", team, "--model", "SCRIPT"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}
