//! That the folders below the root are folders: every operation passes here before it touches anything.
//!
//! A link in the place of one is never followed, for what is behind it is somebody's. The root itself may be a link or
//! stand below one.

use std::path::PathBuf;

use pitcrew_protocol::TeamDir;

use super::backend::Files;
use super::look::Stands;
use super::teams::is_nameless;
use crate::StoreError;

impl Files {
    /// Whether the folders of the root, and those of `team`, are folders as far as they are there.
    ///
    /// # Errors
    /// [`StoreError::NoFolder`] with the first that is none, [`StoreError::Io`].
    pub(crate) fn must_have_folders(&self, team: Option<&TeamDir>) -> Result<(), StoreError> {
        for path in self.paths.folders() {
            must_be_folder(path)?;
        }
        let Some(team) = team.filter(|team| !is_nameless(team)) else { return Ok(()) };
        let place = self.paths.team(team);
        match Stands::at(&place)? {
            // A plain file among the teams is nobody's business: there is no team of its name.
            Stands::Nothing | Stands::File | Stands::Other => {}
            Stands::Link => return Err(StoreError::NoFolder { path: place, is_link: true }),
            Stands::Folder => {
                self.paths.folders_in(team).into_iter().try_for_each(must_be_folder)?
            }
        }
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
