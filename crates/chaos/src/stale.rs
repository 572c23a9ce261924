//! Runs with stale writes. `pitcrew send` and `pitcrew task` change files. At the same time, a
//! program that takes no lock undoes these changes again and again, by writing older contents back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::oracle::Finding;
use crate::plan::{Plan, StaleWrites};
use crate::stage::{Stage, TEAM, files};
use crate::writers::{Writer, WriterLog, Written, find_id, members};

/// The number of threads that run `pitcrew send` at the same time.
const SENDERS: u64 = 4;

/// The number of tasks whose fields are updated.
const TASKS: u64 = 5;

/// The maximum time between reading a file and writing it back, in milliseconds.
const HELD_MS: u64 = 120;

/// A change that a command has made to one field of a task.
#[derive(Clone, Debug)]
pub struct Updated {
    task: String,
    /// The place of the field in the task's file, as a JSON pointer.
    pointer: &'static str,
    value: Value,
}

/// Runs the commands and the stale writers of a run with stale writes, and records the results.
#[derive(Debug, Default)]
pub struct Commands {
    sent: AtomicU64,
    updated_count: AtomicU64,
    written_back: AtomicU64,
    running: AtomicUsize,
    has_begun: AtomicBool,
    updated: Mutex<Vec<Updated>>,
    refused: Mutex<Vec<String>>,
}

