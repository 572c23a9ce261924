//! Tests that concurrent callers share resources: a lock and an fsync, a task table, a watcher.

use std::fs;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use pitcrew_store::{Appended, Change, MailStore, TaskStore, TeamStore, UnreadLimit};

use crate::scene::{Scene, message, open, told, worker};

#[tokio::test]
async fn senders_that_meet_share_an_fsync() {
    let scene = Scene::new().await;
    scene.send("first").await;
    let before = scene.backend.forced_writes();
    let inbox = worker();
    let sends = (0..32).map(|n| {
        scene.backend.append(&scene.team, &inbox, message(&format!("m{n:02}")), UnreadLimit::None)
    });
    let sends = futures_util::future::join_all(sends);
    // The test holds the lock, like another client, until all senders have arrived. Otherwise, on a
    // fast disk, one message would be finished before the next sender arrives.
    let lock = scene.path("teams/probe/inboxes/worker.json.lock");
    fs::create_dir(&lock).unwrap();
    let (sent, ()) = tokio::join!(sends, async { fs::remove_dir(&lock).unwrap() });
    assert!(sent.iter().all(Result::is_ok));
    // If every message were sent alone, 64 forced writes would be needed: one of the file and one
    // of the folder for each of the 32 messages.
    let forced = scene.backend.forced_writes() - before;
    assert!(forced <= 16, "{forced}");
    let expected: Vec<String> =
        ["first".to_owned()].into_iter().chain((0..32).map(|n| format!("m{n:02}"))).collect();
    assert_eq!(scene.ids().await, expected);
}

#[tokio::test]
async fn a_sender_that_stops_waiting_takes_nothing_back() {
    let scene = Scene::new().await;
    let inbox = worker();
    // The test holds the lock, like another client, so that the sender must wait.
    let lock = scene.path("teams/probe/inboxes/worker.json.lock");
    fs::create_dir(&lock).unwrap();
    assert!(
        scene
            .backend
            .append(&scene.team, &inbox, message("left"), UnreadLimit::None)
            .now_or_never()
            .is_none()
    );
    fs::remove_dir(&lock).unwrap();
    scene.send("next").await;
    assert_eq!(scene.ids().await, ["left", "next"]);
}

#[tokio::test]
async fn tasks_that_did_not_change_are_one_table() {
    let scene = Scene::new().await;
    scene.add_tasks(3).await;
    let first = scene.backend.tasks(&scene.team).await.unwrap();
    let second = scene.backend.tasks(&scene.team).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &second));
}

#[tokio::test]
async fn a_watcher_is_told_of_what_others_write() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    fs::write(scene.inbox_path(), "[]").unwrap();
    told(&mut watch, &Change::Inbox(worker())).await;
    fs::write(scene.path("tasks/probe/1.json"), scene.read("tasks/probe/1.json")).unwrap();
    told(&mut watch, &Change::Tasks).await;
    fs::write(scene.path("teams/probe/config.json"), scene.read("teams/probe/config.json"))
        .unwrap();
    told(&mut watch, &Change::Config).await;
    fs::remove_dir_all(scene.path("teams/probe")).unwrap();
    told(&mut watch, &Change::Gone).await;
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_watcher_is_told_nothing_of_locks_and_temporary_files() {
    let scene = Scene::new().await;
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    let sent = open(scene.root())
        .append(&scene.team, &worker(), message("m1"), UnreadLimit::None)
        .await
        .unwrap();
    assert_eq!(sent, Appended::New);
    fs::write(scene.path("teams/probe/config.json"), scene.read("teams/probe/config.json"))
        .unwrap();
    assert_eq!(watch.next().await, Some(Change::Inbox(worker())));
    assert_eq!(watch.next().await, Some(Change::Config));
}

#[tokio::test]
async fn a_team_can_be_watched_again_after_it_was_made_anew() {
    let scene = Scene::new().await;
    let mut first = scene.backend.watch(&scene.team).await.unwrap();
    scene.backend.archive_team(&scene.team).await.unwrap();
    told(&mut first, &Change::Gone).await;
    scene
        .backend
        .create_team(&crate::scene::config(), &pitcrew_store::NewTeam::default())
        .await
        .unwrap();
    let mut second = scene.backend.watch(&scene.team).await.unwrap();
    drop(first);
    scene.send("m1").await;
    told(&mut second, &Change::Inbox(worker())).await;
}
