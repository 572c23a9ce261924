//! Protects the team's own files and the user's settings in the configuration folder. No agent is
//! allowed to change them with its tools, in any permission mode and under any rule.
//!
//! If the change is visible in the call, this module denies the call with a helpful message. A
//! command can hide what it changes, so the sandbox protects the same files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pitcrew_process::sandbox::{OF_PITCREW, OF_TEAMS, OF_THE_USER, OPEN_OF_PITCREW};

use super::judge::Verdict;
use super::paths::{Target, lexical, resolve};
use super::shell::ShellWord;
use crate::trust::FILE as TRUST;

/// Maximum number of files in a protected folder that are compared with a file that has several
/// names.
const MOST_LOOKED: usize = 20_000;

/// The protected files and folders of one configuration folder.
#[derive(Clone, Debug, Default)]
pub(super) struct Guarded {
    root: PathBuf,
    kept: Vec<Kept>,
    /// Folders inside protected folders in which agents are allowed to work.
    open: Vec<Kept>,
}

/// A protected folder or file.
#[derive(Clone, Debug)]
struct Kept {
    whose: Whose,
    written: PathBuf,
    /// Two forms of the path: as written, and with symbolic links resolved. Both are in lower case.
    spellings: Vec<PathBuf>,
}

/// The only party that is allowed to change a protected file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Only pitcrew itself is allowed to change the file, through the team tools.
    Team,
    /// Only the user is allowed to change the file, outside of any agent.
    User,
}

impl Guarded {
    pub(super) fn of_root(root: &Path) -> Self {
        let of_teams =
            OF_TEAMS.iter().chain(&OF_PITCREW).map(|name| Kept::new(Whose::Team, root, name));
        let of_the_user =
            OF_THE_USER.iter().chain([&TRUST]).map(|name| Kept::new(Whose::User, root, name));
        let open = OPEN_OF_PITCREW.iter().map(|name| Kept::new(Whose::Team, root, name));
        Self {
            root: root.to_path_buf(),
            kept: of_the_user.chain(of_teams).collect(),
            open: open.collect(),
        }
    }

    /// Returns who owns the path if the path is protected or inside something protected, otherwise
    /// `None`. Names are compared without regard to case, because some file systems ignore case.
    /// Files are also compared by device and inode number, because one file may have several names.
    pub(super) fn holds(&self, target: &Target) -> Option<Whose> {
        let paths: Vec<PathBuf> = spellings(target).map(|path| folded(path)).collect();
        let by_name = |kept: &&Kept| {
            kept.spellings.iter().any(|it| paths.iter().any(|path| path.starts_with(it)))
        };
        // A symbolic link in an open folder may lead out of the folder. Therefore the written and
        // the resolved path must both be inside an open folder.
        let is_open = |path: &PathBuf| {
            self.open.iter().flat_map(|it| &it.spellings).any(|it| path.starts_with(it))
        };
        if paths.iter().all(is_open) {
            return None;
        }
        let found = self.kept.iter().find(by_name).map(|kept| kept.whose);
        found.or_else(|| self.holds_by_number(target))
    }

    /// Returns who owns the protected path if `target` is protected or contains something
    /// protected, otherwise `None`. Such a target must not be moved or removed.
    pub(super) fn lies_below(&self, target: &Target) -> Option<Whose> {
        let paths: Vec<PathBuf> = spellings(target).map(|path| folded(path)).collect();
        let is_below = |kept: &&Kept| {
            kept.spellings.iter().any(|it| paths.iter().any(|path| it.starts_with(path)))
        };
        // If the path contains folders of the user and folders of the team, choose a folder of the
        // team. These come last in the list. The denial for a team's folder tells the model how to
        // write to a teammate, which helps the model more than the denial for the user's folders.
        self.kept.iter().rfind(is_below).map(|kept| kept.whose)
    }

