//! Describes the machine and its user. The binary collects this data, because library code does not
//! read the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment;

/// Data about the machine and its user that the sandbox needs.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The configuration root. No command may change its teams, tasks and settings.
    pub root: PathBuf,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The folders in which programs are searched (`PATH`).
    pub path: Vec<PathBuf>,
    /// Toolchain folders that environment variables such as `RUSTUP_HOME` name. These folders may
    /// be anywhere.
    pub toolchains: Vec<PathBuf>,
    /// The environment variables that commands would inherit.
    pub variables: Vec<Variable>,
    /// The path of our own program and its first arguments. Started like this inside bubblewrap,
    /// our program restricts itself and then executes a command.
    pub inner: Option<Vec<OsString>>,
}

/// An environment variable: its name, and whether its value looks like a secret. The value itself
/// is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub(super) name: String,
    pub(super) holds_secret: bool,
}

impl Variable {
    /// Creates the entry for a variable. Checks the value and stores only the result.
    #[must_use]
    pub fn of(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), holds_secret: environment::holds_secret(value) }
    }
}

/// Environment variables that move a toolchain out of the home folder.
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
    /// Creates the data of a machine with only the configuration root and the temporary folder set.
    #[must_use]
    pub fn with_root(root: &Path, temporary: &Path) -> Self {
        Self { root: root.to_owned(), temporary: temporary.to_owned(), ..Self::default() }
    }
}

/// The sandbox options in the user's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Additional folders that commands may read (`sandbox.read`).
    pub read: Vec<PathBuf>,
    /// Additional folders that commands in the profile *work* may write (`sandbox.write`).
    pub write: Vec<PathBuf>,
    /// Folders outside a checkout that the user trusts as git folders or object stores of the
    /// checkout.
    pub git: Vec<PathBuf>,
    /// Whether commands in the profile *work* share the machine's network (`sandbox.network`).
    pub network: bool,
    /// Additional variables that no command gets (`sandbox.withheldVariables`).
    pub withheld: Vec<String>,
}
