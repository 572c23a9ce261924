//! A root with a healthy team and with foreign files beside the team's files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::test_env::{TestEnv, copy};

/// An id in the form that pitcrew uses in the names of temporary files.
pub(super) const ID: &str = "0123456789abcdef0123456789abcdef";

/// The maximum size of a file whose content is compared, in bytes. Of a larger one, only the length
/// is compared.
const MOST_READ: u64 = 16 * 1024 * 1024;

/// The file, folder or link at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    mode: u32,
    is: Is,
}

#[derive(Clone, PartialEq, Eq)]
enum Is {
    Folder,
    File(Vec<u8>),
    /// A file of more than [`MOST_READ`] bytes, with its length.
    LargeFile(u64),
    Link(PathBuf),
    Other,
}

impl std::fmt::Debug for Is {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder => write!(f, "folder"),
            Self::File(bytes) => {
                write!(
                    f,
                    "{:?}",
                    String::from_utf8_lossy(bytes).chars().take(300).collect::<String>()
                )
            }
            Self::LargeFile(length) => write!(f, "file of {length} bytes"),
            Self::Link(target) => write!(f, "link to {}", target.display()),
            Self::Other => write!(f, "other"),
        }
    }
}

/// All files, folders and links below a folder, by relative path.
pub(super) type Tree = BTreeMap<PathBuf, Entry>;

/// A separate root for the test of one damage.
pub(crate) struct Scene {
    pub(super) room: TestEnv,
    no_loss: Mutex<BTreeSet<PathBuf>>,
}

/// The initial content of every scene. It is made once, and each scene copies it.
static TEMPLATE: LazyLock<TestEnv> = LazyLock::new(|| {
    let room = TestEnv::with_crew();
    room.ok(&["send", "bob", "the first"]);
    room.ok(&["send", "ann", "the second"]);
    for subject in ["one", "two", "three"] {
        room.ok(&["task", "create", subject, "to be done"]);
    }
    let ours = room.root().join("teams/crew/pitcrew");
    let documents = [
        ("started", json!({"version": 1, "started": {}})),
        ("requests", json!({"version": 1, "requests": {}})),
        ("panes", json!({"version": 1, "hosts": []})),
        ("conversations", json!({"version": 1, "conversations": {}})),
        ("ended", json!({"version": 1, "members": []})),
        ("keys", json!({"version": 1, "keys": []})),
        ("escaped", json!({"version": 1, "escaped": []})),
    ];
    for (name, document) in documents {
        fs::write(ours.join(format!("{name}.json")), document.to_string()).unwrap();
    }
    fs::create_dir_all(ours.join("transcripts")).unwrap();
    let steps = "{\"seq\":1,\"kind\":\"told\",\"text\":\"go\"}\n{\"seq\":2,\"kind\":\"rested\"}\n";
    for agent in ["ann", "team-lead"] {
        fs::write(ours.join(format!("transcripts/{agent}.ndjson")), steps).unwrap();
    }
    room
});

/// The configuration of an archived team.
pub(super) const ARCHIVED_CONFIG: &str =
    "root/pitcrew/archive/old-20200101T000000Z-12345678/team/config.json";

