//! Returns the texts of all teams' files. Tools use these texts to examine how other clients write
//! the files.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{TaskId, Written};

use super::backend::FileBackend;
use super::look::{list, name_of};
use super::plain::{self, FILE_MOST};
use crate::StoreError;

/// A file of a team, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// The kind of content in the file.
    pub written: Written,
    /// The path of the file.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
}

impl FileBackend {
    /// Returns the configs, inboxes and tasks of all teams, and the archived messages of the
    /// inboxes. The files are sorted by path. Entries that are not plain text files are skipped.
    ///
    /// This function takes no lock, so the text of a file that is being written can be incomplete.
    /// It blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a folder cannot be listed.
    pub fn written(&self) -> Result<Vec<WrittenFile>, StoreError> {
        let paths = &self.files().paths;
        let mut found = Vec::new();
        for team in list(&paths.teams())? {
            found.extend(read(Written::Config, team.join("config.json")));
            let inboxes =
                list(&team.join("inboxes"))?.into_iter().filter(|path| has_stem(path, |_| true));
            found.extend(inboxes.filter_map(|path| read(Written::Inbox, path)));
            // In a team of the session dialect, messages are removed from an inbox after a member
            // has read them. For the members that pitcrew runs, the logs in `pitcrew/read` have the
            // read messages.
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

/// Reads a log of messages and returns it in the form of an inbox (one JSON array).
fn read_lines(path: PathBuf) -> Option<WrittenFile> {
    let bytes = plain::read(&path, plain::LOG_MOST).ok()??;
    let lines = String::from_utf8(bytes).ok()?;
    // Lines that are not valid JSON are skipped, because a crash can leave an incomplete line.
    let whole =
        lines.lines().filter(|line| serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok());
    let text = format!("[{}]", whole.collect::<Vec<_>>().join(","));
    Some(WrittenFile { written: Written::Inbox, text, path })
}

fn read(written: Written, path: PathBuf) -> Option<WrittenFile> {
    let bytes = plain::read(&path, FILE_MOST).ok()??;
    Some(WrittenFile { written, text: String::from_utf8(bytes).ok()?, path })
}
