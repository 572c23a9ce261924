//! Tests in which folders and configs are removed, moved or replaced while a watcher runs. The
//! watcher still reports changes. If it may have missed changes, it reports [`Change::Unsure`]. If
//! a link replaces a folder or config, the link is not followed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use futures_util::StreamExt as _;
use pitcrew_store::{
    Appended, Change, Event, JournalEntry, JournalStore, LeaseHolder, LeaseName, LeaseStore,
    MailStore, StoreError, TaskStore, TeamStore, UnreadLimit, Watch,
};

use crate::scene::{PATIENCE, Scene, ids, message, open, told, told_one_of, worker};

/// Watches a team and lets `upset` change the team's folders. Afterwards the watcher must still
/// report changes of an inbox, the tasks, the config and the journal.
async fn check(upset: impl FnOnce(&Path)) {
    let scene = Scene::new().await;
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    upset(scene.root());
    told(&mut watch, &Change::Unsure).await;
    for round in 0..3 {
        let other = open(scene.root());
        let sent = other
            .append(&scene.team, &worker(), message(&format!("m{round}")), UnreadLimit::None)
            .await
            .unwrap();
        assert_eq!(sent, Appended::New);
        hears(&mut watch, Change::Inbox(worker())).await;
        crate::scene::add_tasks(&other, &scene.team, 1).await;
        hears(&mut watch, Change::Tasks).await;
        let entry = JournalEntry { at_ms: 1, event: Event::TeamCreated { team: "probe".into() } };
        other.record(&scene.team, &[entry]).await.unwrap();
        hears(&mut watch, Change::Journal).await;
        fs::write(scene.path("teams/probe/config.json"), scene.read("teams/probe/config.json"))
            .unwrap();
        hears(&mut watch, Change::Config).await;
        let seen = ids(&scene.backend, &scene.team).await;
        assert!(seen.contains(&format!("m{round}")), "{seen:?}");
        assert!(!scene.backend.tasks(&scene.team).await.unwrap().is_empty());
    }
}

/// Waits until the watcher reports `change` or [`Change::Unsure`], and returns the report. If a
/// folder was missing and comes back, the only report is [`Change::Unsure`].
async fn hears(watch: &mut Watch, change: Change) -> Change {
    told_one_of(watch, &[change, Change::Unsure]).await
}

fn anew(folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    fs::create_dir(folder).unwrap();
}

/// Replaces a folder by a copy of the folder, with two quick renames.
fn replaced(folder: &Path) {
    let (copy, old) = (folder.with_extension("copy"), folder.with_extension("old"));
    copied(folder, &copy);
    fs::rename(folder, &old).unwrap();
    fs::rename(&copy, folder).unwrap();
    fs::remove_dir_all(old).unwrap();
}