impl Commands {
    /// Starts all commands and stale writers of the run. Does nothing if the plan has no stale
    /// writes.
    pub fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, run: Run<'scope>) {
        let Some(wanted) = run.plan.stale else { return };
        self.has_begun.store(true, Ordering::SeqCst);
        let inboxes = wanted.writes / 2;
        self.running.store(usize::try_from(SENDERS).unwrap_or(4) + 3, Ordering::SeqCst);
        for nth in 0..SENDERS {
            self.spawn(scope, move || self.send(run, nth, wanted));
        }
        self.spawn(scope, move || self.update(run, wanted));
        self.spawn(scope, move || self.write_back(run, wanted, inboxes, Target::Inboxes));
        self.spawn(scope, move || {
            self.write_back(run, wanted, wanted.writes - inboxes, Target::Tasks)
        });
    }

    fn spawn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() + Send + 'scope,
    ) {
        scope.spawn(move || {
            work();
            self.running.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// Returns true if all commands and all stale writers have finished.
    #[must_use]
    pub fn are_done(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0
    }

    /// Returns a text with the numbers of writes. Returns `None` if the plan has no stale writes.
    #[must_use]
    pub fn figures(&self) -> Option<String> {
        let count = |number: &AtomicU64| number.load(Ordering::SeqCst);
        let (sent, updated) = (count(&self.sent), count(&self.updated_count));
        let text = format!(
            "{sent} messages, {updated} task updates, {} stale writes",
            count(&self.written_back)
        );
        self.has_begun.load(Ordering::SeqCst).then_some(text)
    }

    /// Returns a finding for each command that was refused, and for each task update that is
    /// missing in the file of the task.
    #[must_use]
    pub fn judge(&self, stage: &Stage) -> Vec<Finding> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut findings: Vec<Finding> =
            refused.into_iter().map(|text| Finding::new("a command was refused", text)).collect();
        let mut last: BTreeMap<(String, &str), Value> = BTreeMap::new();
        for Updated { task, pointer, value } in
            self.updated.lock().unwrap_or_else(PoisonError::into_inner).iter()
        {
            last.insert((task.clone(), pointer), value.clone());
        }
        for ((task, pointer), value) in last {
            let path = stage.tasks().join(format!("{task}.json"));
            let text = fs::read_to_string(path).unwrap_or_default();
            let found: Value = serde_json::from_str(&text).unwrap_or_default();
            // The status may differ from the update, because the lead completes every task at the
            // end.
            let is_completed = pointer == "/status" && found["status"] == "completed";
            if found.pointer(pointer) != Some(&value) && !is_completed {
                let text = format!("{pointer} of task {task} is not {value}: {found}");
                findings.push(Finding::new("an update is lost", text));
            }
        }
        findings
    }

    /// Runs a command that must succeed, and returns its JSON result.
    fn command(&self, run: Run<'_>, args: &[&str]) -> Option<Value> {
        let output = run.stage.pitcrew(args).args(["--team", TEAM, "--json"]).output().ok()?;
        if output.status.success() {
            return Some(serde_json::from_slice(&output.stdout).unwrap_or_default());
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        self.refuse(format!("{args:?}: {}", said.trim()));
        None
    }

    fn refuse(&self, text: String) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn send(&self, run: Run<'_>, nth: u64, wanted: StaleWrites) {
        let mut chance = Chance::of(run.plan.seed, &format!("sender {nth}"));
        let Some(names) = run.everybody() else { return };
        for number in (0..wanted.messages).filter(|number| number % SENDERS == nth) {
            let Some(to) = chance.pick(&names).filter(|_| !run.is_over()) else { return };
            let token = format!("[[Cli>{to}:w:{number}]]");
            let text = format!("from outside {token}");
            if let Some(answer) = self.command(run, &["send", to, &text]) {
                let id = find_id(&answer);
                run.desk.add(Written {
                    writer: Writer::Cli,
                    token,
                    to: to.clone(),
                    id,
                    is_claimed: false,
                });
            }
            self.sent.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn update(&self, run: Run<'_>, wanted: StaleWrites) {
        if run.everybody().is_none() {
            return;
        }
        let made = (0..TASKS)
            .filter_map(|nth| self.command(run, &["task", "create", &format!("updated {nth}")]));
        let ids: Vec<String> = made.filter_map(|answer| find_id(&answer)).collect();
        if ids.is_empty() {
            self.refuse("no task could be made".to_owned());
        }
        for (number, id) in (0..wanted.updates).zip(ids.iter().cycle()) {
            if !self.has_come_to(run, number, wanted.updates, wanted.messages) {
                return;
            }
            let text = format!("text {number}");
            let round = format!("round={number}");
            let changes = |pointer, value| Updated { task: id.clone(), pointer, value };
            // The first round claims each task. Each later round updates one field of each task:
            // the metadata, the description or the subject.
            let (args, updated): (Vec<&str>, Vec<Updated>) = match number / TASKS {
                0 => (
                    vec!["task", "claim", id, "--as", "team-lead"],
                    vec![
                        changes("/owner", json!("team-lead")),
                        changes("/status", json!("in_progress")),
                    ],
                ),
                nth if nth % 3 == 1 => (
                    vec!["task", "update", id, "--metadata", &round],
                    vec![changes("/metadata/round", json!(number))],
                ),
                nth if nth % 3 == 2 => (
                    vec!["task", "update", id, "--description", &text],
                    vec![changes("/description", json!(text))],
                ),
                _ => (
                    vec!["task", "update", id, "--subject", &text],
                    vec![changes("/subject", json!(text))],
                ),
            };
            if self.command(run, &args).is_some() {
                self.updated.lock().unwrap_or_else(PoisonError::into_inner).extend(updated);
            }
            self.updated_count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn write_back(&self, run: Run<'_>, wanted: StaleWrites, count: u64, target: Target) {
        let mut chance = Chance::of(run.plan.seed, &format!("stale {target:?}"));
        if run.everybody().is_none() {
            return;
        }
        let mut done = 0;
        while done < count {
            if !self.has_come_to(run, done, count, wanted.messages) {
                return;
            }
            let paths = target.files(run.stage);
            let Some(path) = chance.pick(&paths) else {
                thread::park_timeout(Duration::from_millis(5));
                continue;
            };
            if write_older(path, Duration::from_millis(chance.between(5, HELD_MS))).is_some() {
                self.written_back.fetch_add(1, Ordering::SeqCst);
                done += 1;
            }
        }
    }

    /// Waits until it is the turn of write number `nth`, so that the writes are spread over the
    /// whole run. For example, half of all messages must have been sent before half of the `of`
    /// writes are made. Returns false if the run has ended.
    fn has_come_to(&self, run: Run<'_>, nth: u64, of: u64, messages: u64) -> bool {
        while self.sent.load(Ordering::SeqCst) * of < nth * messages {
            if run.is_over() {
                return false;
            }
            thread::park_timeout(Duration::from_millis(2));
        }
        !run.is_over()
    }
}

/// What the commands and the stale writers need to know about the run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The environment of the run: its folders and processes.
    pub stage: &'a Stage,
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The record of the messages and tasks that other programs write.
    pub desk: &'a WriterLog,
}

impl Run<'_> {
    fn is_over(self) -> bool {
        self.desk.is_stopped()
    }

    /// Waits until all members are in the team, and returns their names. Returns `None` if the run
    /// ends before that.
    fn everybody(self) -> Option<Vec<String>> {
        loop {
            let names = members(self.stage);
            if names.len() > self.plan.workers.len() {
                return Some(names);
            }
            if self.is_over() {
                return None;
            }
            thread::park_timeout(Duration::from_millis(20));
        }
    }
}

/// Which files a stale writer writes back: inboxes or tasks.
#[derive(Clone, Copy, Debug)]
enum Target {
    Inboxes,
    Tasks,
}

impl Target {
    fn files(self, stage: &Stage) -> Vec<PathBuf> {
        let folder = match self {
            Self::Inboxes => stage.team().join("inboxes"),
            Self::Tasks => stage.root().join("tasks").join(TEAM),
        };
        files(&folder)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect()
    }
}

/// Reads a file, waits for `held`, and writes the old content back. It writes in place and takes no
/// lock.
fn write_older(path: &Path, held: Duration) -> Option<()> {
    let text = fs::read_to_string(path).ok()?;
    // If the file was read in the middle of a write, its content is not JSON. Skip the file,
    // because a real client would not write such content back.
    serde_json::from_str::<Value>(&text).ok()?;
    thread::park_timeout(held);
    if !path.exists() {
        return None;
    }
    fs::write(path, text).ok()
}
