//! What one command is granted: where it works, and what there is denied to it.

use std::path::{Path, PathBuf};

use crate::sandbox::DeniedReads;

/// The folders of one command.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// The folder it starts in, absolute.
    pub cwd: PathBuf,
    /// Folders that count as working folders too.
    pub beside: Vec<PathBuf>,
    /// What it may not read of them, by the user's rules.
    pub denied: DeniedReads,
}

impl Grant {
    /// Grants a working folder, and nothing denied in it.
    #[must_use]
    pub fn at(cwd: &Path) -> Self {
        Self { cwd: cwd.to_owned(), ..Self::default() }
    }

    /// All its working folders.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.cwd).chain(&self.beside).map(PathBuf::as_path)
    }
}
