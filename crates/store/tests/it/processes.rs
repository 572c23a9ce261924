//! Tests in which several processes use one root. The other processes run this test binary. An
//! environment variable tells each of them its job.

use pitcrew_store::NewTeam;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pitcrew_protocol::{AgentName, MessageId, TaskStatus, TeamDir};
use pitcrew_store::{
    ArchiveStore, ArchivedLogs, Event, FileBackend, FileOptions, JournalEntry, JournalStore,
    LogName, MailStore, StoreError, TaskStore, TaskTable, TeamStore, Turn, UnreadLimit,
};
use serde::{Deserialize, Serialize};

use crate::scene::{Scene, add_tasks, config, id, ids, message, open, worker};

const VARIABLE: &str = "PITCREW_STORE_TEST_JOB";

#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) root: PathBuf,
    pub(crate) work: Work,
    pub(crate) crash_at: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Create,
    Send { from: String, count: usize },
    SendDenied,
    Acknowledge,
    Trim,
    Claim,
    Block,
    Remove,
    Count { count: usize },
    Archive,
    Restore,
    RemoveArchive,
    Another,
    Record,
}

impl Job {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::a_process_does_its_job", "--nocapture"]);
        command
            .env(VARIABLE, serde_json::to_string(self).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns a command that runs the job as a user who can read the folder `self.root` but cannot
    /// write to it.
    pub(crate) fn command_as_nobody(&self) -> Command {
        let mut command = self.command();
        std::fs::set_permissions(&self.root, std::fs::Permissions::from_mode(0o755)).unwrap();
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        } else {
            let inboxes = self.root.join("teams/probe/inboxes");
            std::fs::set_permissions(inboxes, std::fs::Permissions::from_mode(0o555)).unwrap();
        }
        command
    }

    async fn work(self) {
        let options = FileOptions { crash_at: self.crash_at, ..FileOptions::default() };
        let backend = FileBackend::open(&self.root, options);
        self.work.on(&backend).await;
    }
}

impl Work {
    pub(crate) async fn on(&self, backend: &FileBackend) {
        let team = TeamDir::of("probe");
        match self {
            Self::Create => backend.create_team(&config(), &NewTeam::default()).await.unwrap(),
            Self::Send { from, count } => {
                for n in 0..*count {
                    _ = backend
                        .append(
                            &team,
                            &worker(),
                            message(&format!("{from}-{n}")),
                            UnreadLimit::None,
                        )
                        .await
                        .unwrap();
                }
            }
            Self::SendDenied => {
                let done =
                    backend.append(&team, &worker(), message("denied"), UnreadLimit::None).await;
                let Err(StoreError::Io { source, .. }) = done else { panic!("{done:?}") };
                assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
            }
            Self::Acknowledge => {
                let ids = [MessageId("m0".into()), MessageId("m1".into())];
                backend.acknowledge(&team, &worker(), &ids).await.unwrap();
            }
            Self::Trim => _ = backend.trim_inbox(&team, &worker(), 0).await.unwrap(),
            Self::Claim => backend.edit_tasks(&team, Box::new(claim)).await.unwrap(),
            Self::Block => backend.edit_tasks(&team, Box::new(block)).await.unwrap(),
            Self::Remove => backend.edit_tasks(&team, Box::new(remove)).await.unwrap(),
            Self::Count { count } => {
                for _ in 0..*count {
                    add_tasks(backend, &team, 1).await;
                }
            }
            Self::Archive => _ = backend.archive_team(&team).await.unwrap(),
            Self::Another => {
                let archive = backend.archives().await.unwrap().pop().unwrap();
                let log = LogName::Transcript(AgentName::lead());
                backend
                    .create_team(
                        &config(),
                        &NewTeam {
                            logs: Some(ArchivedLogs { archive, logs: vec![log] }),
                            documents: Vec::new(),
                        },
                    )
                    .await
                    .unwrap();
            }
            Self::Restore => {
                for archive in backend.archives().await.unwrap() {
                    backend.restore_team(&archive).await.unwrap();
                }
            }
            Self::RemoveArchive => {
                for archive in backend.archives().await.unwrap() {
                    assert!(backend.remove_archive(&archive).await.unwrap());
                }
            }
            Self::Record => backend.record(&team, &[turn(1_795_000_000_000)]).await.unwrap(),
        }
    }
}

pub(crate) fn turn(at_ms: i64) -> JournalEntry {
    let turn = Turn::new(AgentName::foreign("worker"), "model");
    JournalEntry {
        at_ms,
        event: Event::TurnEnded(Turn { input_tokens: 1, output_tokens: 1, ..turn }),
    }
}

fn claim(table: &mut TaskTable) -> Result<(), pitcrew_protocol::ApiError> {
    let task = table.tasks.get_mut(&id(1)).unwrap();
    task.owner = Some("bob".into());
    task.status = TaskStatus::InProgress;
    Ok(())
}

fn block(table: &mut TaskTable) -> Result<(), pitcrew_protocol::ApiError> {
    let task = table.tasks.get_mut(&id(1)).unwrap();
    task.status = TaskStatus::Completed;
    task.blocks = vec![id(2), id(3)];
    Ok(())
}

fn remove(table: &mut TaskTable) -> Result<(), pitcrew_protocol::ApiError> {
    table.tasks.remove(&id(3));
    Ok(())
}

/// Does the job that the environment variable describes. In a normal test run the variable is not
/// set. Then this test does a small job in a separate root, so that the job code is tested too.
#[tokio::test]
async fn a_process_does_its_job() {
    if let Ok(job) = std::env::var(VARIABLE) {
        serde_json::from_str::<Job>(&job).unwrap().work().await;
        return;
    }
    let scene = Scene::new().await;
    let work = Work::Send { from: "a".into(), count: 2 };
    Job { root: scene.root().to_owned(), work, crash_at: None }.work().await;
    assert_eq!(scene.ids().await, ["a-0", "a-1"]);
}

fn start(root: &Path, work: Work) -> std::process::Child {
    Job { root: root.to_owned(), work, crash_at: None }.command().spawn().unwrap()
}

#[tokio::test]
async fn processes_that_hammer_one_inbox_lose_nothing() {
    const EACH: usize = 40;
    let scene = Scene::new().await;
    let children: Vec<_> = ["a", "b", "c"]
        .map(|from| start(scene.root(), Work::Send { from: from.into(), count: EACH }))
        .into();
    for n in 0..EACH {
        scene.send(&format!("here-{n}")).await;
    }
    for child in children {
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let all = ids(&open(scene.root()), &scene.team).await;
    assert_eq!(all.len(), 4 * EACH);
    for from in ["a", "b", "c", "here"] {
        let of_one: Vec<&String> = all.iter().filter(|id| id.starts_with(from)).collect();
        assert_eq!(
            of_one,
            (0..EACH).map(|n| format!("{from}-{n}")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn processes_that_make_tasks_never_give_an_id_twice() {
    let scene = Scene::new().await;
    let children: Vec<_> = (0..3).map(|_| start(scene.root(), Work::Count { count: 10 })).collect();
    for _ in 0..10 {
        scene.add_tasks(1).await;
    }
    for child in children {
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let tasks = scene.backend.tasks(&scene.team).await.unwrap();
    assert_eq!(
        tasks.iter().map(|t| t.id.number()).collect::<Vec<_>>(),
        (1..=40).collect::<Vec<_>>()
    );
}
