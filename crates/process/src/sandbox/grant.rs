//! The working folders of one command, and the files in these folders that the command is not
//! allowed to read or to change.

use std::path::{Path, PathBuf};

use crate::sandbox::DeniedPaths;

/// The folders that one command is allowed to use.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// The absolute path of the folder in which the command starts.
    pub cwd: PathBuf,
    /// Additional working folders.
    pub beside: Vec<PathBuf>,
    /// The user's `Read` deny rules, which forbid reading some files in the working folders.
    pub denied: DeniedPaths,
    /// The user's `Edit` deny rules, which forbid changing some files in the working folders.
    pub unwritable: DeniedPaths,
    /// The protected files and folders that the command changes, as far as its text shows it. It
    /// was allowed to, so these files are not put aside. The profile *free* alone uses this.
    pub decided: Vec<PathBuf>,
}

impl Grant {
    /// Creates a grant for one working folder without denied files.
    #[must_use]
    pub fn at(cwd: &Path) -> Self {
        Self { cwd: cwd.to_owned(), ..Self::default() }
    }

    /// Returns all working folders.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.cwd).chain(&self.beside).map(PathBuf::as_path)
    }
}