fn copied(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

#[tokio::test]
async fn a_watcher_hears_again_when_a_folder_was_removed_and_made_anew() {
    for folder in ["teams/probe/inboxes", "teams/probe/pitcrew", "tasks/probe", "tasks"] {
        check(|root| anew(&root.join(folder))).await;
    }
}

#[tokio::test]
async fn a_watcher_hears_again_when_a_folder_is_removed_until_somebody_writes_into_it() {
    for folder in ["teams/probe/inboxes", "teams/probe/pitcrew", "tasks/probe", "tasks"] {
        check(|root| fs::remove_dir_all(root.join(folder)).unwrap()).await;
    }
}

#[tokio::test]
async fn tasks_whose_folder_is_removed_are_no_longer_listed() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    assert!(!scene.backend.tasks(&scene.team).await.unwrap().is_empty());
    // This read takes the tasks from the cache.
    assert!(!scene.backend.tasks(&scene.team).await.unwrap().is_empty());
    fs::remove_dir_all(scene.path("tasks/probe")).unwrap();
    assert!(scene.backend.tasks(&scene.team).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_watcher_hears_again_when_a_folder_was_replaced() {
    for folder in [
        "teams/probe/inboxes",
        "teams/probe/pitcrew",
        "tasks/probe",
        "tasks",
        "teams/probe",
        "teams",
    ] {
        check(|root| replaced(&root.join(folder))).await;
    }
}

#[tokio::test]
async fn a_watcher_hears_again_when_the_root_was_replaced() {
    check(replaced).await;
}

#[tokio::test]
async fn a_watcher_hears_again_when_a_folder_was_moved_away_and_back() {
    for folder in [
        "teams/probe/inboxes",
        "teams/probe/pitcrew",
        "tasks/probe",
        "teams/probe",
        "teams",
        "tasks",
        "",
    ] {
        check(|root| {
            let folder = if folder.is_empty() { root.to_owned() } else { root.join(folder) };
            let away = folder.with_extension("away");
            fs::rename(&folder, &away).unwrap();
            fs::rename(&away, &folder).unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn messages_of_the_time_between_are_told_of() {
    let scene = Scene::new().await;
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    fs::rename(scene.path("teams/probe/inboxes"), scene.path("away")).unwrap();
    told(&mut watch, &Change::Unsure).await;
    fs::write(scene.path("away/worker.json"), "[]").unwrap();
    let sent = open(scene.root())
        .append(&scene.team, &worker(), message("between"), UnreadLimit::None)
        .await
        .unwrap();
    assert_eq!(sent, Appended::New);
    told(&mut watch, &Change::Unsure).await;
    assert_eq!(scene.ids().await, ["between"]);
}

#[tokio::test]
async fn a_link_in_the_place_of_a_folder_is_not_followed() {
    for folder in ["teams/probe/inboxes", "teams/probe/pitcrew", "tasks/probe"] {
        let scene = Scene::new().await;
        let mut watch = scene.backend.watch(&scene.team).await.unwrap();
        let outside = tempfile::tempdir().unwrap();
        let away = scene.path("away");
        fs::rename(scene.path(folder), &away).unwrap();
        symlink(outside.path(), scene.path(folder)).unwrap();
        let unwatched = |change: &Change| matches!(change, Change::Unwatched { reason } if reason.contains("no folder"));
        let is_told = async { while !unwatched(&watch.next().await.unwrap()) {} };
        tokio::time::timeout(PATIENCE, is_told).await.unwrap();
        for store in [&scene.backend, &open(scene.root())] {
            let refused =
                store.append(&scene.team, &worker(), message("m1"), UnreadLimit::None).await;
            assert!(
                matches!(&refused, Err(StoreError::NoFolder { path, is_link: true }) if *path == scene.path(folder)),
                "{refused:?}"
            );
            assert!(store.tasks(&scene.team).await.is_err());
            assert!(store.edit_tasks(&scene.team, Box::new(|_| Ok(()))).await.is_err());
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{folder}");
        fs::remove_file(scene.path(folder)).unwrap();
        fs::rename(&away, scene.path(folder)).unwrap();
        // The first reports can still come from the time when the folder was a link. The loop skips
        // them.
        let mut sent = 0;
        while {
            sent += 1;
            scene.send(&format!("m{sent}")).await;
            hears(&mut watch, Change::Inbox(worker())).await == Change::Unsure
        } {}
    }
}

#[tokio::test]
async fn a_config_that_is_missing_for_a_moment_ends_nothing() {
    let scene = Scene::new().await;
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    let path = scene.path("teams/probe/config.json");
    let text = fs::read(&path).unwrap();
    scene.backend.team(&scene.team).await.unwrap();
    fs::remove_file(&path).unwrap();
    let (config, ()) = tokio::join!(scene.backend.team(&scene.team), async {
        // 600 ms is the longest time that a client was seen to need between removing a file and
        // writing the new file.
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        fs::write(&path, &text).unwrap();
    });
    assert_eq!(config.unwrap().name.to_string(), "probe");
    told(&mut watch, &Change::Config).await;
    fs::remove_file(&path).unwrap();
    told(&mut watch, &Change::Gone).await;
    assert!(matches!(scene.backend.team(&scene.team).await, Err(StoreError::NoTeam { .. })));
}

#[tokio::test]
async fn a_lease_whose_file_is_removed_stays_with_its_holder() {
    let scene = Scene::new().await;
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    let holder =
        |pid| LeaseHolder { pid, start_ticks: 7, since_ms: 8, verify_key: None, prepares: false };
    let held =
        scene.backend.take_lease(&scene.team, &LeaseName::Run, &holder(1)).await.unwrap().unwrap();
    let other = open(scene.root());
    for remove in [
        (|root| fs::remove_file(root.join("teams/probe/pitcrew/lease")).unwrap()) as fn(&Path),
        |root| fs::remove_dir_all(root.join("teams/probe/pitcrew")).unwrap(),
        |root| anew(&root.join("teams/probe/pitcrew")),
        |root| replaced(&root.join("teams/probe/pitcrew")),
    ] {
        remove(scene.root());
        // The watcher can report two changes: one for the folder, and one for the lease in the
        // folder. Therefore the loop can take two rounds.
        while other.lease_holder(&scene.team, &LeaseName::Run).await.unwrap().is_none() {
            told(&mut watch, &Change::Unsure).await;
        }
        let refused = other.take_lease(&scene.team, &LeaseName::Run, &holder(2)).await.unwrap();
        assert_eq!(refused.unwrap_err().pid, 1);
    }
    drop(held);
    while other.lease_holder(&scene.team, &LeaseName::Run).await.unwrap().is_some() {
        told(&mut watch, &Change::Lease(LeaseName::Run)).await;
    }
}

#[tokio::test]
async fn a_lease_whose_record_is_overwritten_has_its_holder_again_and_never_none() {
    let scene = Scene::new().await;
    let holder =
        LeaseHolder { pid: 1, start_ticks: 7, since_ms: 8, verify_key: None, prepares: false };
    let (run, path) = (LeaseName::Run, scene.path("teams/probe/pitcrew/lease"));
    let other = open(scene.root());
    let _held = scene.backend.take_lease(&scene.team, &run, &holder).await.unwrap().unwrap();
    fs::write(&path, "x").unwrap();
    // Without a watcher nobody mends it. It is held all the same.
    let damaged = other.lease_holder(&scene.team, &run).await;
    assert!(matches!(damaged, Err(StoreError::Corrupt { .. })), "{damaged:?}");
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    fs::write(&path, "").unwrap();
    told(&mut watch, &Change::Unsure).await;
    assert_eq!(other.lease_holder(&scene.team, &run).await.unwrap(), Some(holder));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_fails_while_the_inboxes_are_removed_again_and_again() {
    let scene = Scene::new().await;
    let inboxes = scene.path("teams/probe/inboxes");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let removing = std::thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // The removal can fail, because the sender may write a file into the folder
                // meanwhile.
                let _either = fs::remove_dir_all(&inboxes);
                std::thread::park_timeout(std::time::Duration::from_millis(2));
            }
        }
    });
    for round in 0..300 {
        let id = format!("m{round}");
        let _sent = scene
            .backend
            .append(&scene.team, &worker(), message(&id), UnreadLimit::None)
            .await
            .unwrap();
        scene
            .backend
            .acknowledge(&scene.team, &worker(), &[pitcrew_protocol::MessageId(id)])
            .await
            .unwrap();
        scene.backend.inbox(&scene.team, &worker()).await.unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    removing.join().unwrap();
}
