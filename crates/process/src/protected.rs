//! The one table of what a project holds that decides rights, or that programs run by themselves when the user opens the
//! project, enters its folder, or works with its repository.
//!
//! Commands in *work* cannot change it (`sandbox`), and who edits it unasked elsewhere is asked here (`gate`).
//! `docs/protected-files.md` has it for people.

/// Files and folders of a working folder; case does not matter.
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

/// Of these names git takes a folder for a repository, with configuration and all, though it has no `.git`.
pub const LOOSE_REPOSITORY: &[&str] = &["objects", "refs", "commondir"];
