//! Lists the protected project files. These are files that control permissions, and files that
//! programs run automatically when the user opens the project, enters its folder or works with its
//! repository.
//!
//! Commands in the sandbox profile *work* cannot change these files. Before a command in another
//! sandbox profile changes such a file, or an agent does so with a file tool, pitcrew checks the
//! change more strictly than a change of an ordinary file. `docs/protected-files.md` describes
//! these checks and has the list for users.

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
