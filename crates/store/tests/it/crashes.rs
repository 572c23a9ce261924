//! Tests that kill a process at a crash point, which is a place marked in the store's code. Every
//! operation is killed at each of its crash points. No data may be lost or duplicated, and a second
//! call of the operation must complete it.

use pitcrew_store::NewTeam;
use std::os::unix::process::ExitStatusExt as _;

use pitcrew_protocol::{AgentName, MessageId, TaskStatus, TeamDir};
use pitcrew_store::{
    ArchiveStore, FileBackend, JournalStore, JournalSummary, LogName, MailStore, RecordStore,
    TaskStore, TeamStore, UnreadLimit,
};

use crate::processes::{Job, Work, turn};
use crate::scene::{Scene, add_tasks, config, ids, message, open, worker};

/// Signal number of SIGKILL, which the parent sees in the exit status of a killed process.
const KILLED: i32 = 9;

/// Upper limit for the number of crash points. Every operation has far fewer crash points.
const POINTS: u64 = 200;

async fn prepared() -> Scene {
    let scene = Scene::new().await;
    for n in 0..3 {
        scene.send(&format!("m{n}")).await;
    }
    add_tasks(&scene.backend, &scene.team, 3).await;
    scene
        .backend
        .edit_tasks(
            &scene.team,
            Box::new(|table| {
                table.tasks.get_mut(&crate::scene::id(2)).unwrap().blocks =
                    vec![crate::scene::id(3)];
                Ok(())
            }),
        )
        .await
        .unwrap();
    scene
}

