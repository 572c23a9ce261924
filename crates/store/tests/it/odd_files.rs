//! Tests with special files (such as a FIFO or a link) and far too long files at the path of a
//! team's file. They cause an error that names the path. The store never waits for such a file and
//! never writes through it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_protocol::{AgentName, MessageId, TeamDir};
use pitcrew_store::{
    ArchiveStore, Damage, Event, JournalEntry, JournalOf, JournalStore, LogName, MailStore, Mend,
    RecordStore, StoreError, TaskStore, TeamStore, UnreadLimit,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::scene::{Scene, id, message, worker};

/// Time limit of an operation. Only an operation that waits for a special file exceeds this limit.
const NO_WAIT: Duration = Duration::from_secs(60);

/// Content of a file outside the root, to which the link of the test points.
const SECRET: &str = "[\"not to be read\"]";

#[derive(Clone, Copy, Debug)]
enum Odd {
    Fifo,
    Folder,
    Link,
    Dangling,
    Huge,
}

const ALL: [Odd; 5] = [Odd::Fifo, Odd::Folder, Odd::Link, Odd::Dangling, Odd::Huge];

impl Odd {
    fn put(self, path: &Path, secret: &Path) {
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
        match self {
            Self::Fifo => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            Self::Folder => fs::create_dir(path).unwrap(),
            Self::Link => symlink(secret, path).unwrap(),
            Self::Dangling => symlink(secret.with_file_name("nowhere"), path).unwrap(),
            // The file is sparse, so it uses no disk space.
            Self::Huge => fs::File::create(path).unwrap().set_len(2 << 30).unwrap(),
        }
    }
}

/// Creates a team with a special or far too long file at the path `file`. Also creates a folder
/// outside the root with a secret file.
async fn scene(file: &str, odd: Odd) -> (Scene, tempfile::TempDir) {
    let scene = Scene::new().await;
    scene.add_tasks(2).await;
    scene.send("m1").await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), SECRET).unwrap();
    odd.put(&scene.path(file), &outside.path().join("secret"));
    (scene, outside)
}

#[track_caller]
fn names<T: std::fmt::Debug>(done: Result<T, StoreError>, file: &Path, odd: Odd) {
    match done {
        Err(StoreError::Corrupt { path, .. }) => assert_eq!(path, file, "{odd:?}"),
        other => panic!("{odd:?}: {other:?}"),
    }
}

fn is_untouched(outside: &tempfile::TempDir) {
    let entries: Vec<_> =
        fs::read_dir(outside.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(entries, ["secret"]);
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), SECRET);
}

async fn in_time(work: impl Future<Output = ()>) {
    tokio::time::timeout(NO_WAIT, work).await.expect("it waits");
}

#[tokio::test]
async fn an_odd_inbox_is_named_and_moved_aside_on_demand() {
    for odd in ALL {
        let (scene, outside) = scene("teams/probe/inboxes/worker.json", odd).await;
        let path = scene.inbox_path();
        in_time(async {
            names(scene.backend.inbox(&scene.team, &worker()).await, &path, odd);
            names(
                scene
                    .backend
                    .append(&scene.team, &worker(), message("m2"), UnreadLimit::None)
                    .await,
                &path,
                odd,
            );
            names(
                scene.backend.acknowledge(&scene.team, &worker(), &[MessageId("m1".into())]).await,
                &path,
                odd,
            );
            names(scene.backend.trim_inbox(&scene.team, &worker(), 0).await, &path, odd);
            let found = scene.backend.look().found;
            assert!(
                matches!(&found[..], [Damage::Torn { path: torn, .. }] if *torn == path),
                "{odd:?}: {found:?}"
            );
            let Mend::Kept(kept) =
                scene.backend.repair(&found[0], &mut scene.backend.keep()).unwrap()
            else {
                panic!()
            };
            assert!(fs::symlink_metadata(kept).is_ok());
            scene.send("m2").await;
            assert_eq!(scene.ids().await, ["m2"], "{odd:?}");
        })
        .await;
        is_untouched(&outside);
    }
}

#[tokio::test]
async fn an_odd_config_makes_no_team() {
    for odd in ALL {
        let (scene, outside) = scene("teams/probe/config.json", odd).await;
        let path = scene.path("teams/probe/config.json");
        in_time(async {
            names(scene.backend.team(&scene.team).await, &path, odd);
            names(scene.backend.edit_team(&scene.team, Arc::new(|_| Ok(()))).await, &path, odd);
        })
        .await;
        is_untouched(&outside);
    }
}

#[tokio::test]
async fn an_odd_task_is_passed_over_and_never_written() {
    for odd in ALL {
        let (scene, outside) = scene("tasks/probe/2.json", odd).await;
        let path = scene.path("tasks/probe/2.json");
        in_time(async {
            let listed = scene.backend.tasks(&scene.team).await.unwrap();
            assert_eq!(
                listed.iter().map(|task| task.id.clone()).collect::<Vec<_>>(),
                [id(1)],
                "{odd:?}"
            );
            let remove = |table: &mut pitcrew_store::TaskTable| {
                assert_eq!(table.next_id, 3, "its id stays taken");
                table.tasks.remove(&id(1));
                Ok(())
            };
            scene.backend.edit_tasks(&scene.team, Box::new(remove)).await.unwrap();
            assert!(fs::symlink_metadata(&path).is_ok(), "{odd:?}");
        })
        .await;
        assert!(!scene.path("tasks/probe/1.json").exists());
        is_untouched(&outside);
    }
}

