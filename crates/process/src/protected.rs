//! Lists the protected project files: files that control permissions, and files that programs run
//! automatically when the user opens the project, enters its folder or works with its repository.
//!
//! Commands in the sandbox profile *work* cannot change these files. In other profiles and tools,
//! the gate asks before a change that would otherwise be allowed. `docs/protected-files.md` has the
//! list for users.

/// Protected files and folders in a working folder. Case is ignored.
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

/// Entries that, together with a file `HEAD`, make git treat a folder without `.git` as a
/// repository and read a configuration from it.
pub const LOOSE_REPOSITORY: &[&str] = &["objects", "refs", "commondir"];
