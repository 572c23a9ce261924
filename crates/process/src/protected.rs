//! Lists the protected project files. These are files that control permissions, and files that
//! programs run automatically when the user opens the project, enters its folder or works with its
//! repository.
//!
//! Commands in the sandbox profile *work* cannot change these files. In other sandbox profiles and
//! other tools, pitcrew asks the user before a change, even if a rule allows the change.
//! `docs/protected-files.md` has the list for users.

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

/// Names of entries by which git recognizes a repository without a `.git` folder. If a folder
/// contains such entries and a file `HEAD`, git reads a configuration from the folder.
pub const LOOSE_REPOSITORY: &[&str] = &["objects", "refs", "commondir"];
