//! The table of project files that control permissions, or that programs run automatically when the
//! user opens the project, enters its folder or works with its repository.
//!
//! Commands in *work* cannot change them (`sandbox`). In other profiles and tools, the gate asks
//! before a change that would otherwise be allowed (`gate`). `docs/protected-files.md` has the list
//! for users.

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

/// Entries that, next to `HEAD`, make git treat a folder without `.git` as a repository and obey
/// its configuration.
pub const LOOSE_REPOSITORY: &[&str] = &["objects", "refs", "commondir"];
