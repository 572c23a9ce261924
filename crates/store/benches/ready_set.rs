//! Measures the query for the ready tasks among 10,000 tasks. A new store must read the tasks from
//! disk; the promise is less than 60 ms. With a warm cache, the promise is less than 1 ms.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends when it cannot work"
)]

use pitcrew_store::NewTeam;
use std::time::{Duration, Instant};

use pitcrew_protocol::{TaskGraph, TeamConfig, TeamDir};
use pitcrew_store::{FileBackend, FileOptions, TaskStore, TeamStore};

const TASKS: usize = 10_000;
const ROUNDS: usize = 21;

fn fill(root: &std::path::Path) {
    let dir = root.join("tasks/bench");
    for n in 1..=TASKS {
        let blocked_by = if n % 10 == 1 { vec![] } else { vec![(n - 1).to_string()] };
        let blocks = if n % 10 == 0 { vec![] } else { vec![(n + 1).to_string()] };
        let status = if n % 20 < 5 { "completed" } else { "pending" };
        let task = serde_json::json!({
            "id": n.to_string(), "subject": format!("Task {n}"), "description": "what is to be done. ".repeat(10),
            "activeForm": format!("Doing task {n}"), "status": status, "blocks": blocks, "blockedBy": blocked_by,
        });
        std::fs::write(dir.join(format!("{n}.json")), serde_json::to_vec_pretty(&task).unwrap())
            .unwrap();
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    *times.get(times.len() / 2).unwrap()
}

#[tokio::main]
async fn main() {
    let root = tempfile::tempdir_in(".").unwrap();
    let config: TeamConfig = serde_json::from_str(
        r#"{"name": "bench", "members": [{"name": "team-lead", "tmuxPaneId": ""}]}"#,
    )
    .unwrap();
    let team = TeamDir::of("bench");
    FileBackend::open(root.path(), FileOptions::default())
        .create_team(&config, &NewTeam::default())
        .await
        .unwrap();
    fill(root.path());
    let (mut cold, mut warm, mut asked, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let backend = FileBackend::open(root.path(), FileOptions::default());
        let started = Instant::now();
        let tasks = backend.tasks(&team).await.unwrap();
        let graph = TaskGraph::of(tasks.iter());
        count = graph.ready().len();
        cold.push(started.elapsed());
        // Measures the time that an agent needs if it keeps its task graph in memory. The agent
        // checks once whether tasks have changed, and then asks the graph once for the ready tasks.
        let started = Instant::now();
        let again = backend.tasks(&team).await.unwrap();
        assert_eq!(graph.ready().len(), count);
        warm.push(started.elapsed());
        let started = Instant::now();
        assert_eq!(pitcrew_protocol::ready(&again).len(), count);
        asked.push(started.elapsed());
    }
    println!("{TASKS} tasks, {count} ready; medians of {ROUNDS} rounds");
    println!("from disk             {:>10.1?}   (promised: under 60 ms)", median(&mut cold));
    println!("warm                  {:>10.1?}   (promised: under 1 ms)", median(&mut warm));
    println!("graph built anew      {:>10.1?}", median(&mut asked));
}
