//! Tests in which programs without a lock write old content back again and again, while pitcrew's
//! stores also write. No change that a store made may be lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use pitcrew_store::{FileBackend, MailStore, TaskStore, TaskTable, TeamStore, UnreadLimit};
use serde_json::Value;

use crate::scene::{Scene, id, message, open, worker};

/// Number of times that each stale writer writes old content back.
const STALE_WRITES: usize = 150;

/// Minimum number of messages from each of the two senders. The senders continue until the stale
/// writers have finished.
const MESSAGES: usize = 100;

/// Acts as another program that writes without a lock: reads the file, waits until the file
/// changes, and writes the old content back in place.
struct StaleWriter {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    thread: thread::JoinHandle<()>,
}

impl StaleWriter {
    fn start(path: PathBuf) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&done));
        let work = move || {
            while count.load(Ordering::SeqCst) < STALE_WRITES && !stopped.load(Ordering::SeqCst) {
                let Some((reading, at)) = reading(&path) else { continue };
                while changed_at(&path) == at && !stopped.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                fs::write(&path, reading).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        Self { stop, done, thread: thread::spawn(work) }
    }

    fn is_through(&self) -> bool {
        self.done.load(Ordering::SeqCst) >= STALE_WRITES
    }

    /// Stops the writer and returns how many times it wrote.
    fn end(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        self.done.load(Ordering::SeqCst)
    }
}

/// Reads the file like a program that accepts only complete files. Returns the text and the
/// modification time, or `None` if the file is incomplete.
fn reading(path: &Path) -> Option<(String, Option<SystemTime>)> {
    let at = changed_at(path);
    let text = fs::read_to_string(path).ok()?;
    serde_json::from_str::<Value>(&text).ok()?;
    Some((text, at))
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_doubled_or_out_of_order_under_stale_writes() {
    let scene = Scene::new().await;
    let join = |config: &mut pitcrew_protocol::TeamConfig| {
        if config.member("worker").is_none() {
            config
                .members
                .push(serde_json::from_str(r#"{"name": "worker", "pitcrew": {}}"#).unwrap());
        }
        Ok(())
    };
    scene.backend.edit_team(&scene.team, Arc::new(join)).await.unwrap();
    scene.send("before").await;
    let writers = [StaleWriter::start(scene.inbox_path()), StaleWriter::start(scene.inbox_path())];
    let mut sent = 0;
    while sent < MESSAGES || !writers.iter().all(StaleWriter::is_through) {
        // Each round opens two new stores, like two processes that each send one message.
        let (ann, bob) = (open(scene.root()), open(scene.root()));
        let to = worker();
        let (ann_id, bob_id) = (format!("ann-{sent}"), format!("bob-{sent}"));
        let both = tokio::join!(
            ann.append(&scene.team, &to, message(&ann_id), UnreadLimit::None),
            bob.append(&scene.team, &to, message(&bob_id), UnreadLimit::None)
        );
        assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
        sent += 1;
    }
    let writes: usize = writers.into_iter().map(StaleWriter::end).sum();
    assert!(writes >= 2 * STALE_WRITES);
    let there = crate::scene::ids(&open(scene.root()), &scene.team).await;
    for sender in ["ann", "bob"] {
        let of_sender: Vec<&String> = there.iter().filter(|id| id.starts_with(sender)).collect();
        let expected: Vec<String> = (0..sent).map(|nth| format!("{sender}-{nth}")).collect();
        assert_eq!(of_sender, expected.iter().collect::<Vec<_>>());
    }
}

/// Adds 1 to the `count` in the task's metadata. Also stores `number` in place of the time of the
/// change, which the crate `team` stores with each update.
async fn number(backend: &FileBackend, scene: &Scene, task: u64, number: u64) {
    let change = move |table: &mut TaskTable| {
        let task = table.tasks.get_mut(&id(task)).unwrap();
        let metadata = task.metadata.get_or_insert_default();
        let counted = metadata.get("count").and_then(Value::as_u64).unwrap_or(0);
        metadata.insert("count".into(), (counted + 1).into());
        metadata.insert("pitcrew".into(), serde_json::json!({"updatedAt": number}));
        Ok(())
    };
    backend.edit_tasks(&scene.team, Box::new(change)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_update_is_lost_under_stale_writes() {
    const TASKS: u64 = 4;
    let scene = Scene::new().await;
    scene.add_tasks(TASKS).await;
    for task in 1..=TASKS {
        number(&scene.backend, &scene, task, 0).await;
    }
    let writers: Vec<StaleWriter> = (1..=TASKS)
        .map(|task| StaleWriter::start(scene.path(&format!("tasks/probe/{task}.json"))))
        .collect();
    let mut updates = 0;
    while updates < 100 || !writers.iter().all(StaleWriter::is_through) {
        updates += 1;
        for task in 1..=TASKS {
            number(&open(scene.root()), &scene, task, updates).await;
        }
    }
    let writes: usize = writers.into_iter().map(StaleWriter::end).sum();
    assert!(u64::try_from(writes).unwrap() >= TASKS * 150);
    for task in open(scene.root()).tasks(&scene.team).await.unwrap().iter() {
        assert_eq!(task.metadata.as_ref().unwrap()["count"], updates + 1, "task {}", task.id);
    }
}