/// Healthy foreign files at every place below the root, each with its content. None of these files
/// may ever change.
const FOREIGN: [(&str, &str); 16] = [
    ("root/teams/README.md", "mine"),
    ("root/teams/crew/Cargo.lock", "version = 4"),
    ("root/teams/crew/yarn.lock", "# yarn"),
    ("root/teams/crew/my.lock/notes", "mine"),
    ("root/teams/crew/tsconfig.json", "{ // mine\n}"),
    ("root/teams/crew/.pitcrew-notes", "mine"),
    ("root/teams/crew/inboxes/notes.txt", "mine"),
    ("root/teams/crew/pitcrew/notes.lock", "mine"),
    ("root/tasks/crew/notes.txt", "mine"),
    ("root/tasks/5a5a5a5a-session/1.json", "{\"id\":"),
    ("root/tasks/5a5a5a5a-session/1.json.lock", ""),
    ("root/projects/mine/session.jsonl", "{}"),
    (ARCHIVED_CONFIG, r#"{"name": "old", "createdAt": 1577836800000, "members": []}"#),
    ("root/pitcrew/archive/.repair-of-my-bike/kept.ndjson", "mine"),
    ("outside/Cargo.lock", "version = 4"),
    ("outside/inboxes/data.json", "[1, 2"),
];

impl Scene {
    pub(super) fn new() -> Self {
        let room = TestEnv::new();
        copy(&TEMPLATE.root(), &room.root());
        let scene = Self { room, no_loss: Mutex::default() };
        for (path, text) in FOREIGN {
            scene.write(path, text);
            scene.age(path);
        }
        scene.age("root/teams/crew/my.lock");
        scene
    }

    /// Returns the full path of `path`, which is relative to the scene.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.room.work().parent().unwrap().join(path)
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    pub(super) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), bytes).unwrap();
    }

    /// Changes the JSON file at `path` with `change`.
    pub(super) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_str(&self.read(path)).unwrap();
        change(&mut value);
        self.write(path, serde_json::to_string_pretty(&value).unwrap());
    }

    pub(super) fn folder(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
    }

    pub(super) fn remove(&self, path: &str) {
        let path = self.at(path);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => _ = fs::remove_file(path),
        }
    }

    /// Replaces the file or folder at `path` by a link.
    pub(super) fn link(&self, path: &str, target: &str) {
        self.remove(path);
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        symlink(self.at(target), self.at(path)).unwrap();
    }

    /// Makes a file or folder look two minutes old.
    pub(super) fn age(&self, path: &str) {
        self.date(path, SystemTime::now() - Duration::from_secs(120));
    }

    pub(super) fn date(&self, path: &str, time: SystemTime) {
        fs::File::open(self.at(path)).unwrap().set_modified(time).unwrap();
    }

    /// Declares that the test does not need to check whether the content of this file or folder is
    /// kept.
    pub(super) fn no_loss(&self, path: &str) {
        self.no_loss.lock().unwrap().insert(PathBuf::from(path));
    }

    pub(super) fn is_no_loss(&self, path: &Path) -> bool {
        self.no_loss.lock().unwrap().iter().any(|it| path.starts_with(it))
    }

    pub(super) fn doctor(&self, args: &[&str]) -> (i32, Value) {
        let all: Vec<&str> = ["--json", "doctor"].into_iter().chain(args.iter().copied()).collect();
        let ran = self.room.run(&all);
        let report = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|_| json!({"no_report": format!("{ran:?}")}));
        (ran.code, report)
    }

    /// Returns the modification time and inode of each file and folder of the scene.
    pub(super) fn stamps(&self) -> BTreeMap<PathBuf, (i64, i64, u64)> {
        let stamp = |path: &PathBuf| {
            let meta = fs::symlink_metadata(self.at("").join(path)).unwrap();
            (meta.mtime(), meta.mtime_nsec(), meta.ino())
        };
        // `doctor` tests the sandbox in the temporary folder, so this folder changes and is left
        // out.
        let paths = self.tree().into_keys().filter(|path| path.as_path() != Path::new("tmp"));
        paths.map(|path| (path.clone(), stamp(&path))).collect()
    }

    /// Returns all files, folders and links of the scene. Links are not followed.
    pub(super) fn tree(&self) -> Tree {
        let top = self.at("");
        let mut tree = Tree::new();
        let mut folders = vec![top.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let is = if meta.is_dir() {
                    folders.push(path.clone());
                    Is::Folder
                } else if meta.is_symlink() {
                    Is::Link(fs::read_link(&path).unwrap())
                } else if meta.is_file() && meta.len() > MOST_READ {
                    Is::LargeFile(meta.len())
                } else if meta.is_file() {
                    Is::File(fs::read(&path).unwrap())
                } else {
                    Is::Other
                };
                tree.insert(
                    path.strip_prefix(&top).unwrap().to_owned(),
                    Entry { mode: meta.mode(), is },
                );
            }
        }
        tree
    }
}

pub(super) fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}
