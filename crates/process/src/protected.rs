//! Lists the protected files and folders. These are files that control permissions, and files that
//! programs run or obey by themselves when the user opens the project, enters its folder or gives
//! the usual first command there.
//!
//! [`PROTECTED`] is the only list. Three parts of pitcrew use it:
//!
//! - A command in the sandbox profile *work* leaves none of these files changed or new in its
//!   working folder.
//! - The permission gate asks before a file tool, or a command as far as its text shows, changes
//!   one of these files in any folder.
//! - `pitcrew export` writes no document to one of these paths.
//!
//! `docs/protected-files.md` describes the checks and has the same table for users.

use std::ffi::OsStr;
use std::path::Path;

mod names;

pub use names::PROTECTED;

/// A protected file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectedName {
    /// The path in a project. The last part may contain one `*`, which stands for any characters. A
    /// folder ends with `/`. Upper and lower case are not distinguished.
    pub name: &'static str,
    /// The depth at which a command in the sandbox profile *work* leaves no such file.
    pub depth: Depth,
    /// The reason for the protection.
    pub guard: Guard,
    /// The program that runs or obeys the file by itself.
    pub program: &'static str,
    /// The event after which the program does that.
    pub when: &'static str,
    /// The page of the program's documentation that describes the file.
    pub source: &'static str,
}

/// The folders below a working folder in which the sandbox profile *work* protects a name. The
/// permission gate protects each name in every folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only the working folder itself.
    Top,
    /// The working folder and its subfolders, because the program reads the file there too,
    /// although the user opened the working folder.
    Subfolders,
}

/// The reason why agents do not change a file without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The file controls permissions, or contains programs that run without a command of the user.
    Protected,
    /// The file is a part of ordinary work. But it also decides what the first command of the user
    /// runs. Therefore a person is asked.
    Asked,
}

/// Folders that contain the files of many programs. Such a folder as a whole is not protected.
const SHARED: &[&str] = &[".config", ".github", "mise"];

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

impl ProtectedName {
    /// Whether the name is that of a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.name.ends_with('/')
    }

    /// The parts of the path, without the slash at the end.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.name.trim_end_matches('/').split('/')
    }

    /// The folder that contains the file, which is empty for a name without a slash, and the last
    /// part of the path.
    #[must_use]
    pub fn split(&self) -> (&'static str, &'static str) {
        let path = self.name.trim_end_matches('/');
        path.rsplit_once('/').unwrap_or(("", path))
    }

    /// Whether the name stands for several names.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        self.name.contains('*')
    }

    /// Whether a change of the path that begins with the entry `first` and goes on with `rest`
    /// changes this file: the path is the file, is inside the folder, or is a folder on the way to
    /// the file.
    fn is_met_by(&self, first: &OsStr, rest: &Path) -> bool {
        let mut path = std::iter::once(first).chain(rest.iter());
        let mut is_shared = true;
        for part in self.parts() {
            let Some(entry) = path.next() else { return !is_shared };
            if !is_alike(entry, part) {
                return false;
            }
            is_shared &= SHARED.contains(&part);
        }
        true
    }
}

/// Whether the name of an entry is a protected name or fits it, if it is a pattern. Upper and lower
/// case are the same, because some file systems do not distinguish them.
#[must_use]
pub fn is_alike(entry: &OsStr, name: &str) -> bool {
    let Some((before, after)) = name.split_once('*') else {
        return entry.eq_ignore_ascii_case(name);
    };
    let entry = entry.to_string_lossy().to_ascii_lowercase();
    entry.len() >= name.len() - 1
        && entry.starts_with(&before.to_ascii_lowercase())
        && entry.ends_with(&after.to_ascii_lowercase())
}

/// Returns the protected name that a path has which begins with the entry `first` and goes on with
/// `rest`.
#[must_use]
pub fn protected_at(first: &OsStr, rest: &Path) -> Option<&'static ProtectedName> {
    PROTECTED.iter().find(|it| it.is_met_by(first, rest))
}

