//! Which names below the root are ours or the reference client's to write, by the folder they are in.
//!
//! A repair touches nothing else: a project may lie where a team's folder should, and `Cargo.lock` is no lock.

use pitcrew_protocol::{AgentName, TaskId};

use super::disk::{TEMP_PREFIX, TEMP_SUFFIX};
use super::tasks::HIGH_WATER;

/// What the folder of a team that was never whole begins with.
pub(crate) const UNBORN: &str = ".new-";

/// A folder of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `teams/<dir>`.
    Team,
    /// `teams/<dir>/inboxes`.
    Inboxes,
    /// `teams/<dir>/pitcrew`.
    Ours,
    /// The folders of our logs below that.
    Logs,
    /// The folder of what members printed, below that too: nothing in it is looked at.
    Output,
    /// The folder of what our processes wrote, below that too.
    Writes,
    /// `tasks/<dir>`.
    Tasks,
}

/// What a name means in its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMeaning {
    /// The lock of a file of the team.
    Lock,
    /// A file of a write that never ended, or a lock that was being broken.
    Temporary,
    /// A file of one JSON value.
    Json,
    /// The highest task id ever used.
    HighWater,
    /// A log of ours, a JSON object a line.
    Lines,
    /// Nothing to us.
    Foreign,
}

/// What the file called `name` in a folder is.
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

/// Whether the name is that of a folder in which a team was being made.
pub(crate) fn is_unborn(name: &str) -> bool {
    name.strip_prefix(UNBORN).is_some_and(is_hex)
}

/// Whether the text is a random id of ours: 32 hexadecimal digits.
fn is_hex(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether the file of that name has a lock.
fn is_lockable(place: Place, name: &str) -> bool {
    // The list's own lock; the file beside it has no ending.
    (place == Place::Tasks && name == ".lock") || is_json(place, name)
}

fn is_json(place: Place, name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".json") else { return false };
    match place {
        Place::Team => stem == "config",
        Place::Inboxes => is_inbox(stem),
        // Documents are named by the room above.
        Place::Ours => {
            !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        }
        Place::Tasks => TaskId::parse(stem).is_some_and(|id| id.as_str() == stem),
        Place::Logs | Place::Output | Place::Writes => false,
    }
}

/// `<agent>.ndjson`, and of a conversation that another took the place of `<agent>.until-<ms>.ndjson`.
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
