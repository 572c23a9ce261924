//! The rules for ignored files in each folder, as in ripgrep. The rules come from `.ignore`,
//! `.gitignore`, and the repository's `info/exclude`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use pitcrew_process::given_file::{Refused, contents};
use pitcrew_process::handle::Folder;
use rustix::fs::FileType;

/// Maximum size of an ignore file in bytes. No normal ignore file is larger.
const LIMIT_BYTES: u64 = 4 * 1024 * 1024;

/// The error for an ignore file that cannot be used. The folder of this file is not searched.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read, so nothing below it is searched: {refused}", .file.display())]
pub(super) struct Unread {
    file: PathBuf,
    refused: Refused,
}

/// The ignore rules of a folder and of its parent folders.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    /// The rules of one folder, with one entry for each kind of ignore file, in the order of
    /// `FILES`. The first kind that has a matching rule for a path decides. Within one kind, the
    /// rules of a folder are checked before the rules of its parent folder.
    rules: [Option<Gitignore>; 3],
    above: Option<Rc<Ignored>>,
}

/// The ignore files of a folder, the most important first. The last one applies to a whole
/// repository.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// The name of the file or folder that marks a git repository.
const GIT: &str = ".git";

impl Ignored {
    /// Returns the ignore rules that the parent folders of a real path define.
    ///
    /// # Errors
    /// When an ignore file in one of these folders is not a plain file within the size limit.
    pub(super) fn above(real: &Path) -> Result<Rc<Self>, Unread> {
        let mut ignored = Rc::default();
        let above: Vec<&Path> = real.ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            // If a folder cannot be opened, its ignore files cannot be read and have no effect.
            if let Ok(open) = Folder::open(folder) {
                ignored = Self::of_folder(&open, folder, &ignored, None)?;
            }
        }
        Ok(ignored)
    }

    /// Returns the ignore rules that apply in a folder. `above` contains the rules of the parent
    /// folders. `names` contains the names of the folder's entries, or is `None` if they are not
    /// known.
    ///
    /// # Errors
    /// When one of the folder's ignore files is not a plain file within the size limit.
    pub(super) fn of_folder(
        folder: &Folder,
        real: &Path,
        above: &Rc<Self>,
        names: Option<&[(OsString, FileType)]>,
    ) -> Result<Rc<Self>, Unread> {
        let mut rules = [const { None }; 3];
        for (rule, file) in rules.iter_mut().zip(FILES) {
            // If the names of the folder's entries are known, do not try to open ignore files that
            // do not exist.
            let begins = file.split('/').next().unwrap_or(file);
            if names.is_none_or(|names| names.iter().any(|(name, _)| name == begins)) {
                *rule = read_rules(folder, real, Path::new(file))?;
            }
        }
        if let [_, _, exclude @ None] = &mut rules
            && let Some(file) = exclude_of_worktree(folder, names)
        {
            *exclude = read_rules(folder, real, &file)?;
        }
        if rules.iter().all(Option::is_none) {
            // The folder has no ignore rules of its own, like most folders. It uses the rules of
            // its parent folder.
            return Ok(above.clone());
        }
        Ok(Rc::new(Self { rules, above: Some(above.clone()) }))
    }

    /// Whether these rules ignore a real path. If no rule matches the path, the user's global
    /// ignore rules decide.
    pub(super) fn matches(&self, path: &Path, is_folder: bool, global: &Gitignore) -> bool {
        let mut found = [const { Match::None }; 3];
        let mut ignored = Some(self);
        while let Some(Self { rules, above }) = ignored {
            for (found, rule) in found.iter_mut().zip(rules) {
                if found.is_none()
                    && let Some(rule) = rule
                {
                    *found = rule.matched(path, is_folder);
                }
            }
            ignored = above.as_deref();
        }
        let decides = found.into_iter().find(|found| !found.is_none());
        decides.unwrap_or_else(|| global.matched(path, is_folder)).is_ignore()
    }
}

/// Reads an ignore file, and returns `None` if it cannot be read. The path of the file is allowed
/// to contain links: this is safe, because the content only selects files and is never shown.
fn read_rules(folder: &Folder, real: &Path, file: &Path) -> Result<Option<Gitignore>, Unread> {
    let bytes = match read(folder, file) {
        Ok(bytes) => bytes,
        // An ignore file that cannot be read has no effect, as in git.
        Err(Refused::Io(_)) => return Ok(None),
        Err(refused) => return Err(Unread { file: real.join(file), refused }),
    };
    let mut builder = GitignoreBuilder::new(real);
    for line in String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').lines() {
        if let Err(problem) = builder.add_line(None, line) {
            tracing::debug!(file = %real.join(file).display(), %problem, "a line of an ignore file was passed over");
        }
    }
    match builder.build() {
        Ok(rules) => Ok(Some(rules)),
        Err(problem) => {
            tracing::debug!(file = %real.join(file).display(), %problem, "an ignore file was passed over");
            Ok(None)
        }
    }
}

fn read(folder: &Folder, file: &Path) -> Result<Vec<u8>, Refused> {
    let (open, _stat) = folder.file_behind(file)?;
    contents(open, LIMIT_BYTES)
}

/// Returns the path of `info/exclude` for a folder that is a git worktree. In a worktree, `.git` is
/// a file that names the worktree's git folder. That git folder names the git folder of the main
/// repository, which contains `info/exclude`.
fn exclude_of_worktree(folder: &Folder, names: Option<&[(OsString, FileType)]>) -> Option<PathBuf> {
    let is_file =
        |(name, kind): &(OsString, FileType)| name == GIT && *kind == FileType::RegularFile;
    if !names.is_none_or(|names| names.iter().any(is_file)) {
        return None;
    }
    let first_line = |file: &Path| {
        let text = String::from_utf8(read(folder, file).ok()?).ok()?;
        text.lines().next().map(str::to_owned)
    };
    let git_folder = PathBuf::from(first_line(Path::new(GIT))?.strip_prefix("gitdir: ")?);
    let common = first_line(&git_folder.join("commondir"))?;
    Some(git_folder.join(common).join("info/exclude"))
}