    fn holds_by_number(&self, target: &Target) -> Option<Whose> {
        let number =
            |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let guarded: Vec<_> = self
            .kept
            .iter()
            .filter_map(|kept| Some((number(&kept.written)?, kept.whose)))
            .collect();
        let path = target.resolved.as_ref()?;
        if let Some(whose) = self.holds_another_name_of(path) {
            return Some(whose);
        }
        let whose =
            |number| guarded.iter().find(|(kept, _)| *kept == number).map(|(_, whose)| *whose);
        // Check the parent folders too, because a protected folder may have another name.
        path.ancestors().filter_map(number).find_map(whose)
    }

    /// Returns who owns the protected file that has the path as another name. Only a file with
    /// several names is searched for.
    fn holds_another_name_of(&self, path: &Path) -> Option<Whose> {
        let metadata = fs::symlink_metadata(path).ok();
        let metadata = metadata.filter(|it| it.is_file() && it.nlink() > 1)?;
        let number = (metadata.dev(), metadata.ino());
        let is_same =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == number);
        let has = |kept: &&Kept| {
            let mut todo = vec![kept.written.clone()];
            let mut looked = 0;
            while let Some(folder) = todo.pop() {
                for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                    looked += 1;
                    if looked > MOST_LOOKED || is_same(&entry.path()) {
                        return looked <= MOST_LOOKED;
                    }
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        todo.push(entry.path());
                    }
                }
            }
            false
        };
        // Our own folder and plugins are left out: worktrees and packages there share files with
        // others.
        let is_searched = |kept: &&Kept| {
            !kept.written.ends_with("plugins")
                && !OF_PITCREW.iter().any(|name| kept.written.ends_with(name))
        };
        self.kept.iter().filter(is_searched).find(has).map(|kept| kept.whose)
    }

    /// Returns the beginning of a word's path that is known before the shell expands the rest of
    /// the word. The variables `$HOME` and `$CLAUDE_CONFIG_DIR` count as known.
    pub(super) fn known_part(&self, word: &ShellWord, home: Option<&Path>) -> Option<String> {
        if word.exact().is_some() || !word.text.is_empty() {
            return Some(word.text.clone());
        }
        let raw: String = word.raw.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
        let variables = [("HOME", home), ("CLAUDE_CONFIG_DIR", Some(self.root.as_path()))];
        let expanded = variables.into_iter().find_map(|(name, value)| {
            let rest = raw
                .strip_prefix(&format!("${name}"))
                .or_else(|| raw.strip_prefix(&format!("${{{name}}}")))?;
            let known = rest.split(['$', '*', '?', '[', '{', '`']).next().unwrap_or_default();
            // After the variable's name, only a slash or the end of the word is allowed: `$HOMEX`
            // is another variable.
            let whole = rest.is_empty() || rest.starts_with('/');
            value.filter(|_| whole).map(|value| format!("{}{known}", value.display()))
        });
        expanded.filter(|path| !path.is_empty())
    }
}

impl Kept {
    fn new(whose: Whose, root: &Path, name: &str) -> Self {
        let written = root.join(name);
        let paths = [Some(lexical(root, &written)), resolve(root, &written)];
        let spellings = paths.iter().flatten().map(|path| folded(path)).collect();
        Self { whose, spellings, written }
    }
}

/// Denies the call with a message that tells the model which tools to use instead.
pub(super) fn refusal(path: &str, whose: Whose) -> Verdict {
    Verdict::deny(match whose {
        Whose::Team => format!(
            "{path} belongs to the team's own files, which are not changed by hand: write to a teammate with SendMessage, \
             and make and change tasks with TaskCreate and TaskUpdate. Reading there is allowed"
        ),
        Whose::User => format!(
            "{path} belongs to the user's settings, which decide what agents may do: only the user changes them. Say what \
             should stand there, and the user can put it in. Reading there is allowed"
        ),
    })
}

fn spellings(target: &Target) -> impl Iterator<Item = &PathBuf> {
    [Some(&target.written), target.resolved.as_ref()].into_iter().flatten()
}

fn folded(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}
