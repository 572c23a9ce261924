//! A writer that holds no lock overwrites what we wrote, from an older reading: it is noticed, and written again.

use std::fs::{self, File};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_protocol::TaskStatus;
use pitcrew_store::{Backend as _, Change};

use crate::scene::{Scene, id, told};

/// Writes as the reference does: in place, and a moment after the file was written last. By the clock of a busy machine that
/// may be long ago; so the file is told another time, before it is closed and anybody looks.
fn overwrite(scene: &Scene, below: &str, text: &str) {
    let path = scene.path(below);
    let last = fs::metadata(&path).map_or_else(|_| std::time::SystemTime::now(), |there| there.modified().unwrap());
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
    overwrite(&scene, "tasks/probe/1.json", &older.replace("\"subject\": \"s\"", "\"subject\": \"theirs\""));
    let task = scene.backend.tasks(&scene.team).await.unwrap()[0].clone();
    assert_eq!((task.owner.as_deref(), task.subject.as_str()), (Some("bob"), "theirs"));
    assert!(scene.read("tasks/probe/1.json").contains("bob"));
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

#[tokio::test]
async fn a_lost_message_is_sent_again() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let older = fs::read_to_string(scene.inbox_path()).unwrap();
    scene.send("m2").await;
    overwrite(&scene, "teams/probe/inboxes/worker.json", &older.replace("this is m1", "theirs"));
    assert_eq!(scene.ids().await, ["m1", "m2"]);
    assert!(fs::read_to_string(scene.inbox_path()).unwrap().contains("theirs"));
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
    assert_eq!(scene.backend.team(&scene.team).await.unwrap().description.as_deref(), Some("theirs"));
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
    overwrite(&scene, path, "{\"name\": \"pro");
    scene.backend.team(&scene.team).await.unwrap_err();
    assert_eq!(scene.read(path), "{\"name\": \"pro", "what is torn is for a person to look at");
}
