//! Noticing that a writer without a lock has overwritten what we wrote, from an older reading; and what to write again.
//!
//! Source: wire format, "Locks": the reference client writes `config.json` with no lock at all, and updates tasks without
//! the list's. Two things tell such a write from a later change that is meant. It changes our file in place, where every
//! pitcrew renames a new one over it. And it comes within moments of ours, since its reading is older than our writing.
//! So each store remembers its own latest writes for a while, and looks again when it next meets the file: right after
//! the write, when it reads or changes the file, and when the watcher tells of it.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pitcrew_protocol::{Message, Task};
use serde_json::{Map, Value};

use super::disk::Stamp;
use crate::TeamEdit;

/// How long own writes are remembered.
const REMEMBERED: Duration = Duration::from_secs(10);

/// How long after our write another one may come from a reading before it. Far more than a reading and a writing take,
/// and less than it takes anybody to answer what we wrote.
const OVERTAKEN_WITHIN: Duration = Duration::from_secs(2);

/// How many writes are remembered of one file; the oldest go first. A sender in a hurry makes some hundred a second, and
/// only those of the last moments can be lost.
const WRITES_A_FILE: usize = 256;

/// From so many files on, those not written lately are forgotten.
const FILES: usize = 256;

/// Something we wrote.
#[derive(Clone)]
pub(crate) enum Write {
    /// A change to a config.
    Config(TeamEdit),
    /// A message of an inbox.
    Mail(Box<Message>),
    /// A task, as it was (`None` when it was new) and as it became.
    Task(Box<(Option<Task>, Task)>),
    /// A task's removal.
    NoTask,
}

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Config(_) => "Config",
            Self::Mail(_) => "Mail",
            Self::Task(_) => "Task",
            Self::NoTask => "NoTask",
        })
    }
}

/// The latest writes of one store, by file.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    files: Mutex<HashMap<PathBuf, Writes>>,
}

#[derive(Debug)]
struct Writes {
    /// The file as we left it; `None` when we removed it.
    stamp: Option<Stamp>,
    at: Instant,
    writes: VecDeque<(Instant, Write)>,
}

impl Recent {
    /// Remembers what was written, and the file's stamp after it.
    pub(crate) fn note(&self, path: &Path, stamp: Option<Stamp>, writes: impl IntoIterator<Item = Write>) {
        let now = Instant::now();
        let mut files = self.files();
        if files.len() > FILES {
            files.retain(|_, file| file.at.elapsed() < REMEMBERED);
        }
        let file = files.entry(path.to_owned()).or_insert_with(|| Writes { stamp, at: now, writes: VecDeque::new() });
        file.stamp = stamp;
        file.at = now;
        file.writes.extend(writes.into_iter().map(|w| (now, w)));
        let surplus = file.writes.len().saturating_sub(WRITES_A_FILE);
        file.writes.drain(..surplus);
        while file.writes.front().is_some_and(|(at, _)| at.elapsed() > REMEMBERED) {
            file.writes.pop_front();
        }
    }

    /// Whether the file is as we left it.
    pub(crate) fn is_ours(&self, path: &Path, stamp: &Stamp) -> bool {
        self.files().get(path).is_some_and(|file| file.stamp.as_ref() == Some(stamp))
    }