#[tokio::test]
async fn an_odd_journal_or_log_is_named_and_never_written_through() {
    let entry = JournalEntry { at_ms: 1, event: Event::TeamCreated { team: "probe".into() } };
    let log = LogName::Output(AgentName::foreign("worker"));
    for odd in [Odd::Fifo, Odd::Folder, Odd::Link, Odd::Dangling] {
        let (scene, outside) = scene("teams/probe/pitcrew/journal.ndjson", odd).await;
        odd.put(
            &scene.path("teams/probe/pitcrew/output/worker.log"),
            &outside.path().join("secret"),
        );
        let path = scene.path("teams/probe/pitcrew/journal.ndjson");
        in_time(async {
            names(scene.backend.journal_since(&scene.team, 0).await, &path, odd);
            names(
                scene.backend.record(&scene.team, std::slice::from_ref(&entry)).await,
                &path,
                odd,
            );
            assert!(scene.backend.append_log(&scene.team, &log, &["x".to_owned()]).await.is_err());
            assert!(scene.backend.log(&scene.team, &log).await.is_err());
            scene.backend.archive_team(&scene.team).await.unwrap();
        })
        .await;
        is_untouched(&outside);
    }
}

#[tokio::test]
async fn a_journal_of_gigabytes_is_not_read() {
    let (scene, _outside) = scene("teams/probe/pitcrew/journal.ndjson", Odd::Huge).await;
    let path = scene.path("teams/probe/pitcrew/journal.ndjson");
    names(scene.backend.journal_since(&scene.team, 0).await, &path, Odd::Huge);
    names(scene.backend.journal_summary(&scene.team).await, &path, Odd::Huge);
    scene.backend.archive_team(&scene.team).await.unwrap();
    let archive = scene.backend.archives().await.unwrap().remove(0);
    let kept =
        scene.path("pitcrew/archive").join(archive.to_string()).join("team/pitcrew/journal.ndjson");
    names(
        scene
            .backend
            .message_journal(JournalOf::Archive(&archive), &pitcrew_protocol::MessageId("m".into()))
            .await,
        &kept,
        Odd::Huge,
    );
}

#[tokio::test]
async fn a_task_that_gives_itself_a_path_as_its_id_stays_where_it_is() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    let evil = r#"{"id":"../../x","subject":"s","description":"d","status":"pending","blocks":["../../y"],"blockedBy":["/etc/z"]}"#;
    fs::write(scene.path("tasks/probe/2.json"), evil).unwrap();
    fs::write(scene.path("tasks/probe/x.json"), evil.replace("../../x", "x")).unwrap();
    let listed = scene.backend.tasks(&scene.team).await.unwrap();
    assert_eq!(listed.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["x", "1"]);
    let change_all = |table: &mut pitcrew_store::TaskTable| {
        for task in table.tasks.values_mut() {
            task.owner = Some("bob".into());
        }
        let mut copy = table.tasks[&id(1)].clone();
        copy.id = serde_json::from_str("\"../../x\"").unwrap();
        table.tasks.insert(copy.id.clone(), copy);
        Ok(())
    };
    let refused = scene.backend.edit_tasks(&scene.team, Box::new(change_all)).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let clear = |table: &mut pitcrew_store::TaskTable| {
        table.tasks.clear();
        Ok(())
    };
    scene.backend.edit_tasks(&scene.team, Box::new(clear)).await.unwrap();
    assert_eq!(scene.read("tasks/probe/2.json"), evil, "it is no task of the list, and stays");
    assert!(!scene.path("x.json").exists() && !scene.path("tasks/x.json").exists());
}

#[tokio::test]
async fn the_folder_of_all_teams_is_no_team() {
    let scene = Scene::new().await;
    fs::copy(scene.path("teams/probe/config.json"), scene.path("teams/config.json")).unwrap();
    let nowhere = TeamDir::of("");
    for done in [
        scene.backend.team(&nowhere).await.err(),
        scene.backend.archive_team(&nowhere).await.err(),
        scene.backend.append(&nowhere, &worker(), message("m1"), UnreadLimit::None).await.err(),
    ] {
        assert!(matches!(done, Some(StoreError::NoTeam { .. })), "{done:?}");
    }
    assert_eq!(scene.backend.teams().await.unwrap(), [TeamDir::of("probe")]);
}

#[tokio::test]
async fn a_link_in_the_place_of_a_team_is_no_team_and_nothing_behind_it_is_touched() {
    let (scene, other) = (Scene::new().await, Scene::new().await);
    let theirs = other.root().join("teams/probe");
    let linked = scene.root().join("teams/linked");
    symlink(&theirs, &linked).unwrap();
    let lock = theirs.join("config.json.lock");
    fs::create_dir(&lock).unwrap();
    crate::scene::age(&lock, 60);
    let config = fs::read(theirs.join("config.json")).unwrap();
    let team = TeamDir::of("linked");
    let refused =
        scene.backend.append(&team, &worker(), message("m1"), UnreadLimit::None).await.unwrap_err();
    assert!(refused.to_string().contains("not followed"), "{refused}");
    assert!(scene.backend.team(&team).await.is_err());
    // The folder of the team `linked` is a link. The team is in the list, so that users notice it.
    // The store never opens it.
    assert_eq!(scene.backend.teams().await.unwrap(), [TeamDir::of("linked"), TeamDir::of("probe")]);
    assert!(lock.exists());
    assert_eq!(fs::read(theirs.join("config.json")).unwrap(), config);
    assert!(!theirs.join("pitcrew/writes").exists());
}
