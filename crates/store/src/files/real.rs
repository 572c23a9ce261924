//! Checks that the folders below the root are real folders and not links. Every operation makes
//! this check before it accesses anything.
//!
//! A link at the path of such a folder is never followed, because its target belongs to somebody
//! else. The root itself is allowed to be a link, or to be below a link.

use std::path::PathBuf;

use pitcrew_protocol::TeamDir;

use super::backend::Files;
use super::look::Stands;
use super::teams::is_nameless;
use crate::StoreError;

impl Files {
    /// Checks that the folders of the root and the folders of `team` are real folders. A folder
    /// that does not exist is accepted.
    ///
    /// # Errors
    /// [`StoreError::NoFolder`] with the first path that is not a folder, and [`StoreError::Io`] if
    /// the operating system returns an error.
    pub(crate) fn must_have_folders(&self, team: Option<&TeamDir>) -> Result<(), StoreError> {
        for path in self.paths.folders() {
            must_be_folder(path)?;
        }
        let Some(team) = team.filter(|team| !is_nameless(team)) else { return Ok(()) };
        let place = self.paths.team(team);
        match Stands::at(&place)? {
            // A plain file in the folder of all teams does no harm. It only means that no team has
            // this name.
            Stands::Nothing | Stands::File | Stands::Other => {}
            Stands::Link => return Err(StoreError::NoFolder { path: place, is_link: true }),
            Stands::Folder => {
                self.paths.folders_in(team).into_iter().try_for_each(must_be_folder)?
            }
        }
        // The task folder is checked even if the team does not exist, because tasks can remain
        // without their team, for example after a crash during archiving.
        must_be_folder(self.paths.tasks(team))
    }
}

fn must_be_folder(path: PathBuf) -> Result<(), StoreError> {
    match Stands::at(&path)? {
        Stands::Folder | Stands::Nothing => Ok(()),
        Stands::Link => Err(StoreError::NoFolder { path, is_link: true }),
        Stands::File | Stands::Other => Err(StoreError::NoFolder { path, is_link: false }),
    }
}
