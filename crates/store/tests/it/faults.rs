//! Tests with damaged files, files of other programs and files that cannot be written. The store
//! returns a typed error and changes nothing.

use std::fs;
use std::sync::Arc;

use pitcrew_protocol::{AgentName, MessageId};
use pitcrew_store::{MailStore, StoreError, TaskStore, TeamStore, UnreadLimit};

use crate::processes::{Job, Work};
use crate::scene::{Scene, everything, message, worker};

fn is_corrupt<T>(done: Result<T, StoreError>) -> bool {
    matches!(done, Err(StoreError::Corrupt { .. }))
}

#[tokio::test]
async fn an_inbox_of_half_a_megabyte_that_is_cut_is_never_written() {
    let scene = Scene::new().await;
    let entry = serde_json::to_string(&message("m")).unwrap();
    let whole = format!("[\n  {}\n]", vec![entry; 4000].join(",\n  "));
    fs::write(scene.inbox_path(), &whole.as_bytes()[..whole.len() / 2]).unwrap();
    let before = everything(scene.root());
    assert!(is_corrupt(
        scene.backend.append(&scene.team, &worker(), message("m1"), UnreadLimit::None).await
    ));
    assert!(is_corrupt(scene.backend.inbox(&scene.team, &worker()).await));
    assert!(is_corrupt(
        scene.backend.acknowledge(&scene.team, &worker(), &[MessageId("m".into())]).await
    ));
    assert!(is_corrupt(scene.backend.trim_inbox(&scene.team, &worker(), 0).await));
    assert_eq!(everything(scene.root()), before);
}

#[tokio::test]
async fn a_config_that_is_not_json_is_never_written() {
    for text in ["", "{", "{\"name\": \"probe\"}", "[]"] {
        let scene = Scene::new().await;
        fs::write(scene.path("teams/probe/config.json"), text).unwrap();
        let before = everything(scene.root());
        assert!(is_corrupt(scene.backend.team(&scene.team).await), "{text:?}");
        assert!(
            is_corrupt(scene.backend.edit_team(&scene.team, Arc::new(|_| Ok(()))).await),
            "{text:?}"
        );
        assert!(
            is_corrupt(
                scene
                    .backend
                    .append(&scene.team, &worker(), message("m1"), UnreadLimit::None)
                    .await
            ),
            "{text:?}"
        );
        assert_eq!(everything(scene.root()), before);
    }
}

#[tokio::test]
async fn a_cut_task_is_never_written() {
    let scene = Scene::new().await;
    scene.add_tasks(2).await;
    fs::write(scene.path("tasks/probe/2.json"), "{\"id\": \"2\", \"sub").unwrap();
    let listed = scene.backend.tasks(&scene.team).await.unwrap();
    assert_eq!(listed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["1"]);
    let clear = |table: &mut pitcrew_store::TaskTable| {
        table.tasks.clear();
        Ok(())
    };
    scene.backend.edit_tasks(&scene.team, Box::new(clear)).await.unwrap();
    assert_eq!(
        fs::read_to_string(scene.path("tasks/probe/2.json")).unwrap(),
        "{\"id\": \"2\", \"sub"
    );
}

#[tokio::test]
async fn a_torn_file_is_read_once_its_writer_is_done() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let whole = fs::read(scene.inbox_path()).unwrap();
    // The test does the same as another client in a recorded trace: that client held the lock,
    // truncated the file and then filled it.
    let lock = scene.path("teams/probe/inboxes/worker.json.lock");
    fs::create_dir(&lock).unwrap();
    fs::write(scene.inbox_path(), b"").unwrap();
    let reading = scene.ids();
    let writing = async {
        tokio::task::yield_now().await;
        fs::write(scene.inbox_path(), &whole).unwrap();
        fs::remove_dir(&lock).unwrap();
    };
    assert_eq!(tokio::join!(reading, writing).0, ["m1"]);
}

#[tokio::test]
async fn a_root_that_cannot_be_written_is_an_error_and_stays_as_it_is() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let before = everything(scene.root());
    // The job runs in a process that is able to read the root but not to write to it. If the tests
    // run as root, the process runs as the user `nobody`.
    let job = Job { root: scene.root().to_owned(), work: Work::SendDenied, crash_at: None };
    let done = job.command_as_nobody().output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!(everything(scene.root()), before);
}

#[tokio::test]
async fn a_failed_write_leaves_no_temporary_file() {
    let scene = Scene::new().await;
    // The name of the inbox file has the maximum length, 255 bytes. The store is able to write the
    // temporary file, because the temporary file has a shorter name. The lock has a longer name
    // than the inbox file, so the store is not able to create the lock.
    let inbox = AgentName::foreign(&"a".repeat(250)).inbox_file();
    let before = everything(scene.root());
    let done = scene.backend.append(&scene.team, &inbox, message("m1"), UnreadLimit::None).await;
    assert!(matches!(done, Err(StoreError::Io { .. })), "{done:?}");
    assert_eq!(everything(scene.root()), before);
}
