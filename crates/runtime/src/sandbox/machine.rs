//! What the composition root tells of the machine and its user: no library reads the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What the sandbox has to know of the machine and its user.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The root: its teams, tasks and settings are never changed by a command.
    pub root: PathBuf,
    /// Where programs put their temporary files.
    pub temporary: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// The folders in which programs are looked for (`PATH`).
    pub path: Vec<PathBuf>,
    /// The names of the variables that commands would inherit.
    pub variables: Vec<String>,
    /// Our own program and its arguments before a plan: it confines itself and runs a command.
    pub inner: Option<Vec<OsString>>,
}

impl Machine {
    /// A machine of which only the root is known, and where temporary files go.
    #[must_use]
    pub fn with_root(root: &Path, temporary: &Path) -> Self {
        Self { root: root.to_owned(), temporary: temporary.to_owned(), ..Self::default() }
    }
}