/// Returns the protected name that a part of a path has.
#[must_use]
pub fn protected_in(path: &Path) -> Option<&'static ProtectedName> {
    in_each_place(path, protected_at)
}

/// Whether no document of a run is written to a path: agents obey a file of such a name, or it is
/// protected.
#[must_use]
pub fn is_guarded(path: &Path) -> bool {
    let is_obeyed = |name: &OsStr| {
        name.eq_ignore_ascii_case(GIT) || OBEYED.iter().any(|it| name.eq_ignore_ascii_case(it))
    };
    path.iter().any(is_obeyed) || protected_in(path).is_some()
}

/// Calls `find` with each entry of a path and with the path after it, and returns the first result.
fn in_each_place<T>(path: &Path, find: impl Fn(&OsStr, &Path) -> Option<T>) -> Option<T> {
    let mut names = path.iter();
    std::iter::from_fn(|| Some((names.next()?, names.as_path())))
        .find_map(|(name, rest)| find(name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_known_as_it_is_in_other_case_and_below_any_folder() {
        for row in PROTECTED {
            let path = row.name.replace('*', "some");
            let path = path.trim_end_matches('/');
            let inside = format!("{path}/inside");
            for path in [path.to_owned(), path.to_uppercase(), format!("a/b/{path}"), inside] {
                let found = protected_in(Path::new(&path));
                assert!(found.is_some() && is_guarded(Path::new(&path)), "{path}");
            }
        }
    }

    #[test]
    fn each_row_names_one_file_and_says_who_runs_it_when_and_where_that_is_written() {
        for (at, row) in PROTECTED.iter().enumerate() {
            let (_, last) = row.split();
            assert!(row.parts().all(|it| !it.is_empty() && it != ".."), "{row:?}");
            assert!(row.name.matches('*').count() == usize::from(last.contains('*')), "{row:?}");
            assert!(!row.is_folder() || !row.is_pattern(), "{row:?}");
            assert!(row.source.starts_with("https://"), "{row:?}");
            assert!(row.when.starts_with("when ") || row.when.starts_with("after "), "{row:?}");
            let is_same = |it: &&ProtectedName| it.name.eq_ignore_ascii_case(row.name);
            assert_eq!(PROTECTED.iter().position(|it| is_same(&it)), Some(at), "{row:?}");
        }
    }

    #[test]
    fn a_name_beside_a_protected_one_is_not_protected() {
        for path in [
            ".cursor/rules/style.mdc",
            ".windsurf/rules/a.md",
            ".config",
            ".config/nextest.toml",
            ".github/workflows/ci.yml",
            "src/lefthook/mod.rs",
            "mise",
            "cargo/config.toml",
            "x.code-workspace.md",
            ".vscode.md",
            "a.envrc",
            "package.json",
        ] {
            assert_eq!(protected_in(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_folder_on_the_way_to_a_protected_file_is_not_replaced_unseen() {
        for path in [".cursor", ".cargo", "sub/.ssh", ".config/fish", ".Kiro"] {
            assert!(protected_in(Path::new(path)).is_some(), "{path}");
        }
    }

    /// The lines of the table in the documentation.
    fn table() -> String {
        let line = |row: &ProtectedName| {
            let ProtectedName { name, program, when, source, .. } = row;
            let depth = match row.depth {
                Depth::Top => "",
                Depth::Subfolders => ", also in subfolders",
            };
            let guard = match row.guard {
                Guard::Protected => "protected",
                Guard::Asked => "asked about",
            };
            format!("| `{name}`{depth} | {guard} | {program}, {when} | <{source}> |\n")
        };
        PROTECTED.iter().map(line).collect()
    }

    #[test]
    fn the_table_of_the_manual_has_these_rows_and_no_others() {
        let manual = include_str!("../../../docs/protected-files.md");
        let (_, after) = manual
            .split_once("| name | rule | program | source |\n| --- | --- | --- | --- |\n")
            .unwrap();
        let (rows, _) = after.split_once("\n\n").unwrap();
        assert_eq!(format!("{rows}\n"), table(), "docs/protected-files.md needs:\n{}", table());
    }
}
