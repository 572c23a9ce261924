//! Describes the machine and its user. The binary collects this data, because library code must not
//! read the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment;

/// What the sandbox needs to know about the machine and its user.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The configuration root. No command is allowed to change the teams, tasks and settings in it.
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
    /// The path of our own program and its first arguments. When bubblewrap starts the program with
    /// these arguments, the program restricts itself and then executes a command.
    pub inner: Option<Vec<OsString>>,
}

/// The name of an environment variable, and whether its value looks like a secret. The value itself
/// is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub(super) name: String,
    pub(super) holds_secret: bool,
}

impl Variable {
    /// Creates the entry for a variable. The value is checked and not stored.
    #[must_use]
    pub fn of(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), holds_secret: environment::holds_secret(value) }
    }
}

/// Environment variables with which a user moves a toolchain out of the home folder.
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
    /// Creates the data of a machine. Only the configuration root and the temporary folder are set.
    #[must_use]
    pub fn with_root(root: &Path, temporary: &Path) -> Self {
        Self { root: root.to_owned(), temporary: temporary.to_owned(), ..Self::default() }
    }
}

/// The sandbox options in the user's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Additional folders that commands are allowed to read (`sandbox.read`).
    pub read: Vec<PathBuf>,
    /// Additional folders that commands in the sandbox profile *work* are allowed to write
    /// (`sandbox.write`).
    pub write: Vec<PathBuf>,
    /// Folders outside a checkout that the user trusts as the checkout's git folders or object
    /// stores.
    pub git: Vec<PathBuf>,
    /// True if commands in the sandbox profile *work* share the machine's network
    /// (`sandbox.network`).
    pub network: bool,
    /// Additional variables that no command gets (`sandbox.withheldVariables`).
    pub withheld: Vec<String>,
    /// Further variables that commands of the sandbox profiles *read* and *work* inherit, whatever
    /// their names and values look like (`sandbox.passedVariables`). Keys of model providers are
    /// never inherited.
    pub passed: Vec<String>,
}
