//! A process is killed (SIGKILL) at every write of every operation, on real files. The next process
//! continues. No data is lost, and no data exists twice. The killed process is this test binary,
//! which gets its job in an environment variable.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pitcrew_protocol::{ErrorCode, MessageId};
use pitcrew_store::{Damage, Durability, FileBackend, FileOptions};
use pitcrew_team::{Actor, Team, Teams};
use serde::{Deserialize, Serialize};

use crate::crash::{STEPS, outcome, step};
use crate::team_env::{Crew, StillClock, create, limits, member, message, name, task};

const VARIABLE: &str = "PITCREW_TEAM_TEST_JOB";

/// The number of the signal SIGKILL. The exit status of a killed process contains this number.
const KILLED: i32 = 9;

/// An upper limit for the number of crash points. Every operation has far fewer crash points.
const POINTS: u64 = 500;

/// The time of the clock when a test starts, in milliseconds since 1970. The process that continues
/// starts one minute later.
const MORNING_MS: i64 = 1_795_175_309_433;
const MINUTE_MS: i64 = 60_000;

/// The job of the process that is killed.
#[derive(Serialize, Deserialize)]
struct Job {
    root: PathBuf,
    work: Work,
    crash_at: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Work {
    /// One step of the sequence in the module `crash`.
    Step(usize),
    Create,
    Delete,
}

fn backend(root: &Path, crash_at: Option<u64>) -> FileBackend {
    // When a process is killed, the operating system keeps the data that the process has already
    // written. The test therefore does not need to flush the data to disk.
    FileBackend::open(root, FileOptions { crash_at, ..FileOptions::new(Durability::Process) })
}

fn teams(backend: FileBackend, now_ms: i64) -> Teams {
    Teams::new(Arc::new(backend), limits(), Arc::new(StillClock::at(now_ms)))
}

impl Work {
    async fn on(self, teams: &Teams) {
        match self {
            Self::Step(n) => step(&teams.open("probe").await.unwrap(), n).await.unwrap(),
            Self::Create => drop(teams.create(create("probe")).await.unwrap()),
            Self::Delete => {
                let team = teams.open("probe").await.unwrap();
                assert!(team.delete(&Actor::Lead).await.unwrap().success);
            }
        }
    }

    /// Runs the operation in a separate process, which is killed at the point `crash_at`. Returns
    /// true if the process was killed.
    fn dies(self, root: &Path, crash_at: u64) -> bool {
        let job = Job { root: root.to_owned(), work: self, crash_at };
        let done: Output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::a_process_does_its_job", "--nocapture"])
            .env(VARIABLE, serde_json::to_string(&job).unwrap())
            .output()
            .unwrap();
        if done.status.success() {
            return false;
        }
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.signal(), Some(KILLED), "{self:?} at {crash_at}: {said}");
        age_locks(root);
        true
    }
}

/// Runs the job that the environment variable contains. If the variable is not set, runs the create
/// and delete jobs in a temporary root, so that these jobs are also tested without a crash.
#[tokio::test]
async fn a_process_does_its_job() {
    if let Ok(job) = std::env::var(VARIABLE) {
        let job: Job = serde_json::from_str(&job).unwrap();
        job.work.on(&teams(backend(&job.root, Some(job.crash_at)), MORNING_MS)).await;
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let teams = teams(backend(root.path(), None), MORNING_MS);
    Work::Create.on(&teams).await;
    Work::Delete.on(&teams).await;
    assert_eq!(teams.list().await.unwrap(), []);
}

/// Makes the locks of a dead process old enough to count as abandoned, so that the tests do not
/// need to wait.
fn age_locks(dir: &Path) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let is_lock = path.extension().is_some_and(|end| end == "lock");
        if is_lock && path.is_dir() {
            fs::File::open(&path)
                .unwrap()
                .set_modified(SystemTime::now() - Duration::from_secs(11))
                .unwrap();
        } else if path.is_dir() {
            age_locks(&path);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        if path.is_dir() {
            fs::create_dir(to.join(&name)).unwrap();
            copy(&path, &to.join(&name));
        } else {
            fs::copy(&path, to.join(&name)).unwrap();
        }
    }
}

fn copied(from: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    copy(from, root.path());
    root
}

async fn opened(root: &Path) -> Team {
    teams(backend(root, None), MORNING_MS + MINUTE_MS).open("probe").await.unwrap()
}

/// Continues after a crash in step `n`, as a resumed run does: it completes the interrupted
/// operations and repeats the call.
async fn carry_on(team: &Team, n: usize) {
    team.finish_removals().await.unwrap();
    team.finish_answers().await.unwrap();
    team.finish_assignments().await.unwrap();
    match step(team, n).await {
        Err(error) if n == STEPS - 1 => {
            assert_eq!(error.code, ErrorCode::AgentNotFound, "it was removed already")
        }
        again => again.unwrap(),
    }
}

