//! The texts of all teams' files as they stand, for whoever wants to know how other clients write.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{TaskId, Written};

use super::backend::FileBackend;
use super::look::{list, name_of};
use super::plain::{self, FILE_MOST};
use crate::StoreError;

/// A file of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// What it holds.
    pub written: Written,
    /// Where it stands.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl FileBackend {
    /// Reads the configs, inboxes and tasks of all teams, and what is kept of their taken messages, in the order of their paths, without a lock: one that is being
    /// written may be torn. What is no plain file of text is passed over. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when a folder cannot be listed.
    pub fn written(&self) -> Result<Vec<WrittenFile>, StoreError> {
        let paths = &self.files().paths;
        let mut found = Vec::new();
        for team in list(&paths.teams())? {
            found.extend(read(Written::Config, team.join("config.json")));
            let inboxes =
                list(&team.join("inboxes"))?.into_iter().filter(|path| has_stem(path, |_| true));
            found.extend(inboxes.filter_map(|path| read(Written::Inbox, path)));
            // What members of ours have taken is out of the inboxes of a session.
            let kept = list(&team.join("pitcrew/read"))?.into_iter();
            found.extend(
                kept.filter(|path| name_of(path).ends_with(".ndjson")).filter_map(read_lines),
            );
        }
        for tasks in list(&paths.all_tasks())? {
            let tasks = list(&tasks)?
                .into_iter()
                .filter(|path| has_stem(path, |stem| TaskId::parse(stem).is_some()));
            found.extend(tasks.filter_map(|path| read(Written::Task, path)));
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}

fn has_stem(path: &Path, is_meant: fn(&str) -> bool) -> bool {
    name_of(path).strip_suffix(".json").is_some_and(is_meant)
}

/// A log of messages, as the array that an inbox is.
fn read_lines(path: PathBuf) -> Option<WrittenFile> {
    let bytes = plain::read(&path, plain::LOG_MOST).ok()??;
    let lines = String::from_utf8(bytes).ok()?;
    // A torn line is passed over, as everywhere.
    let whole =
        lines.lines().filter(|line| serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok());
    let text = format!("[{}]", whole.collect::<Vec<_>>().join(","));
    Some(WrittenFile { written: Written::Inbox, text, path })
}

fn read(written: Written, path: PathBuf) -> Option<WrittenFile> {
    let bytes = plain::read(&path, FILE_MOST).ok()??;
    Some(WrittenFile { written, text: String::from_utf8(bytes).ok()?, path })
}
