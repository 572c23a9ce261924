//! Lists the protected project files. These are files that control permissions, and files that
//! programs run automatically when the user opens the project, enters its folder or works with its
//! repository.
//!
//! Commands in the sandbox profile *work* cannot change these files. Before a command in another
//! sandbox profile changes such a file, or an agent does so with a file tool, pitcrew checks the
//! change more strictly than a change of an ordinary file. `docs/protected-files.md` describes
//! these checks and has the list for users.

use std::ffi::OsStr;

/// Protected files and folders, relative to a working folder. Upper and lower case are not
/// distinguished.
pub const PROTECTED: &[&str] = &[
    ".claude",
    ".mcp.json",
    ".envrc",
    ".vscode",
    ".idea",
    ".husky",
    ".gitmodules",
    ".devcontainer",
    ".zed",
    ".exrc",
    ".nvim.lua",
    ".dir-locals.el",
];

/// Files that a shell or git runs or obeys when the user starts it. The file tools protect them like
/// [`PROTECTED`]. The sandbox does not, because it gives a command an empty home folder.
const STARTED: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".githooks",
];

/// Files that agents obey. Agents may change them, because they grant no rights. A document that is
/// not meant for agents never has one of these names.
const OBEYED: &[&str] = &[
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "GEMINI.md",
    "QWEN.md",
    "copilot-instructions.md",
    ".cursor",
    ".cursorrules",
    ".windsurf",
    ".windsurfrules",
    ".clinerules",
    ".goosehints",
];

/// The folder of a repository's state, and its file in a worktree.
const GIT: &str = ".git";

/// Names of entries by which git recognizes a repository without a `.git` folder. If a folder
/// contains such entries and a file `HEAD`, git reads a configuration from the folder.
pub const LOOSE_REPOSITORY: &[&str] = &["objects", "refs", "commondir"];

/// Whether agents change a file or folder of this name only after a question: programs run it by
/// themselves, or it controls permissions.
#[must_use]
pub fn is_protected(name: &OsStr) -> bool {
    is_one_of(name, PROTECTED) || is_one_of(name, STARTED)
}

/// Whether no document of a run is written to a file of this name or into a folder of this name:
/// agents obey it, or it is protected.
#[must_use]
pub fn is_guarded(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(GIT) || is_protected(name) || is_one_of(name, OBEYED)
}

/// Upper and lower case are the same, because some file systems do not distinguish them.
fn is_one_of(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|it| name.eq_ignore_ascii_case(it))
}
