//! The team's own folders, which no agent changes by its tools, in any mode and whatever the rules say.
//!
//! What is seen here is refused with words that help. Commands can hide what they do; for those there is `confine`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::judge::Verdict;
use super::paths::{Target, lexical, resolve};
use super::shell::Word;
use crate::confine::KEPT;

/// The folders of a root that are guarded.
#[derive(Clone, Debug, Default)]
pub(super) struct Guarded {
    root: PathBuf,
    /// Each folder as written and with its links resolved, in small letters.
    folders: Vec<PathBuf>,
    /// The folders as written.
    written: Vec<PathBuf>,
}

impl Guarded {
    pub(super) fn of_root(root: &Path) -> Self {
        let written: Vec<PathBuf> = KEPT.iter().map(|name| root.join(name)).collect();
        let spellings = |folder: &PathBuf| [Some(lexical(root, folder)), resolve(root, folder)];
        let mut folders: Vec<PathBuf> =
            written.iter().flat_map(spellings).flatten().map(|path| folded(&path)).collect();
        folders.sort();
        folders.dedup();
        Self { root: root.to_path_buf(), folders, written }
    }

    /// Whether the path lies in a guarded folder, or is one. Letters of either case are the same, as on some systems, and
    /// a folder is known by its number too, whatever other names it has.
    pub(super) fn holds(&self, target: &Target) -> bool {
        let spellings = [Some(&target.written), target.resolved.as_ref()];
        let by_name = |path: &PathBuf| self.folders.iter().any(|folder| folded(path).starts_with(folder));
        spellings.into_iter().flatten().any(by_name) || self.holds_by_number(target)
    }

    /// Whether the path is a guarded folder or one is below it: then it may not be moved or removed.
    pub(super) fn lies_below(&self, target: &Target) -> bool {
        let spellings = [Some(&target.written), target.resolved.as_ref()];
        let is_above = |path: &PathBuf| self.folders.iter().any(|folder| folder.starts_with(folded(path)));
        spellings.into_iter().flatten().any(is_above)
    }

    fn holds_by_number(&self, target: &Target) -> bool {
        let number = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let guarded: Vec<_> = self.written.iter().filter_map(|folder| number(folder)).collect();
        let Some(path) = target.resolved.as_ref().filter(|_| !guarded.is_empty()) else {
            return false;
        };
        path.ancestors().filter_map(number).any(|number| guarded.contains(&number))
    }

    /// The beginning of a word's path that is known before the shell expands the rest. Variables that say where the home
    /// and the root are count as known.
    pub(super) fn known_part(&self, word: &Word, home: Option<&Path>) -> Option<String> {
        if word.exact().is_some() || !word.text.is_empty() {
            return Some(word.text.clone());
        }
        let raw: String = word.raw.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
        let variables = [("HOME", home), ("CLAUDE_CONFIG_DIR", Some(self.root.as_path()))];
        let expanded = variables.into_iter().find_map(|(name, value)| {
            let rest = raw.strip_prefix(&format!("${name}")).or_else(|| raw.strip_prefix(&format!("${{{name}}}")))?;
            let known = rest.split(['$', '*', '?', '[', '{', '`']).next().unwrap_or_default();
            let whole = rest.is_empty() || rest.starts_with('/');
            value.filter(|_| whole).map(|value| format!("{}{known}", value.display()))
        });
        expanded.filter(|path| !path.is_empty())
    }
}

/// What the model is told, with what to do instead.
pub(super) fn refusal(path: &str) -> Verdict {
    Verdict::deny(format!(
        "{path} belongs to the team's own files, which are not changed by hand: write to a teammate with SendMessage, \
         and make and change tasks with TaskCreate and TaskUpdate. Reading there is allowed"
    ))
}

fn folded(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}
