//! The test scene (a root with a team in it), and small helpers for all tests.

use pitcrew_store::NewTeam;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use pitcrew_protocol::{
    AgentName, InboxFile, Message, MessageId, Task, TaskId, TeamConfig, TeamDir,
};
use pitcrew_store::{
    Appended, Change, FileBackend, FileOptions, MailStore, TaskStore, TaskTable, TeamStore,
    UnreadLimit, Watch,
};

/// Longest time that a test waits for an event that must happen. Even on a slow and busy machine,
/// every event comes much earlier.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Scene {
    pub(crate) backend: FileBackend,
    pub(crate) team: TeamDir,
    root: tempfile::TempDir,
}

/// Sets the umask so that files which a test writes get the same modes as pitcrew's files.
/// Otherwise a check of the store would report that other users can access them.
fn own_modes() {
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
}

impl Scene {
    /// Creates a test scene with the team `probe`.
    pub(crate) async fn new() -> Self {
        own_modes();
        let root = tempfile::tempdir().unwrap();
        let scene = Self { backend: open(root.path()), team: TeamDir::of("probe"), root };
        scene.backend.create_team(&config(), &NewTeam::default()).await.unwrap();
        scene
    }

    /// Creates a test scene from a recording. The root gets a copy of the recorded folders `teams/`
    /// and `tasks/`.
    pub(crate) fn recorded(recording: &str, team: &str) -> Self {
        own_modes();
        let root = tempfile::tempdir().unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(recording);
        copy(&fixtures, root.path());
        Self { backend: open(root.path()), team: TeamDir::of(team), root }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub(crate) fn inbox_path(&self) -> PathBuf {
        self.path(&format!("teams/{}/inboxes/worker.json", self.team))
    }

    pub(crate) fn read(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap()
    }

    pub(crate) async fn send(&self, id: &str) {
        assert_eq!(
            self.backend
                .append(&self.team, &worker(), message(id), UnreadLimit::None)
                .await
                .unwrap(),
            Appended::New
        );
    }

    pub(crate) async fn ids(&self) -> Vec<String> {
        ids(&self.backend, &self.team).await
    }

    pub(crate) async fn add_tasks(&self, count: u64) {
        add_tasks(&self.backend, &self.team, count).await;
    }
}

pub(crate) fn open(root: &Path) -> FileBackend {
    FileBackend::open(root, FileOptions::default())
}

pub(crate) fn config() -> TeamConfig {
    serde_json::from_str(
        r#"{"name": "probe", "members": [{"name": "team-lead", "tmuxPaneId": ""}]}"#,
    )
    .unwrap()
}

pub(crate) fn worker() -> InboxFile {
    AgentName::foreign("worker").inbox_file()
}

pub(crate) fn message(id: &str) -> Message {
    Message::new("bob", format!("this is {id}"), "2026-11-20T11:48:29.735Z".into())
        .with_id(&MessageId(id.into()))
}

pub(crate) async fn ids(backend: &FileBackend, team: &TeamDir) -> Vec<String> {
    backend.inbox(team, &worker()).await.unwrap().into_iter().map(|m| m.id.0).collect()
}

pub(crate) fn task(n: u64) -> Task {
    let value = serde_json::json!({"id": n.to_string(), "subject": "s", "description": "d", "status": "pending",
        "blocks": [], "blockedBy": []});
    serde_json::from_value(value).unwrap()
}

pub(crate) fn id(n: u64) -> TaskId {
    TaskId::from_number(n)
}

pub(crate) async fn add_tasks(backend: &FileBackend, team: &TeamDir, count: u64) {
    let add = move |table: &mut TaskTable| {
        for _ in 0..count {
            table.tasks.insert(id(table.next_id), task(table.next_id));
            table.next_id += 1;
        }
        Ok(())
    };
    backend.edit_tasks(team, Box::new(add)).await.unwrap();
}

/// Waits until the watcher reports `change`.
pub(crate) async fn told(watch: &mut Watch, change: &Change) {
    let _it = told_one_of(watch, std::slice::from_ref(change)).await;
}

/// Waits until the watcher reports one of `changes`, and returns the reported change.
pub(crate) async fn told_one_of(watch: &mut Watch, changes: &[Change]) -> Change {
    let wait = async {
        while let Some(told) = watch.next().await {
            if changes.contains(&told) {
                return told;
            }
        }
        panic!("the watch ended before {changes:?}");
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap()
}

/// Makes a file or folder look `seconds` old.
pub(crate) fn age(path: &Path, seconds: u64) {
    fs::File::open(path)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(seconds))
        .unwrap();
}

/// Returns the paths of everything below a folder. A file comes with its bytes, a folder with
/// `None`.
pub(crate) fn everything(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path));
            all.push((path, None));
        } else {
            let bytes = fs::read(&path).unwrap();
            all.push((path, Some(bytes)));
        }
    }
    all.sort();
    all
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        if path.is_dir() {
            fs::create_dir(to.join(&name)).unwrap();
            copy(&path, &to.join(&name));
        } else {
            fs::copy(&path, to.join(&name)).unwrap();
        }
    }
}