/// For each crash point, runs `work` in a process that is killed at this point. Then `holds` checks
/// the root, `work` is repeated, and `done` checks the result.
async fn sweep(work: Work, holds: AsyncLook, done: AsyncLook) {
    for point in 1..POINTS {
        let scene = prepared().await;
        let job = Job { root: scene.root().to_owned(), work: work.clone(), crash_at: Some(point) };
        let output = job.command().output().unwrap();
        if output.status.success() {
            assert!(point > 2, "{work:?} passed no crash point");
            done(open(scene.root())).await;
            return;
        }
        assert_eq!(
            output.status.signal(),
            Some(KILLED),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // The lock of a dead process is stale after 10 s. The test does not wait but makes the lock
        // look older.
        for lock in ["teams/probe/inboxes/worker.json.lock", "tasks/probe/.lock.lock"] {
            if scene.path(lock).exists() {
                crate::scene::age(&scene.path(lock), 11);
            }
        }
        holds(open(scene.root())).await;
        if !matches!(work, Work::Archive) || !open(scene.root()).teams().await.unwrap().is_empty() {
            work.on(&open(scene.root())).await;
        }
        done(open(scene.root())).await;
    }
    panic!("{work:?} has no end");
}

type AsyncLook = fn(FileBackend) -> futures_util::future::BoxFuture<'static, ()>;

fn team() -> TeamDir {
    TeamDir::of("probe")
}

async fn statuses(backend: &FileBackend) -> Vec<(u64, TaskStatus, usize)> {
    let tasks = backend.tasks(&team()).await.unwrap();
    tasks.iter().map(|t| (t.id.number(), t.status, t.blocked_by.len())).collect()
}

#[tokio::test]
async fn a_killed_send_is_there_once_or_not_at_all() {
    let work = Work::Send { from: "new".into(), count: 1 };
    sweep(
        work,
        |backend| {
            Box::pin(async move {
                let all = ids(&backend, &team()).await;
                assert!(all == ["m0", "m1", "m2"] || all == ["m0", "m1", "m2", "new-0"], "{all:?}");
            })
        },
        |backend| {
            Box::pin(async move {
                assert_eq!(ids(&backend, &team()).await, ["m0", "m1", "m2", "new-0"])
            })
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_acknowledgement_loses_no_message() {
    sweep(
        Work::Acknowledge,
        |backend| {
            Box::pin(async move { assert_eq!(ids(&backend, &team()).await, ["m0", "m1", "m2"]) })
        },
        |backend| {
            Box::pin(async move {
                let inbox = backend.inbox(&team(), &worker()).await.unwrap();
                assert_eq!(
                    inbox.iter().map(|m| m.message.is_read()).collect::<Vec<_>>(),
                    [true, true, false]
                );
            })
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_task_edit_happened_or_did_not() {
    sweep(
        Work::Claim,
        |backend| {
            Box::pin(async move {
                let task = backend.tasks(&team()).await.unwrap()[0].clone();
                assert_eq!(task.owner.is_some(), task.status == TaskStatus::InProgress);
            })
        },
        |backend| {
            Box::pin(
                async move { assert_eq!(statuses(&backend).await[0].1, TaskStatus::InProgress) },
            )
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_dependency_stands_at_both_ends_or_at_none() {
    sweep(
        Work::Block,
        |backend| {
            Box::pin(async move {
                use TaskStatus::{Completed, Pending};
                let now = statuses(&backend).await;
                let (old, new) = (
                    [(1, Pending, 0), (2, Pending, 0), (3, Pending, 1)],
                    [(1, Completed, 0), (2, Pending, 1), (3, Pending, 2)],
                );
                assert!(now == old || now == new, "{now:?}");
            })
        },
        |backend| Box::pin(async move { assert_eq!(statuses(&backend).await[2].2, 2) }),
    )
    .await;
}

#[tokio::test]
async fn a_killed_removal_leaves_no_mention_and_no_id_to_use_again() {
    sweep(
        Work::Remove,
        |backend| {
            Box::pin(async move {
                let tasks = backend.tasks(&team()).await.unwrap();
                let is_there = tasks.iter().any(|t| t.id.number() == 3);
                assert_eq!(tasks[1].blocks.len(), usize::from(is_there));
            })
        },
        |backend| {
            Box::pin(async move {
                add_tasks(&backend, &team(), 1).await;
                let now: Vec<u64> = statuses(&backend).await.iter().map(|t| t.0).collect();
                assert_eq!(now, [1, 2, 4]);
            })
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_trim_loses_nothing_and_doubles_nothing() {
    for point in 1..POINTS {
        let scene = prepared().await;
        let all = ["m0", "m1"].map(|id| MessageId(id.into()));
        scene.backend.acknowledge(&scene.team, &worker(), &all).await.unwrap();
        let job = Job { root: scene.root().to_owned(), work: Work::Trim, crash_at: Some(point) };
        let is_done = job.command().output().unwrap().status.success();
        let lock = scene.path("teams/probe/inboxes/worker.json.lock");
        if lock.exists() {
            crate::scene::age(&lock, 11);
        }
        Work::Trim.on(&open(scene.root())).await;
        assert_eq!(scene.ids().await, ["m2"]);
        let archived: Vec<String> = scene
            .read("teams/probe/pitcrew/read/worker.ndjson")
            .lines()
            .map(str::to_owned)
            .collect();
        assert_eq!(archived.len(), 2, "{archived:?}");
        if is_done {
            assert!(point > 4);
            return;
        }
    }
    panic!("a trim has no end");
}

#[tokio::test]
async fn a_killed_deletion_leaves_a_whole_team_or_none() {
    sweep(
        Work::Archive,
        |backend| {
            Box::pin(async move {
                if backend.teams().await.unwrap().is_empty() {
                    let again = backend.archive_team(&team()).await;
                    assert!(
                        matches!(again, Ok(_) | Err(pitcrew_store::StoreError::NoTeam { .. })),
                        "{again:?}"
                    );
                } else {
                    assert_eq!(ids(&backend, &team()).await.len(), 3);
                    assert_eq!(statuses(&backend).await.len(), 3);
                }
            })
        },
        |backend| {
            Box::pin(async move {
                assert!(backend.teams().await.unwrap().is_empty());
                backend.create_team(&config(), &NewTeam::default()).await.unwrap();
                assert_eq!(statuses(&backend).await, []);
                assert_eq!(ids(&backend, &team()).await, Vec::<String>::new());
            })
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_restoration_leaves_a_team_that_a_second_one_brings_back_whole() {
    for point in 1..POINTS {
        let scene = prepared().await;
        scene.backend.archive_team(&scene.team).await.unwrap();
        let job = Job { root: scene.root().to_owned(), work: Work::Restore, crash_at: Some(point) };
        let is_done = job.command().output().unwrap().status.success();
        let backend = open(scene.root());
        Work::Restore.on(&backend).await;
        assert_eq!(ids(&backend, &team()).await.len(), 3);
        assert_eq!(statuses(&backend).await.len(), 3);
        assert_eq!(backend.archives().await.unwrap(), []);
        if is_done {
            assert!(point > 2);
            return;
        }
    }
    panic!("a restoration has no end");
}

#[tokio::test]
async fn a_name_that_a_killed_restoration_left_can_be_used_and_the_team_stays_whole() {
    for point in 1..3 {
        let scene = prepared().await;
        scene.backend.archive_team(&scene.team).await.unwrap();
        let job = Job { root: scene.root().to_owned(), work: Work::Restore, crash_at: Some(point) };
        assert!(!job.command().output().unwrap().status.success());
        let backend = open(scene.root());
        let Some(archive) = backend.archives().await.unwrap().pop() else { continue };
        backend.create_team(&config(), &NewTeam::default()).await.unwrap();
        assert_eq!(statuses(&backend).await, []);
        backend.archive_team(&team()).await.unwrap();
        backend.restore_team(&archive).await.unwrap();
        assert_eq!(statuses(&backend).await.len(), 3);
    }
}

#[tokio::test]
async fn a_killed_making_of_another_team_leaves_none_or_one_with_the_whole_log() {
    let log = LogName::Transcript(AgentName::lead());
    let lines: Vec<String> = (0..100).map(|n| format!("{{\"line\":{n}}}")).collect();
    for point in 1..POINTS {
        let scene = prepared().await;
        scene.backend.append_log(&scene.team, &log, &lines).await.unwrap();
        scene.backend.archive_team(&scene.team).await.unwrap();
        let job = Job { root: scene.root().to_owned(), work: Work::Another, crash_at: Some(point) };
        let is_done = job.command().output().unwrap().status.success();
        let backend = open(scene.root());
        if backend.teams().await.unwrap().is_empty() {
            assert!(!is_done);
            Work::Another.on(&backend).await;
        }
        assert_eq!(backend.log(&team(), &log).await.unwrap(), lines);
        assert_eq!(
            (statuses(&backend).await, ids(&backend, &team()).await),
            (Vec::new(), Vec::new())
        );
        assert_eq!(backend.archives().await.unwrap().len(), 1);
        if is_done {
            assert!(point > 3);
            return;
        }
    }
    panic!("making a team has no end");
}

#[tokio::test]
async fn a_killed_removal_of_an_archive_leaves_it_whole_or_in_no_list() {
    for point in 1..POINTS {
        let scene = prepared().await;
        scene.backend.archive_team(&scene.team).await.unwrap();
        let job =
            Job { root: scene.root().to_owned(), work: Work::RemoveArchive, crash_at: Some(point) };
        let is_done = job.command().output().unwrap().status.success();
        let backend = open(scene.root());
        for archive in backend.archives().await.unwrap() {
            assert_eq!(backend.archived_team(&archive).await.unwrap().unwrap().tasks.len(), 3);
        }
        // Archive the team and remove the archive once more. This second removal must also delete
        // the files that the killed removal left behind.
        backend.create_team(&config(), &NewTeam::default()).await.unwrap();
        backend.archive_team(&team()).await.unwrap();
        Work::RemoveArchive.on(&backend).await;
        assert_eq!(std::fs::read_dir(scene.path("pitcrew/archive")).unwrap().count(), 0);
        if is_done {
            return;
        }
    }
    panic!("a removal has no end");
}

/// Length in bytes of a journal at which the store writes the first checkpoint.
const FIRST_CHECKPOINT: usize = 1024 * 1024;

#[tokio::test]
async fn a_killed_checkpoint_leaves_the_summary_of_a_journal_as_it_was() {
    let mut text = String::new();
    for at_ms in 1.. {
        let line = serde_json::to_string(&turn(at_ms)).unwrap() + "\n";
        if text.len() + line.len() >= FIRST_CHECKPOINT {
            break;
        }
        text.push_str(&line);
    }
    let turns = u32::try_from(text.lines().count()).unwrap();
    let (journal, checkpoint) =
        ("teams/probe/pitcrew/journal.ndjson", "teams/probe/pitcrew/journal-checkpoint.json");
    for point in 1..POINTS {
        let scene = prepared().await;
        std::fs::create_dir_all(scene.path(journal).parent().unwrap()).unwrap();
        std::fs::write(scene.path(journal), &text).unwrap();
        let job = Job { root: scene.root().to_owned(), work: Work::Record, crash_at: Some(point) };
        let output = job.command().output().unwrap();
        let backend = open(scene.root());
        // This check comes before the summary is read, because that read writes a missing
        // checkpoint.
        let is_there = scene.path(checkpoint).exists();
        let (summary, end) = backend.journal_summary(&scene.team).await.unwrap();
        assert_eq!(
            summary,
            JournalSummary::of(backend.journal_since(&scene.team, 0).await.unwrap().0)
        );
        assert_eq!(end, std::fs::metadata(scene.path(journal)).unwrap().len());
        let counted = summary.members.values().map(|member| member.turns).sum::<u32>();
        if output.status.success() {
            assert!(point > 3, "a checkpoint passes crash points of its own");
            assert_eq!((counted, is_there), (turns + 1, true));
            return;
        }
        assert_eq!(
            output.status.signal(),
            Some(KILLED),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!((turns..=turns + 1).contains(&counted), "{counted}");
    }
    panic!("more than {POINTS} crash points");
}

#[tokio::test]
async fn a_killed_creation_leaves_no_team_or_a_whole_one() {
    for point in 1..POINTS {
        let root = tempfile::tempdir().unwrap();
        let job = Job { root: root.path().to_owned(), work: Work::Create, crash_at: Some(point) };
        let is_done = job.command().output().unwrap().status.success();
        let backend = open(root.path());
        if backend.teams().await.unwrap().is_empty() {
            assert!(!is_done);
            Work::Create.on(&backend).await;
        }
        assert_eq!(backend.team(&team()).await.unwrap(), config().into());
        assert_eq!(statuses(&backend).await, []);
        assert!(backend.append(&team(), &worker(), message("m"), UnreadLimit::None).await.is_ok());
        if is_done {
            assert!(point > 4);
            return;
        }
    }
    panic!("a creation has no end");
}
