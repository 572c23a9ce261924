//! Programs that write into the team's files during a run: a client that takes the file lock, a
//! client that ignores the lock, and pitcrew's own commands.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::stage::{Stage, TEAM, files};

/// A kind of program that writes into the team's files from outside the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A client that takes the file lock before it writes.
    Honouring,
    /// A client that writes without the file lock.
    Ignoring,
    /// The command `pitcrew send`.
    Cli,
    /// The commands `pitcrew task create` and `pitcrew task claim`.
    Claims,
}

/// A message or a task that a program outside the run has written successfully.
#[derive(Clone, Debug)]
pub struct Written {
    /// The kind of program that wrote the message or task.
    pub writer: Writer,
    /// The unique token in the text of the message or task.
    pub token: String,
    /// The receiver of the message, or the owner of the task.
    pub to: String,
    /// The id of the message or task, if pitcrew returned one.
    pub id: Option<String>,
    /// True if this entry records that the lead has claimed the task.
    pub is_claimed: bool,
}

/// A record of everything that the outside programs of a run have written, and a flag that tells
/// these programs to stop.
#[derive(Debug, Default)]
pub struct WriterLog {
    stop: AtomicBool,
    numbers: AtomicU64,
    written: Mutex<Vec<Written>>,
}

impl WriterLog {
    /// Tells all writers to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Returns true if the writers must stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Clears the record, because the team that the entries belong to no longer exists.
    pub fn forget(&self) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns everything that was recorded.
    #[must_use]
    pub fn written(&self) -> Vec<Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Acts as one outside program until [`WriterLog::stop`] is called.
    pub fn write(&self, stage: &Stage, writer: Writer, seed: u64) {
        let mut chance = Chance::of(seed, &format!("{writer:?}"));
        while !self.stop.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(chance.between(100, 500)));
            let names = members(stage);
            let Some(to) = chance.pick(&names).cloned() else { continue };
            let number = self.numbers.fetch_add(1, Ordering::SeqCst);
            let token = format!("[[{writer:?}>{to}:w:{number}]]");
            let id = match writer {
                Writer::Cli => send(stage, &to, &token),
                Writer::Claims => {
                    // The subject contains no message token. If it did, a message to the lead with
                    // this subject would look like a second delivery of another message.
                    self.make_and_claim(stage, &format!("claimed {number}"));
                    continue;
                }
                Writer::Honouring => append(stage, &to, &token).map(|()| None),
                Writer::Ignoring => {
                    let pause = Duration::from_millis(chance.between(5, 60));
                    if chance.percent(30) {
                        write_a_task_back(stage, &mut chance, pause);
                        continue;
                    }
                    write_back(stage, &to, &token, pause).map(|()| None)
                }
            };
            if let Some(id) = id {
                self.add(Written { writer, token, to, id, is_claimed: false });
            }
        }
    }

    /// Adds a message or a task to the record.
    pub fn add(&self, written: Written) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }

    /// Creates a task, and claims the task for the lead. Other programs do not claim tasks for the
    /// lead. The check after a power cut therefore knows which tasks must belong to the lead.
    fn make_and_claim(&self, stage: &Stage, subject: &str) {
        let run = |args: &[&str]| {
            let output = stage.pitcrew(args).args(["--team", TEAM, "--json"]).output().ok()?;
            output
                .status
                .success()
                .then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default())
        };
        let Some(id) = run(&["task", "create", subject]).as_ref().and_then(find_id) else { return };
        let written = |is_claimed| Written {
            writer: Writer::Claims,
            token: subject.to_owned(),
            to: "team-lead".to_owned(),
            id: Some(id.clone()),
            is_claimed,
        };
        self.add(written(false));
        if run(&["task", "claim", &id, "--as", "team-lead"]).is_some() {
            self.add(written(true));
        }
    }
}

/// Returns the names of the members in the team's config.
#[must_use]
pub fn members(stage: &Stage) -> Vec<String> {
    let config: Value = read(&stage.team().join("config.json")).unwrap_or_default();
    let members = config["members"].as_array().cloned().unwrap_or_default();
    members.iter().filter_map(|member| member["name"].as_str().map(str::to_owned)).collect()
}

/// Sends a message with `pitcrew send`. Returns `None` if the command failed. Otherwise returns the
/// id of the message, if the output contains an id.
fn send(stage: &Stage, to: &str, token: &str) -> Option<Option<String>> {
    let text = format!("from outside {token}");
    let output = stage.pitcrew(&["send", "--team", TEAM, to, &text, "--json"]).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Some(find_id(&answer))
}

/// Returns the first id of a message or a task in the JSON output of a command.
#[must_use]
pub fn find_id(answer: &Value) -> Option<String> {
    match answer {
        Value::Object(fields) => {
            let own = ["message_id", "taskId", "id"]
                .iter()
                .find_map(|name| fields.get(*name)?.as_str().map(str::to_owned));
            own.or_else(|| fields.values().find_map(find_id))
        }
        Value::Array(items) => items.iter().find_map(find_id),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Adds a message to an inbox. It takes the lock and writes the file in place, as other clients do.
fn append(stage: &Stage, to: &str, token: &str) -> Option<()> {
    let inbox = stage.team().join(format!("inboxes/{to}.json"));
    let lock = stage.team().join(format!("inboxes/{to}.json.lock"));
    if !inbox.exists() {
        return None;
    }
    let tries = (0..200).find(|_| {
        let is_mine = fs::create_dir(&lock).is_ok();
        if !is_mine {
            thread::park_timeout(Duration::from_millis(5));
        }
        is_mine
    });
    tries?;
    let written = read(&inbox).and_then(|messages| write_with(&inbox, messages, "visitor", token));
    // Removing the lock folder fails only if another process has taken the lock over. That does not
    // happen within such a short time.
    let _gone = fs::remove_dir(&lock);
    written
}

/// Reads an inbox, waits, and writes the old content back with one new message. It takes no lock.
fn write_back(stage: &Stage, to: &str, token: &str, pause: Duration) -> Option<()> {
    let inbox = stage.team().join(format!("inboxes/{to}.json"));
    let messages = read(&inbox)?;
    thread::park_timeout(pause);
    if !inbox.exists() {
        return None;
    }
    write_with(&inbox, messages, "stranger", token)
}

fn write_with(inbox: &Path, mut messages: Value, from: &str, token: &str) -> Option<()> {
    let text = format!("from outside {token}");
    let message = json!({"from": from, "text": text, "timestamp": now(), "read": false});
    messages.as_array_mut()?.push(message);
    fs::write(inbox, serde_json::to_string_pretty(&messages).ok()?).ok()
}

/// Reads a task, waits, and writes the old content back unchanged. It takes no lock.
fn write_a_task_back(stage: &Stage, chance: &mut Chance, pause: Duration) {
    let tasks = files(&stage.root().join("tasks").join(TEAM));
    let tasks: Vec<_> = tasks
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    let Some(path) = chance.pick(&tasks) else { return };
    let Ok(text) = fs::read_to_string(path) else { return };
    thread::park_timeout(pause);
    if path.exists() && serde_json::from_str::<Value>(&text).is_ok() {
        // An error is ignored, because the file is then unchanged, and the checks at the end find
        // no difference.
        let _either = fs::write(path, text);
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at =
        jiff::Timestamp::from_millisecond(i64::try_from(since.as_millis()).unwrap_or_default());
    at.map(|at| format!("{at:.3}")).unwrap_or_default()
}
