//! The paths of a team's files, for display to people. A store without files returns the paths that
//! the files would have below the folder `memory`.

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

    /// The file of one of pitcrew's documents.
    #[must_use]
    pub fn document_file(&self, document: &str) -> PathBuf {
        self.teams().paths().document(self.dir(), document)
    }

    /// The folder of the team that only pitcrew uses, for data that the store does not keep, such
    /// as a socket. `None` if the store has no folders.
    #[must_use]
    pub fn own_folder(&self) -> Option<PathBuf> {
        self.backend().files().map(|files| files.paths().ours(self.dir()))
    }
}
