//! The working folders of one command, and the files in them that it may not read.

use std::path::{Path, PathBuf};

use crate::sandbox::DeniedReads;

/// The folders that one command may use.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// The folder it starts in, absolute.
    pub cwd: PathBuf,
    /// Additional folders that count as working folders.
    pub beside: Vec<PathBuf>,
    /// The files in these folders that the user's `Read` deny rules forbid.
    pub denied: DeniedReads,
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
