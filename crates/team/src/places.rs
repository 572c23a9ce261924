//! The paths of a team's files, for display to people. If the store has no files, this module
//! returns the paths that the files would have below the folder `memory`.

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
    /// The path of the team's config file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.teams().paths().config(self.dir())
    }

    /// The path of a log file.
    #[must_use]
    pub fn log_file(&self, log: &LogName) -> PathBuf {
        self.teams().paths().log(self.dir(), log)
    }

    /// The path of the file of one of pitcrew's documents.
    #[must_use]
    pub fn document_file(&self, document: &str) -> PathBuf {
        self.teams().paths().document(self.dir(), document)
    }

    /// The team's folder that only pitcrew uses. It is for data outside the store, such as a
    /// socket. If the store has no folders, the result is `None`.
    #[must_use]
    pub fn own_folder(&self) -> Option<PathBuf> {
        self.backend().files().map(|files| files.paths().ours(self.dir()))
    }
}
