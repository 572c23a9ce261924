//! What is left behind is found, and put right without losing anything.

use std::fs;

use pitcrew_store::{Backend as _, Leaving};

use crate::scene::{Scene, age};

#[tokio::test]
async fn of_a_torn_inbox_the_whole_messages_stay() {
    let scene = Scene::new().await;
    for said in ["m1", "m2", "m3"] {
        scene.send(said).await;
    }
    let inbox = scene.path("teams/probe/inboxes/worker.json");
    let torn = fs::read_to_string(&inbox).unwrap();
    let torn = &torn[..torn.len() - 30];
    fs::write(&inbox, torn).unwrap();
    let found = scene.backend.leavings().unwrap();
    let aside = scene.backend.mend(&found[0]).unwrap().unwrap();
    assert_eq!(scene.ids().await, ["m1", "m2"]);
    assert_eq!(fs::read_to_string(aside).unwrap(), torn);
    assert_eq!(scene.backend.leavings().unwrap(), []);
}

#[tokio::test]
async fn a_team_that_was_archived_without_its_tasks_is_archived_whole() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    let archive = scene.backend.archive_team(&scene.team).await.unwrap();
    fs::rename(archive.join("tasks"), scene.path("tasks/probe")).unwrap();
    let found = scene.backend.leavings().unwrap();
    assert!(matches!(&found[..], [Leaving::HalfArchived { .. }]), "{found:?}");
    assert_eq!(scene.backend.mend(&found[0]).unwrap(), Some(archive.clone()));
    assert!(archive.join("tasks/1.json").is_file());
    assert_eq!(scene.backend.leavings().unwrap(), []);
}

#[tokio::test]
async fn the_stale_locks_of_a_team_are_broken_and_the_others_are_not() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let stale = ["teams/probe/config.json.lock", "teams/probe/inboxes/gone.json.lock", "tasks/probe/.lock.lock"];
    let live = scene.path("teams/probe/inboxes/worker.json.lock");
    let of_another = scene.path("teams/other/inboxes/worker.json.lock");
    for lock in stale.map(|path| scene.path(path)).iter().chain([&of_another]) {
        fs::create_dir_all(lock).unwrap();
        age(lock, 100);
    }
    fs::create_dir(&live).unwrap();
    assert_eq!(scene.backend.break_stale_locks(&scene.team).await.unwrap(), 3);
    assert!(stale.iter().all(|path| !scene.path(path).exists()));
    assert!(live.is_dir() && of_another.is_dir());
    assert_eq!(scene.backend.break_stale_locks(&scene.team).await.unwrap(), 0);
}

#[tokio::test]
async fn everything_left_behind_is_found_and_mended() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    scene.send("m1").await;
    assert_eq!(scene.backend.leavings().unwrap(), []);
    let lock = scene.path("tasks/probe/.lock.lock");
    let file_lock = scene.path("teams/probe/inboxes/worker.json.lock");
    let temp = scene.path("teams/probe/inboxes/.pitcrew-1.tmp");
    let unborn = scene.path("teams/.new-1");
    let torn = scene.path("tasks/probe/1.json");
    fs::create_dir(&lock).unwrap();
    fs::write(&file_lock, "").unwrap();
    fs::write(&temp, "[").unwrap();
    fs::create_dir_all(unborn.join("inboxes")).unwrap();
    fs::write(&torn, "{\"id\": \"1\"").unwrap();
    assert!(matches!(&scene.backend.leavings().unwrap()[..], [Leaving::Torn { .. }]), "what is young may be at work");
    for path in [&lock, &file_lock, &temp, &unborn] {
        age(path, 100);
    }
    let found = scene.backend.leavings().unwrap();
    assert_eq!(found.len(), 5);
    for leaving in &found {
        let moved = scene.backend.mend(leaving).unwrap();
        assert_eq!(moved.is_some(), matches!(leaving, Leaving::Torn { .. }));
        assert!(moved.is_none_or(|aside| fs::read_to_string(aside).unwrap() == "{\"id\": \"1\""));
    }
    assert_eq!(scene.backend.leavings().unwrap(), []);
    assert_eq!(scene.ids().await, ["m1"]);
    assert_eq!(scene.backend.tasks(&scene.team).await.unwrap().len(), 0);
    scene.add_tasks(1).await;
    assert_eq!(scene.backend.tasks(&scene.team).await.unwrap()[0].id.number(), 2, "a torn task's id stays used");
}
