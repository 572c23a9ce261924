//! Lists the unreadable task files of a team. Their tasks are missing in the task list.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use pitcrew_protocol::TeamDir;

use super::super::backend::{FileBackend, Files};
use super::super::look::Stands;
use super::entries::{Holds, list, read_all};
use crate::{JournalOf, StoreError};

impl FileBackend {
    /// Returns the paths of the unreadable task files of a team or of an archive, in order.
    ///
    /// # Errors
    /// [`StoreError`] if the folder of the tasks cannot be read.
    pub async fn torn_tasks(&self, of: JournalOf<'_>) -> Result<Vec<PathBuf>, StoreError> {
        match of {
            JournalOf::Team(team) => {
                let team = team.clone();
                self.run(move |files| files.torn_tasks(&team)).await
            }
            JournalOf::Archive(archive) => {
                let folder = self.paths().archived(archive).join("tasks");
                self.run(move |_| torn_in(&folder)).await
            }
        }
    }
}

impl Files {
    fn torn_tasks(&self, team: &TeamDir) -> Result<Vec<PathBuf>, StoreError> {
        self.read_tasks(team, None)?;
        let table = self.tables.of(team);
        let table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let is_torn = |holds: &Holds| matches!(holds, Holds::Torn(_));
        let torn = table.files.iter().filter(|(_, entry)| is_torn(&entry.holds));
        Ok(paths_of(&self.paths.tasks(team), torn.map(|(stem, _)| stem)))
    }
}

/// Returns the unreadable files in a folder that no program writes any more.
fn torn_in(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    // A link in the archive is not followed.
    if !matches!(Stands::at(folder)?, Stands::Folder) {
        return Ok(Vec::new());
    }
    let (_read, torn) = read_all(folder, &list(folder)?, &HashMap::new())?;
    Ok(paths_of(folder, torn.iter()))
}

fn paths_of<'a>(folder: &Path, stems: impl Iterator<Item = &'a String>) -> Vec<PathBuf> {
    let mut paths: Vec<_> = stems.map(|stem| folder.join(format!("{stem}.json"))).collect();
    paths.sort();
    paths
}
