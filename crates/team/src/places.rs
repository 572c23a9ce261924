//! Where people find a team's files. A store that keeps no files names the places that they would
//! have below `memory`.

use std::path::{Path, PathBuf};

use pitcrew_store::{ArchivedTeam, Backend, LogName, Paths};

use crate::{Team, Teams};

/// The paths of a store.
pub(crate) fn paths_of(backend: &dyn Backend) -> Paths {
    backend.files().map_or_else(|| Paths::new(Path::new("memory")), |files| files.paths().clone())
}

impl Teams {
    /// The folder of an archived team.
    #[must_use]
    pub fn archive_folder(&self, archived: &ArchivedTeam) -> PathBuf {
        self.paths().archived(&archived.name)
    }
}

impl Team {
    /// The file of the team's config.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.teams().paths().config(self.dir())
    }

    /// The file of a log.
    #[must_use]
    pub fn log_file(&self, log: &LogName) -> PathBuf {
        self.teams().paths().log(self.dir(), log)
    }

    /// The file of one of our own documents.
    #[must_use]
    pub fn document_file(&self, document: &str) -> PathBuf {
        self.teams().paths().document(self.dir(), document)
    }

    /// The folder of the team that is ours alone, for what the store does not keep, such as a
    /// socket; `None` where teams have no folders.
    #[must_use]
    pub fn own_folder(&self) -> Option<PathBuf> {
        self.backend().files().map(|files| files.paths().ours(self.dir()))
    }
}
