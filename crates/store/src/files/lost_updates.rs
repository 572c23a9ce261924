//! Decides which of pitcrew's writes are missing in a file, and restores them. This module works on
//! values only and does not access the disk.
//!
//! Source: section "Locks" of the wire format document. The reference client writes `config.json`
//! without any lock, and updates tasks without the lock of the task list. Its write can be based on
//! content that it read before pitcrew's write. In that case its write overwrites pitcrew's write.
//!
//! Such a write must be distinguished from a later, intended change. There are two signs:
//!
//! 1. Each task that pitcrew changes carries the time of the change under `metadata.pitcrew`. No
//!    other client writes this mark. If a file has the time of an earlier change, the writer had
//!    read the file before pitcrew's write. It does not matter when the file was written.
//! 2. A change without such a mark is recognized by two facts: the file was changed in place, and
//!    within moments of pitcrew's write. Pitcrew itself never changes a file in place, because it
//!    renames a new file over the old one.

use std::time::Duration;

use pitcrew_protocol::Task;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::disk::Stamp;

/// If another program changes the file within this time after pitcrew's write, the program possibly
/// read the file before pitcrew's write. A program needs much less than this time to read and write
/// a file. It needs more than this time to read pitcrew's write and to react to it.
const OVERTAKEN_WITHIN: Duration = Duration::from_secs(2);

/// A write of pitcrew counts as overwritten only if the other program's write came within this
/// time. There is one exception: an old mark (`metadata.pitcrew`) in a task proves at any time that
/// the write was overwritten.
const UNDONE_WITHIN: Duration = Duration::from_secs(10);

/// One write of pitcrew to a task file or the config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FieldWrite {
    /// The name of the file.
    pub(crate) file: String,
    /// The stamp (metadata) of the file after the write. `None` in two cases: the file was removed,
    /// or nobody has compared the state of the file with the log.
    pub(crate) stamp: Option<Stamp>,
    /// The changed fields. The list is empty if the write only restored changes of earlier log
    /// lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<FieldChange>,
    /// Whether the file was removed. If so, `fields` lists the fields that identify the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_removed: bool,
}

impl FieldWrite {
    /// Returns a log line without changed fields. The line records that nobody has compared the
    /// present state of the file with the log.
    pub(crate) fn doubt(file: &str) -> Self {
        Self { file: file.to_owned(), stamp: None, fields: Vec::new(), is_removed: false }
    }
}

/// The value of one field before and after a write. A missing field counts as equal to a `null`
/// field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FieldChange {
    /// The path of the field: the keys from the outermost to the innermost. For a member in a
    /// config, the key is the member's name.
    pub(crate) path: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Value>,
}

/// The result of restoring the fields of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The paths of the fields that have pitcrew's value again.
    pub(crate) put_back: Vec<String>,
    /// The paths of the fields that keep the other program's value. That program also changed these
    /// fields.
    pub(crate) kept: Vec<String>,
}

/// Returns the differences between two values. Each difference names the innermost field that
/// differs.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), Some(before), Some(after), &mut found);
    found
}

fn compare(
    path: &mut Vec<String>,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut Vec<FieldChange>,
) {
    let (before, after) = (before.filter(|v| !v.is_null()), after.filter(|v| !v.is_null()));
    if before == after {
        return;
    }
    // When pitcrew changes a task for the first time, it adds a mark below `metadata`. The mark
    // must be recorded as a separate change, so that [`is_mark`] recognizes it.
    let is_split = path.first().is_some_and(|key| key == "metadata") && path.len() <= 2;
    let keys = match (before, after) {
        (Some(before), Some(after)) => keys_of(before).zip(keys_of(after)),
        (None, Some(after)) if is_split => keys_of(after).map(|keys| (Vec::new(), keys)),
        (None, _) | (_, None) => None,
    };
    let Some((mut keys, more)) = keys else {
        return found.push(FieldChange {
            path: path.clone(),
            before: before.cloned(),
            after: after.cloned(),
        });
    };
    keys.extend(
        more.into_iter().filter(|key| before.is_none_or(|before| child(before, key).is_none())),
    );
    for key in keys {
        let (before, after) =
            (before.and_then(|v| child(v, key)), after.and_then(|v| child(v, key)));
        path.push(key.to_owned());
        compare(path, before, after, found);
        path.pop();
    }
}