/// Kills a process at each crash point of the steps that `steps` selects. The other steps run
/// without a crash.
async fn sweep(steps: impl Fn(usize) -> bool) {
    let day = tempfile::tempdir().unwrap();
    Crew::on(Arc::new(backend(day.path(), None)), limits()).await;
    for n in 0..STEPS {
        let morning = copied(day.path());
        step(&opened(day.path()).await, n).await.unwrap();
        if !steps(n) {
            continue;
        }
        let expected = outcome(&opened(day.path()).await).await;
        for point in 1..POINTS {
            let root = copied(morning.path());
            let died = Work::Step(n).dies(root.path(), point);
            let team = opened(root.path()).await;
            if died {
                carry_on(&team, n).await;
            }
            assert_eq!(outcome(&team).await, expected, "step {n}, killed at {point}");
            if !died {
                assert!(point > 3, "step {n} has only {point} points");
                break;
            }
        }
    }
}

// The crash points are divided among several tests, which run at the same time.

#[tokio::test]
async fn tasks_made_ordered_and_claimed_by_a_killed_process_are_there_once() {
    sweep(|n| n < 4).await;
}

#[tokio::test]
async fn mail_of_a_killed_sender_is_there_once() {
    sweep(|n| (4..7).contains(&n)).await;
}

#[tokio::test]
async fn a_killed_handshake_is_finished_once() {
    sweep(|n| (7..12).contains(&n)).await;
}

#[tokio::test]
async fn what_a_killed_process_took_completed_and_gave_away_stays_so() {
    sweep(|n| (12..15).contains(&n)).await;
}

#[tokio::test]
async fn a_killed_spawn_or_removal_is_finished_once() {
    sweep(|n| n >= 15).await;
}

#[tokio::test]
async fn a_killed_creation_of_a_team_can_be_repeated() {
    for point in 1..POINTS {
        let root = tempfile::tempdir().unwrap();
        let died = Work::Create.dies(root.path(), point);
        let teams = teams(backend(root.path(), None), MORNING_MS + MINUTE_MS);
        if teams.list().await.unwrap().is_empty() {
            assert!(died);
            Work::Create.on(&teams).await;
        }
        let list = teams.list().await.unwrap();
        assert_eq!(
            list.iter().map(|t| (t.name.as_str(), t.problem.is_some())).collect::<Vec<_>>(),
            [("probe", false)]
        );
        let team = teams.open("probe").await.unwrap();
        team.spawn(member("worker")).await.unwrap();
        team.create_task(&Actor::Lead, task("build"), None).await.unwrap();
        team.send(&Actor::Lead, message("worker", "hello"), None).await.unwrap();
        assert_eq!(team.unread(&name("worker")).await.unwrap().len(), 1);
        if !died {
            assert!(point > 5);
            return;
        }
    }
    panic!("a creation has no end");
}

/// Creates a team with a task. Both teammates have left the team. One of them got a message before
/// it left. Returns the id of this message.
async fn deserted(root: &Path) -> MessageId {
    let crew = Crew::on(Arc::new(backend(root, None)), limits()).await;
    crew.team.create_task(&Actor::Lead, task("build"), None).await.unwrap();
    let id = crew.send(&Actor::Lead, message("worker", "hello")).await.receipts[0].id.clone();
    for gone in ["worker", "planner"] {
        crew.team.remove_member(&Actor::Lead, &name(gone)).await.unwrap();
    }
    id
}

/// Counts the files below `dir` whose path ends with `end`.
fn count(dir: &Path, end: &str) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .map(|entry| entry.unwrap().path())
        .map(
            |path| if path.is_dir() { count(&path, end) } else { usize::from(path.ends_with(end)) },
        )
        .sum()
}

#[tokio::test]
async fn a_killed_deletion_of_a_team_is_finished_and_its_evidence_kept_once() {
    let before = tempfile::tempdir().unwrap();
    let id = deserted(before.path()).await;
    for point in 1..POINTS {
        let root = copied(before.path());
        let died = Work::Delete.dies(root.path(), point);
        let files = backend(root.path(), None);
        let teams = teams(files.clone(), MORNING_MS + MINUTE_MS);
        assert_eq!(teams.message(&id).await.unwrap().team, "probe", "killed at {point}");
        if !teams.list().await.unwrap().is_empty() {
            assert!(died);
            assert_eq!(opened(root.path()).await.tasks().await.unwrap().len(), 1);
            Work::Delete.on(&teams).await;
        }
        // The test copied these files. The umask decides the permissions of the copies, so the
        // permissions may be too open. The crash did not cause this, so the test ignores it.
        for leaving in
            files.look().found.into_iter().filter(|found| !matches!(found, Damage::TooOpen { .. }))
        {
            assert!(died && matches!(leaving, Damage::HalfArchived { .. }), "{leaving:?}");
            let _mended = files.repair(&leaving, &mut files.keep()).unwrap();
        }
        let archive = root.path().join("pitcrew/archive");
        for (file, times) in
            [("tasks/1.json", 1), ("pitcrew/journal.ndjson", 1), ("inboxes/worker.json", 1)]
        {
            assert_eq!(count(root.path(), file), times, "{file}, killed at {point}");
            assert_eq!(count(&archive, file), times, "{file}, killed at {point}");
        }
        assert!(teams.message(&id).await.unwrap().team_deleted_at.is_some());
        let (team, _) = teams.create(create("probe")).await.unwrap();
        assert_eq!(team.tasks().await.unwrap().len(), 0);
        if !died {
            assert!(point > 3);
            return;
        }
    }
    panic!("a deletion has no end");
}
