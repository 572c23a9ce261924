//! What the composition root tells of the machine and its user: no library reads the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment;

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
    /// The folders of toolchains that variables name (`RUSTUP_HOME` and its like), which may be anywhere.
    pub toolchains: Vec<PathBuf>,
    /// The variables that commands would inherit.
    pub variables: Vec<Variable>,
    /// Our own program and its arguments before a plan: it confines itself and runs a command.
    pub inner: Option<Vec<OsString>>,
}

/// A variable of the environment, known by its name and what its value was found to be; the value itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub(super) name: String,
    pub(super) holds_secret: bool,
}

impl Variable {
    /// Looks at a variable.
    #[must_use]
    pub fn of(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), holds_secret: environment::holds_secret(value) }
    }
}

/// Variables that say where a toolchain is which otherwise is in the home.
pub const TOOLCHAIN_VARIABLES: [&str; 10] = [
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "FNM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "VOLTA_HOME",
    "BUN_INSTALL",
];

impl Machine {
    /// A machine of which only the root is known, and where temporary files go.
    #[must_use]
    pub fn with_root(root: &Path, temporary: &Path) -> Self {
        Self { root: root.to_owned(), temporary: temporary.to_owned(), ..Self::default() }
    }
}

/// What the user's settings have about the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Folders besides that commands may read (`sandbox.read`).
    pub read: Vec<PathBuf>,
    /// Folders besides that commands in *work* may write (`sandbox.write`).
    pub write: Vec<PathBuf>,
    /// Git folders and stores of objects outside of a checkout that count as the checkout's, as the user trusts them.
    pub git: Vec<PathBuf>,
    /// Whether commands in *work* share the machine's network (`sandbox.network`).
    pub network: bool,
    /// Variables that no command gets, besides our own table (`sandbox.withheldVariables`).
    pub withheld: Vec<String>,
}
