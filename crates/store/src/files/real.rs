//! Checks that the folders below the root are real folders. Every operation runs this check before
//! it touches anything.
//!
//! A link at the path of such a folder is never followed, because the folder behind it belongs to
//! somebody else. The root itself may be a link or be below one.

use std::path::PathBuf;

use pitcrew_protocol::TeamDir;

use super::backend::Files;
use super::look::Stands;
use super::teams::is_nameless;
use crate::StoreError;

impl Files {
    /// Checks that the folders of the root and of `team` are real folders, if they exist.
    ///
    /// # Errors
    /// [`StoreError::NoFolder`] with the first path that is no folder, [`StoreError::Io`].
    pub(crate) fn must_have_folders(&self, team: Option<&TeamDir>) -> Result<(), StoreError> {
        for path in self.paths.folders() {
            must_be_folder(path)?;
        }
        let Some(team) = team.filter(|team| !is_nameless(team)) else { return Ok(()) };
        let place = self.paths.team(team);
        match Stands::at(&place)? {
            // A plain file among the teams does no harm: it means that no team of this name exists.
            Stands::Nothing | Stands::File | Stands::Other => {}
            Stands::Link => return Err(StoreError::NoFolder { path: place, is_link: true }),
            Stands::Folder => {
                self.paths.folders_in(team).into_iter().try_for_each(must_be_folder)?
            }
        }
        // Tasks can exist without their team, for example after a crash during archiving.
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