    /// Whether anything is remembered of the file.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.files().get(path).is_some_and(|file| file.at.elapsed() < REMEMBERED)
    }

    /// The remembered files right below a folder.
    pub(crate) fn known_in(&self, folder: &Path) -> Vec<PathBuf> {
        let files = self.files();
        let known = files.iter().filter(|(path, file)| path.parent() == Some(folder) && file.at.elapsed() < REMEMBERED);
        known.map(|(path, _)| path.clone()).collect()
    }

    /// Our writes that the file's present state may lack.
    pub(crate) fn suspects(&self, path: &Path, now: &Stamp) -> Vec<Write> {
        let files = self.files();
        let Some(file) = files.get(path) else { return Vec::new() };
        if file.at.elapsed() > REMEMBERED {
            return Vec::new();
        }
        let is_overtaken = match &file.stamp {
            None => true,
            Some(ours) => {
                let later_ns = now.mtime_ns - ours.mtime_ns;
                let within_ns = i128::try_from(OVERTAKEN_WITHIN.as_nanos()).unwrap_or(0);
                ours != now && ours.is_same_file(now) && later_ns <= within_ns
            }
        };
        if !is_overtaken {
            return Vec::new();
        }
        file.writes.iter().filter(|(at, _)| at.elapsed() < REMEMBERED).map(|(_, write)| write.clone()).collect()
    }

    /// Remembers that the file, in this state, holds all that we wrote.
    pub(crate) fn settle(&self, path: &Path, stamp: Stamp) {
        if let Some(file) = self.files().get_mut(path) {
            file.stamp = Some(stamp);
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Writes>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts back what `before` to `after` changed into `now`, if all of it was undone; whether it did.
///
/// What others changed in other fields stays. A field that has a third value was changed on purpose since.
pub(crate) fn merge_task(before: Option<&Task>, after: &Task, now: &mut Task) -> bool {
    let as_map = |task: &Task| match serde_json::to_value(task) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    };
    let Some(before) = before.map(as_map) else { return false };
    let (after, mut merged) = (as_map(after), as_map(now));
    let keys: Vec<&String> =
        before.keys().chain(after.keys()).filter(|key| before.get(*key) != after.get(*key)).collect();
    if keys.is_empty() || keys.iter().any(|key| merged.get(*key) != before.get(*key)) {
        return false;
    }
    for key in keys {
        match after.get(key) {
            Some(value) => merged.insert(key.clone(), value.clone()),
            None => merged.remove(key),
        };
    }
    match serde_json::from_value(Value::Object(merged)) {
        Ok(task) => {
            *now = task;
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(status: &str, owner: Option<&str>, subject: &str) -> Task {
        let mut value = serde_json::json!({"id": "1", "subject": subject, "description": "d", "status": status,
            "blocks": [], "blockedBy": []});
        if let Some(owner) = owner {
            value["owner"] = owner.into();
        }
        serde_json::from_value(value).unwrap()
    }

    fn stamp(ino: u64, mtime_ms: i128) -> Stamp {
        Stamp { dev: 1, ino, size: 5, mtime_ns: mtime_ms * 1_000_000, born_ns: Some(1) }
    }

    #[test]
    fn only_a_quick_change_in_place_is_suspect() {
        let recent = Recent::default();
        let path = Path::new("1.json");
        recent.note(path, Some(stamp(7, 1000)), [Write::Task(Box::new((None, task("pending", None, "s"))))]);
        for (now, is_suspect) in
            [(stamp(7, 1000), false), (stamp(7, 1500), true), (stamp(7, 3001), false), (stamp(8, 1500), false)]
        {
            assert_eq!(!recent.suspects(path, &now).is_empty(), is_suspect, "{now:?}");
        }
        let renamed_over = Stamp { born_ns: Some(2), ..stamp(7, 1500) };
        assert!(recent.suspects(path, &renamed_over).is_empty(), "another file got the number of the one replaced");
        recent.settle(path, stamp(7, 1500));
        assert!(recent.suspects(path, &stamp(7, 1500)).is_empty());
    }

    #[test]
    fn a_lost_claim_is_put_back_beside_what_the_other_wrote() {
        let (before, after) = (task("pending", None, "s"), task("in_progress", Some("bob"), "s"));
        let mut now = task("pending", None, "a better subject");
        assert!(merge_task(Some(&before), &after, &mut now));
        assert_eq!(now, task("in_progress", Some("bob"), "a better subject"));
        assert!(!merge_task(Some(&before), &after, &mut now), "nothing is lost any more");
    }

    #[test]
    fn a_field_that_has_a_third_value_was_meant() {
        let (before, after) = (task("pending", None, "s"), task("in_progress", Some("bob"), "s"));
        let mut now = task("completed", Some("bob"), "s");
        assert!(!merge_task(Some(&before), &after, &mut now));
    }
}
