//! Determines what a file is from its name and its folder. Also determines whether the name is one
//! that pitcrew or the reference client gives to its files.
//!
//! A repair changes a file only if it has such a name. The reason: a user's project may be at the
//! path of a team's folder, and the file `Cargo.lock` of that project is not a lock.

use pitcrew_protocol::{AgentName, TaskId};

use super::disk::{TEMP_PREFIX, TEMP_SUFFIX};
use super::tasks::HIGH_WATER;

/// Name prefix of the temporary folder in which a new team is built.
pub(crate) const UNBORN: &str = ".new-";

/// A kind of folder that a team has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The folder of the team, `teams/<dir>`.
    Team,
    /// The folder of the inboxes, `teams/<dir>/inboxes`.
    Inboxes,
    /// Pitcrew's own folder of the team, `teams/<dir>/pitcrew`.
    Ours,
    /// The folders `transcripts` and `read` in `teams/<dir>/pitcrew`, which contain logs.
    Logs,
    /// The folder `teams/<dir>/pitcrew/output`, with the printed text of members. The files in this
    /// folder are not checked.
    Output,
    /// The folder `teams/<dir>/pitcrew/writes`, with logs of the changes that pitcrew processes
    /// made.
    Writes,
    /// The folder of the tasks, `tasks/<dir>`.
    Tasks,
}

/// What a file is, according to its name and folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMeaning {
    /// A lock for one of the team's files.
    Lock,
    /// A temporary file of an unfinished write, or a stale lock whose removal did not finish.
    Temporary,
    /// A file that holds one JSON value.
    Json,
    /// The file with the highest task id that was ever used.
    HighWater,
    /// A log that pitcrew writes, with one JSON object per line.
    Lines,
    /// A file of another program.
    Foreign,
}

/// Returns what the file `name` is if it is in the folder `place`.
pub(crate) fn meaning(place: Place, name: &str) -> FileMeaning {
    let is_temporary = middle(name, TEMP_PREFIX, TEMP_SUFFIX).is_some_and(is_hex)
        || name
            .rsplit_once(".stale-")
            .is_some_and(|(file, id)| is_hex(id) && is_lockable(place, file));
    if is_temporary {
        return FileMeaning::Temporary;
    }
    if let Some(file) = name.strip_suffix(".lock")
        && is_lockable(place, file)
    {
        return FileMeaning::Lock;
    }
    match place {
        Place::Tasks if name == HIGH_WATER => FileMeaning::HighWater,
        Place::Logs if is_log(name) => FileMeaning::Lines,
        Place::Ours if name == super::paths::JOURNAL => FileMeaning::Lines,
        Place::Team | Place::Inboxes | Place::Ours | Place::Tasks if is_json(place, name) => {
            FileMeaning::Json
        }
        Place::Team
        | Place::Inboxes
        | Place::Ours
        | Place::Tasks
        | Place::Logs
        | Place::Output
        | Place::Writes => FileMeaning::Foreign,
    }
}

/// Whether this is the name of a temporary folder in which a new team is built.
pub(crate) fn is_unborn(name: &str) -> bool {
    name.strip_prefix(UNBORN).is_some_and(is_hex)
}

/// Whether the text has the form of pitcrew's random ids: 32 hexadecimal digits.
fn is_hex(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a file with this name can have a lock.
fn is_lockable(place: Place, name: &str) -> bool {
    // The lock of the task list belongs to the file `.lock`. The path of this lock is therefore
    // `.lock.lock`.
    (place == Place::Tasks && name == ".lock") || is_json(place, name)
}

fn is_json(place: Place, name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".json") else { return false };
    match place {
        Place::Team => stem == "config",
        Place::Inboxes => is_inbox(stem),
        // The names of documents are chosen by the crates that use this store. Therefore every
        // lowercase name is accepted here.
        Place::Ours => {
            !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        }
        Place::Tasks => TaskId::parse(stem).is_some_and(|id| id.as_str() == stem),
        Place::Logs | Place::Output | Place::Writes => false,
    }
}

/// Whether the name is `<agent>.ndjson`, or `<agent>.until-<ms>.ndjson`. The second form is for a
/// former conversation that was replaced by a newer one.
fn is_log(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".ndjson") else { return false };
    let is_time = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match stem.split_once(".until-") {
        Some((agent, time)) => is_inbox(agent) && is_time(time),
        None => is_inbox(stem),
    }
}

fn is_inbox(stem: &str) -> bool {
    !stem.is_empty() && AgentName::foreign(stem).inbox_file().as_str() == stem
}

fn middle<'a>(name: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_suffix(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_names_that_are_written_by_us_or_the_reference_mean_anything() {
        let temp = format!(".pitcrew-{ID}.tmp");
        let broken = format!("bob.json.stale-{ID}");
        let cases = [
            (Place::Team, "config.json.lock", FileMeaning::Lock),
            (Place::Team, "Cargo.lock", FileMeaning::Foreign),
            (Place::Team, "yarn.lock", FileMeaning::Foreign),
            (Place::Team, "tsconfig.json", FileMeaning::Foreign),
            (Place::Team, "package.json", FileMeaning::Foreign),
            (Place::Team, temp.as_str(), FileMeaning::Temporary),
            (Place::Team, ".pitcrew-notes", FileMeaning::Foreign),
            (Place::Team, ".pitcrew-1.tmp", FileMeaning::Foreign),
            (Place::Inboxes, "bob.json", FileMeaning::Json),
            (Place::Inboxes, "bob.json.lock", FileMeaning::Lock),
            (Place::Inboxes, "my.lock", FileMeaning::Foreign),
            (Place::Inboxes, "b b.json", FileMeaning::Foreign),
            (Place::Inboxes, broken.as_str(), FileMeaning::Temporary),
            (Place::Inboxes, "bob.json.stale-1", FileMeaning::Foreign),
            (Place::Ours, "take-over.json", FileMeaning::Json),
            (Place::Ours, "journal.ndjson", FileMeaning::Lines),
            (Place::Ours, "Cargo.lock", FileMeaning::Foreign),
            (Place::Logs, "bob.ndjson", FileMeaning::Lines),
            (Place::Logs, "bob.until-17.ndjson", FileMeaning::Lines),
            (Place::Logs, "bob.until-.ndjson", FileMeaning::Foreign),
            (Place::Tasks, ".lock.lock", FileMeaning::Lock),
            (Place::Tasks, ".lock", FileMeaning::Foreign),
            (Place::Tasks, "7.json", FileMeaning::Json),
            (Place::Tasks, "7.json.lock", FileMeaning::Lock),
            (Place::Tasks, "notes.json", FileMeaning::Foreign),
            (Place::Tasks, ".highwatermark", FileMeaning::HighWater),
        ];
        for (place, name, means) in cases {
            assert_eq!(meaning(place, name), means, "{place:?} {name}");
        }
        assert!(is_unborn(&format!(".new-{ID}")) && !is_unborn(".new-project"));
    }
}
