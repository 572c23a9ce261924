//! Tests in which a program without a lock writes old content over pitcrew's changes. The store
//! detects this and restores the changes.

use std::fs::{self, File};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_protocol::TaskStatus;
use pitcrew_store::{
    Change, Event, JournalStore, MailStore, Overwritten, TaskStore, TeamStore, UnreadLimit,
};

use crate::scene::{Scene, id, told};

/// Writes a file like the reference client: in place, and shortly after the last write of the file.
/// On a busy machine this function may run too late for that. Therefore it sets the modification
/// time of the file to 1 ms after the last write.
fn overwrite(scene: &Scene, below: &str, text: &str) {
    let path = scene.path(below);
    let last = fs::metadata(&path)
        .map_or_else(|_| std::time::SystemTime::now(), |there| there.modified().unwrap());
    let mut file = File::create(&path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_modified(last + Duration::from_millis(1)).unwrap();
}

async fn describe(scene: &Scene, text: &'static str) {
    let edit = move |c: &mut pitcrew_protocol::TeamConfig| {
        c.description = Some(text.into());
        Ok(())
    };
    scene.backend.edit_team(&scene.team, Arc::new(edit)).await.unwrap();
}

async fn claim(scene: &Scene) {
    let claim = |table: &mut pitcrew_store::TaskTable| {
        let task = table.tasks.get_mut(&id(1)).unwrap();
        task.owner = Some("bob".into());
        task.status = TaskStatus::InProgress;
        Ok(())
    };
    scene.backend.edit_tasks(&scene.team, Box::new(claim)).await.unwrap();
}

#[tokio::test]
async fn a_lost_change_of_the_config_is_made_again_beside_the_others() {
    let scene = Scene::new().await;
    let path = "teams/probe/config.json";
    let older = scene.read(path);
    describe(&scene, "ours").await;
    overwrite(&scene, path, &older.replacen('{', "{\n  \"theirs\": true,", 1));
    assert_eq!(scene.backend.team(&scene.team).await.unwrap().description.as_deref(), Some("ours"));
    assert!(scene.read(path).contains("\"theirs\": true") && scene.read(path).contains("ours"));
}

#[tokio::test]
async fn a_lost_change_is_made_again_without_anybody_reading_when_it_is_watched() {
    let scene = Scene::new().await;
    let path = "teams/probe/config.json";
    let older = scene.read(path);
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    describe(&scene, "ours").await;
    told(&mut watch, &Change::Config).await;
    overwrite(&scene, path, &older);
    told(&mut watch, &Change::Config).await;
    assert!(scene.read(path).contains("ours"));
}

#[tokio::test]
async fn a_lost_claim_is_made_again() {
    let scene = Scene::new().await;
    scene.add_tasks(2).await;
    let older = scene.read("tasks/probe/1.json");
    claim(&scene).await;
    overwrite(
        &scene,
        "tasks/probe/1.json",
        &older.replace("\"subject\": \"s\"", "\"subject\": \"theirs\""),
    );
    let task = scene.backend.tasks(&scene.team).await.unwrap()[0].clone();
    assert_eq!((task.owner.as_deref(), task.subject.as_str()), (Some("bob"), "theirs"));
    assert!(scene.read("tasks/probe/1.json").contains("bob"));
}

/// Changes the owner of the first task. Like the crate `team`, it stores the time of the change
/// under `metadata.pitcrew`.
async fn change(
    backend: &pitcrew_store::FileBackend,
    scene: &Scene,
    at: u64,
    owner: Option<&'static str>,
) {
    let change = move |table: &mut pitcrew_store::TaskTable| {
        let task = table.tasks.get_mut(&id(1)).unwrap();
        task.owner = owner.map(str::to_owned);
        let ours = serde_json::json!({"updatedAt": at});
        task.metadata.get_or_insert_default().insert("pitcrew".into(), ours);
        Ok(())
    };
    backend.edit_tasks(&scene.team, Box::new(change)).await.unwrap();
}

#[tokio::test]
async fn a_lost_claim_of_another_process_is_made_again_however_late_it_was_lost() {
    let scene = Scene::new().await;
    scene.add_tasks(2).await;
    let path = "tasks/probe/1.json";
    change(&crate::scene::open(scene.root()), &scene, 1, None).await;
    let older = scene.read(path);
    change(&crate::scene::open(scene.root()), &scene, 2, Some("ann")).await;
    change(&crate::scene::open(scene.root()), &scene, 3, Some("bob")).await;
    fs::write(scene.path(path), older.replace("\"subject\": \"s\"", "\"subject\": \"theirs\""))
        .unwrap();
    let late = std::time::SystemTime::now() + Duration::from_secs(3600);
    File::options().write(true).open(scene.path(path)).unwrap().set_modified(late).unwrap();
    let elsewhere = crate::scene::open(scene.root());
    let told = elsewhere.reapply(&scene.team).await.unwrap();
    let task = elsewhere.tasks(&scene.team).await.unwrap()[0].clone();
    assert_eq!((task.owner.as_deref(), task.subject.as_str()), (Some("bob"), "theirs"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(elsewhere.reapply(&scene.team).await.unwrap(), []);
}

#[tokio::test]
async fn a_claim_that_another_client_made_over_ours_stays_and_is_told() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    change(&scene.backend, &scene, 1, None).await;
    let older = scene.read("tasks/probe/1.json");
    change(&scene.backend, &scene, 2, Some("bob")).await;
    overwrite(
        &scene,
        "tasks/probe/1.json",
        &older.replace("\"status\"", "\"owner\": \"carol\", \"status\""),
    );
    let told = crate::scene::open(scene.root()).reapply(&scene.team).await.unwrap();
    assert_eq!(
        told,
        [Overwritten {
            file: "tasks/1.json".into(),
            put_back: Vec::new(),
            kept: vec!["owner".into()]
        }]
    );
    assert_eq!(scene.backend.tasks(&scene.team).await.unwrap()[0].owner.as_deref(), Some("carol"));
}

#[tokio::test]
async fn a_removed_task_that_is_written_again_is_removed_again() {
    let scene = Scene::new().await;
    scene.add_tasks(2).await;
    let older = scene.read("tasks/probe/2.json");
    let remove = |table: &mut pitcrew_store::TaskTable| {
        table.tasks.remove(&id(2));
        Ok(())
    };
    scene.backend.edit_tasks(&scene.team, Box::new(remove)).await.unwrap();
    overwrite(&scene, "tasks/probe/2.json", &older);
    assert_eq!(scene.backend.tasks(&scene.team).await.unwrap().len(), 1);
    assert!(!scene.path("tasks/probe/2.json").exists());
}

/// Creates a test scene with a member `worker` that pitcrew runs.
async fn with_worker() -> Scene {
    let scene = Scene::new().await;
    join(&scene, "worker", r#"{"name": "worker", "pitcrew": {}}"#).await;
    scene
}

async fn join(scene: &Scene, name: &'static str, member: &'static str) {
    let edit = move |config: &mut pitcrew_protocol::TeamConfig| {
        if config.member(name).is_none() {
            config.members.push(serde_json::from_str(member).unwrap());
        }
        Ok(())
    };
    scene.backend.edit_team(&scene.team, Arc::new(edit)).await.unwrap();
}

/// Returns the message ids in the inbox, as another process sees them. A new store stands for that
/// process, because it knows only the files on disk.
async fn ids_elsewhere(scene: &Scene) -> Vec<String> {
    crate::scene::ids(&crate::scene::open(scene.root()), &scene.team).await
}

const INBOX: &str = "teams/probe/inboxes/worker.json";

#[tokio::test]
async fn a_lost_message_is_put_back_by_whoever_comes_next() {
    let scene = with_worker().await;
    scene.send("m1").await;
    let older = fs::read_to_string(scene.inbox_path()).unwrap();
    scene.send("m2").await;
    overwrite(&scene, INBOX, &older.replace("this is m1", "theirs"));
    assert_eq!(ids_elsewhere(&scene).await, ["m1", "m2"]);
    assert!(fs::read_to_string(scene.inbox_path()).unwrap().contains("theirs"));
    let told = scene
        .backend
        .journal_since(&scene.team, 0)
        .await
        .unwrap()
        .0
        .into_iter()
        .map(|entry| entry.event);
    let expected = Overwritten {
        file: "inboxes/worker.json".into(),
        put_back: vec!["m2".into()],
        kept: Vec::new(),
    };
    assert_eq!(told.collect::<Vec<_>>(), [Event::Overwritten(expected)]);
}

#[tokio::test]
async fn lost_messages_are_put_back_before_those_that_were_sent_after_them() {
    let scene = with_worker().await;
    for id in ["m1", "m2", "m3", "m4"] {
        scene.send(id).await;
    }
    let all: Vec<serde_json::Value> = serde_json::from_str(&scene.read(INBOX)).unwrap();
    fs::write(scene.inbox_path(), serde_json::to_string(&[&all[2]]).unwrap()).unwrap();
    assert_eq!(ids_elsewhere(&scene).await, ["m1", "m2", "m3", "m4"]);
    overwrite(&scene, INBOX, "[]");
    let elsewhere = crate::scene::open(scene.root());
    let sent = elsewhere
        .append(
            &scene.team,
            &crate::scene::worker(),
            crate::scene::message("m5"),
            UnreadLimit::None,
        )
        .await;
    assert_eq!(sent.unwrap(), pitcrew_store::Appended::New);
    assert_eq!(ids_elsewhere(&scene).await, ["m1", "m2", "m3", "m4", "m5"]);
}

#[tokio::test]
async fn an_inbox_that_was_removed_is_made_again_with_what_nobody_read() {
    let scene = with_worker().await;
    scene.send("m1").await;
    scene.send("m2").await;
    let read = [pitcrew_protocol::MessageId("m1".into())];
    scene.backend.acknowledge(&scene.team, &crate::scene::worker(), &read).await.unwrap();
    fs::remove_file(scene.inbox_path()).unwrap();
    assert_eq!(ids_elsewhere(&scene).await, ["m2"]);
}

#[tokio::test]
async fn a_message_that_was_read_is_never_put_back_nor_unread_again() {
    let scene = with_worker().await;
    let empty = "[]";
    scene.send("m1").await;
    scene.send("m2").await;
    let unread = scene.read(INBOX);
    let (both, one) = (["m1", "m2"].map(|id| pitcrew_protocol::MessageId(id.into())), 1);
    scene.backend.acknowledge(&scene.team, &crate::scene::worker(), &both[..one]).await.unwrap();
    overwrite(&scene, INBOX, &unread);
    let elsewhere = crate::scene::open(scene.root());
    let marks: Vec<bool> = elsewhere
        .inbox(&scene.team, &crate::scene::worker())
        .await
        .unwrap()
        .iter()
        .map(|stored| stored.message.is_read())
        .collect();
    assert_eq!(marks, [true, false]);
    scene.backend.acknowledge(&scene.team, &crate::scene::worker(), &both).await.unwrap();
    assert_eq!(scene.backend.trim_inbox(&scene.team, &crate::scene::worker(), 0).await.unwrap(), 2);
    assert_eq!(ids_elsewhere(&scene).await, Vec::<String>::new(), "it was trimmed");
    overwrite(&scene, INBOX, empty);
    assert_eq!(ids_elsewhere(&scene).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_vanished_from_the_inbox_of_another_client_was_taken() {
    let scene = Scene::new().await;
    join(&scene, "worker", r#"{"name": "worker", "pitcrew": {"program": "claude"}}"#).await;
    scene.send("m1").await;
    overwrite(&scene, INBOX, "[]");
    assert_eq!(ids_elsewhere(&scene).await, Vec::<String>::new());
    // Another client runs this member, so the store must assume that this client removed the first
    // message after reading it. Therefore the next write of the store must not restore the first
    // message.
    scene.send("m2").await;
    assert_eq!(ids_elsewhere(&scene).await, ["m2"]);
}

#[tokio::test]
async fn a_log_of_sent_messages_is_shortened_and_forgets_only_what_was_read() {
    let scene = with_worker().await;
    let log = scene.path("teams/probe/pitcrew/writes/inbox.worker.ndjson");
    let long = "x".repeat(100_000);
    let mut most = 0;
    scene.send("first").await;
    for nth in 0..40 {
        let id = format!("m{nth}");
        let message = pitcrew_protocol::Message::new("bob", long.clone(), "t".into());
        let message = message.with_id(&pitcrew_protocol::MessageId(id.clone()));
        assert_eq!(
            scene
                .backend
                .append(&scene.team, &crate::scene::worker(), message, UnreadLimit::None)
                .await
                .unwrap(),
            pitcrew_store::Appended::New
        );
        let read = [pitcrew_protocol::MessageId(id)];
        scene.backend.acknowledge(&scene.team, &crate::scene::worker(), &read).await.unwrap();
        scene.backend.trim_inbox(&scene.team, &crate::scene::worker(), 0).await.unwrap();
        most = most.max(fs::metadata(&log).unwrap().len());
    }
    assert!(most < 2_300_000, "{most}");
    overwrite(&scene, INBOX, "[]");
    assert_eq!(ids_elsewhere(&scene).await, ["first"]);
}

#[tokio::test]
async fn a_message_that_a_session_took_stays_taken() {
    let scene = Scene::recorded("claude-2.1.329/session-team", "session-6132882e");
    scene.send("m1").await;
    fs::write(scene.inbox_path(), "[]").unwrap();
    assert_eq!(scene.ids().await, Vec::<String>::new());
    scene.send("m2").await;
    assert_eq!(scene.ids().await, ["m2"]);
}

#[tokio::test]
async fn what_another_pitcrew_changed_on_purpose_stays_changed() {
    let scene = Scene::new().await;
    describe(&scene, "ours").await;
    let other = crate::scene::open(scene.root());
    let edit = |c: &mut pitcrew_protocol::TeamConfig| {
        c.description = Some("theirs".into());
        Ok(())
    };
    other.edit_team(&scene.team, Arc::new(edit)).await.unwrap();
    assert_eq!(
        scene.backend.team(&scene.team).await.unwrap().description.as_deref(),
        Some("theirs")
    );
}

#[tokio::test]
async fn a_config_that_a_client_left_empty_is_what_it_was_seen_last() {
    let scene = Scene::new().await;
    let path = "teams/probe/config.json";
    describe(&scene, "ours").await;
    let theirs = scene.read(path).replacen('{', "{\n  \"theirs\": true,", 1);
    overwrite(&scene, path, &theirs);
    let seen = scene.backend.team(&scene.team).await.unwrap();
    overwrite(&scene, path, "");
    assert_eq!(scene.backend.team(&scene.team).await.unwrap(), seen);
    assert_eq!(scene.read(path), theirs, "it stands there again, also for the others");
    overwrite(&scene, path, "");
    describe(&scene, "ours again").await;
    assert_eq!(scene.read(path), theirs.replace("\"ours\"", "\"ours again\""));
    // The file looks as if two clients wrote it at once: the end of the longer text follows the
    // shorter text. The store that repairs it is new, so it has no earlier config to restore.
    for left in ["}", "\n}", "\n  ]\n}"] {
        let whole = scene.read(path);
        overwrite(&scene, path, &format!("{whole}{left}"));
        crate::scene::open(scene.root()).team(&scene.team).await.unwrap();
        assert_eq!(scene.read(path), whole);
    }
    let longer = format!("{} {{}}", scene.read(path));
    overwrite(&scene, path, &longer);
    scene.backend.team(&scene.team).await.unwrap_err();
    assert_eq!(scene.read(path), longer, "what else stands behind it is for a person to look at");
    overwrite(&scene, path, "{\"name\": \"pro");
    scene.backend.team(&scene.team).await.unwrap_err();
    assert_eq!(scene.read(path), "{\"name\": \"pro", "what is torn is for a person to look at");
}

#[tokio::test]
async fn a_store_that_only_reads_leaves_an_empty_config_as_it_is() {
    let scene = Scene::new().await;
    let path = "teams/probe/config.json";
    describe(&scene, "before").await;
    let reader = crate::scene::open(scene.root()).putting_back_when_asked();
    reader.team(&scene.team).await.unwrap();
    overwrite(&scene, path, "");
    reader.team(&scene.team).await.unwrap_err();
    assert_eq!(scene.read(path), "", "a read wrote the file");
    describe(&scene, "since").await;
    reader.team(&scene.team).await.unwrap();
}

#[tokio::test]
async fn who_watches_a_team_writes_its_newest_config_over_an_empty_one() {
    let scene = Scene::new().await;
    let path = "teams/probe/config.json";
    describe(&scene, "old").await;
    let mut watch = scene.backend.watch(&scene.team).await.unwrap();
    let other = crate::scene::open(scene.root());
    let edit = |config: &mut pitcrew_protocol::TeamConfig| {
        config.description = Some("newest".into());
        Ok(())
    };
    other.edit_team(&scene.team, Arc::new(edit)).await.unwrap();
    told(&mut watch, &Change::Config).await;
    overwrite(&scene, path, "");
    let restored = scene.backend.team(&scene.team).await.unwrap();
    assert_eq!(restored.description.as_deref(), Some("newest"));
}