/// Returns the keys of an object, or the names of the members in an array. Returns `None` for any
/// other value, which is compared as a whole.
fn keys_of(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::Object(map) => Some(map.keys().map(String::as_str).collect()),
        Value::Array(items) if !items.is_empty() => items.iter().map(name_of).collect(),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            None
        }
    }
}

fn name_of(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

fn child<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map.get(key),
        Value::Array(items) => items.iter().find(|item| name_of(item) == Some(key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn get<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| child(value, key)).filter(|value| !value.is_null())
}

/// Sets the field at `path`, or removes it if `field` is `None`. Does nothing if the field belongs
/// to a member that does not exist.
fn set(value: &mut Value, path: &[String], field: Option<&Value>) {
    let Some((key, rest)) = path.split_first() else { return };
    match value {
        Value::Object(map) if rest.is_empty() => match field {
            Some(field) => drop(map.insert(key.clone(), field.clone())),
            None => drop(map.shift_remove(key)),
        },
        Value::Object(map) => {
            if field.is_some() && !map.contains_key(key) {
                map.insert(key.clone(), Value::Object(Map::new()));
            }
            if let Some(inner) = map.get_mut(key) {
                set(inner, rest, field);
            }
        }
        Value::Array(items) => {
            let at = items.iter().position(|item| name_of(item) == Some(key));
            match (at, rest.is_empty(), field) {
                (Some(at), false, _) => {
                    if let Some(item) = items.get_mut(at) {
                        set(item, rest, field);
                    }
                }
                (Some(at), true, _) => {
                    items.remove(at);
                    items.extend(field.cloned());
                }
                (None, true, Some(field)) => items.push(field.clone()),
                (None, _, _) => {}
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether another program changed a file in place shortly after pitcrew's write. `ours` is the
/// stamp that pitcrew's write left, and `now` is the present stamp.
fn is_overtaken(ours: &Stamp, now: &Stamp) -> bool {
    ours != now && ours.is_same_file(now) && now.mtime_ns - ours.mtime_ns <= nanos(OVERTAKEN_WITHIN)
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(0)
}

/// Whether the changed field is pitcrew's mark in a task (`metadata.pitcrew`). If another program
/// writes an old mark, it had read the file before the change.
fn is_mark(change: &FieldChange) -> bool {
    matches!(change.path.as_slice(), [first, second, ..] if first == "metadata" && second == "pitcrew")
}

/// Whether the task has the newest mark (`metadata.pitcrew`) in `writes`. This check is needed
/// because an equal stamp (metadata of the file) is not enough. Another program can write the old
/// content back so soon, and with the same length, that the stamp is equal.
pub(crate) fn has_last_mark<'a>(
    writes: impl DoubleEndedIterator<Item = &'a FieldWrite>,
    task: &Task,
) -> bool {
    let Some(last) = writes.rev().find(|write| write.fields.iter().any(is_mark)) else {
        return true;
    };
    last.fields.iter().filter(|change| is_mark(change)).all(|change| {
        let [_metadata, key, rest @ ..] = change.path.as_slice() else { return true };
        let ours = task.metadata.as_ref().and_then(|metadata| metadata.get(key));
        ours.and_then(|ours| get(ours, rest)) == change.after.as_ref()
    })
}

/// Restores those changes of `writes` that are missing in `now`. `writes` are all of pitcrew's
/// writes to one file, in order.
///
/// If a field has neither pitcrew's value nor the value before pitcrew's write, the other program
/// changed the field. Then the field keeps its present value.
///
/// For a task, an old mark (`metadata.pitcrew`) proves that a write was overwritten. Without this
/// proof, a write to a task is restored only if all of its fields have their old values. The fields
/// of the config are independent, so each field of the config is restored separately.
pub(crate) fn put_back(
    writes: &[&FieldWrite],
    stamp: &Stamp,
    is_config: bool,
    now: &mut Value,
) -> Outcome {
    let last = writes.iter().rev().find_map(|write| write.stamp);
    let is_suspect = last.is_some_and(|ours| is_overtaken(&ours, stamp));
    let original = now.clone();
    let mut outcome = Outcome::default();
    let mut third = Vec::new();
    let mut earlier: Vec<&FieldChange> = Vec::new();
    for write in writes.iter().filter(|write| !write.is_removed) {
        let is_before = |change: &FieldChange| get(now, &change.path) == change.before.as_ref();
        // Another program may have changed the field between two of pitcrew's writes. In that case
        // an outdated file can have a value from before both writes.
        let is_older = |change: &FieldChange| {
            let value = get(now, &change.path);
            let mut same = earlier.iter().filter(|known| known.path == change.path);
            same.any(|known| value == known.before.as_ref() || value == known.after.as_ref())
        };
        let is_after = |change: &FieldChange| get(now, &change.path) == change.after.as_ref();
        // If a task still has the mark (`metadata.pitcrew`) from before this write, the other
        // program read the task before this write. This proves that the write was overwritten.
        let is_proven = write.fields.iter().any(|change| is_mark(change) && is_before(change));
        let is_recent =
            write.stamp.is_some_and(|ours| stamp.mtime_ns - ours.mtime_ns <= nanos(UNDONE_WITHIN));
        let is_undone = is_proven
            || (is_suspect && is_recent && (is_config || write.fields.iter().all(&is_before)));
        if !is_undone {
            earlier.extend(&write.fields);
            continue;
        }
        let (undone, others): (Vec<&FieldChange>, Vec<&FieldChange>) =
            write.fields.iter().partition(|change| {
                is_before(change) || (is_proven && !is_after(change) && is_older(change))
            });
        third.extend(
            others
                .into_iter()
                .filter(|change| is_proven && !is_after(change))
                .map(|c| c.path.join(".")),
        );
        for change in undone {
            set(now, &change.path, change.after.as_ref());
        }
        earlier.extend(&write.fields);
    }
    outcome.put_back =
        changes(&original, now).into_iter().map(|change| change.path.join(".")).collect();
    if !outcome.put_back.is_empty() {
        third.sort();
        third.dedup();
        outcome.kept = third;
    }
    outcome
}

/// Whether a file that pitcrew removed exists again. `writes` are all of pitcrew's writes to the
/// file, in order. The answer is true only if the last of them removed the file.
pub(crate) fn is_back_again(writes: &[&FieldWrite], now: &Value) -> bool {
    let Some(last) = writes.last().filter(|write| write.is_removed) else { return false };
    last.fields.iter().all(|change| get(now, &change.path) == change.before.as_ref())
}

/// Returns the fields that identify a removed task. They show whether another program has written
/// the same task back.
pub(crate) fn identity_of(task: &Value) -> Vec<FieldChange> {
    let paths = [vec!["subject".to_owned()], vec!["metadata".to_owned(), "pitcrew".to_owned()]];
    paths
        .into_iter()
        .map(|path| FieldChange { before: get(task, &path).cloned(), after: None, path })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stamp(ino: u64, mtime_ms: i128) -> Stamp {
        Stamp { dev: 1, ino, size: 5, mtime_ns: mtime_ms * 1_000_000, born_ns: Some(1) }
    }

    fn task(status: &str, owner: Option<&str>, subject: &str, changed_at: Option<u64>) -> Value {
        let mut task = json!({"id": "1", "subject": subject, "status": status, "blocks": []});
        if let Some(owner) = owner {
            task["owner"] = owner.into();
        }
        if let Some(at) = changed_at {
            task["metadata"] = json!({"pitcrew": {"updatedAt": at}});
        }
        task
    }

    fn write(before: &Value, after: &Value) -> FieldWrite {
        FieldWrite {
            file: "1.json".into(),
            stamp: Some(stamp(7, 1000)),
            fields: changes(before, after),
            is_removed: false,
        }
    }

    /// Restores lost writes in a copy of `now`. Returns the resulting value and the outcome.
    fn check(writes: &[FieldWrite], seen: Stamp, now: &Value) -> (Value, Outcome) {
        let mut now = now.clone();
        let outcome = put_back(&writes.iter().collect::<Vec<_>>(), &seen, false, &mut now);
        (now, outcome)
    }

    #[test]
    fn without_a_mark_only_a_quick_change_in_place_is_suspect() {
        let (before, after) =
            (task("pending", None, "s", None), task("in_progress", Some("bob"), "s", None));
        let renamed_over = Stamp { born_ns: Some(2), ..stamp(7, 1500) };
        for (seen, is_suspect) in [
            (stamp(7, 1000), false),
            (stamp(7, 1500), true),
            (stamp(7, 3001), false),
            (stamp(8, 1500), false),
            (renamed_over, false),
        ] {
            let (now, _) = check(&[write(&before, &after)], seen, &before);
            assert_eq!(now == after, is_suspect, "{seen:?}");
        }
    }

    #[test]
    fn with_a_mark_an_older_reading_is_known_however_late_it_was_written() {
        let (before, after) =
            (task("pending", None, "s", Some(1)), task("in_progress", Some("bob"), "s", Some(2)));
        let (now, outcome) = check(&[write(&before, &after)], stamp(8, 9_999_999), &before);
        assert_eq!(now, after);
        assert_eq!(outcome.put_back, ["status", "metadata.pitcrew.updatedAt", "owner"]);
        let undone_on_purpose = task("pending", None, "s", Some(2));
        let (now, _) = check(&[write(&before, &after)], stamp(7, 1500), &undone_on_purpose);
        assert_eq!(now, undone_on_purpose, "its writer had read our change");
    }

    #[test]
    fn a_lost_claim_is_put_back_beside_what_the_other_wrote() {
        for mark in [None, Some(2)] {
            let before = task("pending", None, "s", mark.map(|at| at - 1));
            let after = task("in_progress", Some("bob"), "s", mark);
            let now = task("pending", None, "a better subject", mark.map(|at| at - 1));
            let (now, outcome) = check(&[write(&before, &after)], stamp(7, 1500), &now);
            assert_eq!(now, task("in_progress", Some("bob"), "a better subject", mark));
            assert_eq!(outcome.kept, Vec::<String>::new());
        }
    }

    #[test]
    fn a_field_that_the_other_changed_as_well_stays_and_is_named() {
        let (before, after) =
            (task("pending", None, "s", Some(1)), task("in_progress", Some("bob"), "s", Some(2)));
        let theirs = task("in_progress", Some("carol"), "s", Some(1));
        let (now, outcome) = check(&[write(&before, &after)], stamp(7, 1500), &theirs);
        assert_eq!(now, task("in_progress", Some("carol"), "s", Some(2)));
        assert_eq!(
            (outcome.put_back, outcome.kept),
            (vec!["metadata.pitcrew.updatedAt".into()], vec!["owner".into()])
        );
        let (now, outcome) = check(&[write(&before, &after)], stamp(7, 1600), &now);
        assert_eq!(
            (now["owner"].as_str(), outcome),
            (Some("carol"), Outcome::default()),
            "it is said once"
        );
    }

    #[test]
    fn several_writes_are_put_back_in_order() {
        let states = [
            task("pending", None, "s", Some(1)),
            task("in_progress", Some("bob"), "s", Some(2)),
            task("pending", None, "s", Some(3)),
            task("completed", Some("ann"), "s", Some(4)),
        ];
        let writes: Vec<FieldWrite> =
            states.windows(2).map(|pair| write(&pair[0], &pair[1])).collect();
        for older in &states {
            assert_eq!(check(&writes, stamp(9, 50_000), older).0, states[3]);
        }
    }

    #[test]
    fn members_of_a_config_are_told_apart_by_their_names() {
        let before =
            json!({"name": "x", "members": [{"name": "lead"}, {"name": "ann", "mode": "plan"}]});
        let after =
            json!({"name": "x", "members": [{"name": "lead"}, {"name": "ann"}, {"name": "bob"}]});
        let write = FieldWrite { file: "config.json".into(), ..write(&before, &after) };
        let paths: Vec<String> = write.fields.iter().map(|change| change.path.join(".")).collect();
        assert_eq!(paths, ["members.ann.mode", "members.bob"]);
        let mut now = json!({"name": "x", "members": [{"name": "lead"}, {"name": "ann", "mode": "plan"}, {"name": "cy"}]});
        put_back(&[&write], &stamp(7, 1500), true, &mut now);
        let names = json!([{"name": "lead"}, {"name": "ann"}, {"name": "cy"}, {"name": "bob"}]);
        assert_eq!(now["members"], names);
    }

    #[test]
    fn a_removed_task_that_is_written_back_is_known() {
        let task = task("pending", None, "s", Some(1));
        let removed = FieldWrite {
            stamp: None,
            fields: identity_of(&task),
            is_removed: true,
            file: "1.json".into(),
        };
        assert!(is_back_again(&[&removed], &task));
        assert!(!is_back_again(&[&removed], &json!({"id": "1", "subject": "a new one"})));
        assert!(!is_back_again(&[&removed, &write(&json!({}), &task)], &task), "it was made anew");
    }
}
