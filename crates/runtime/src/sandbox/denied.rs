//! The files that `Read` deny rules name, found in the folders a command may read and kept.
//!
//! A rule is a pattern, and the kernel knows files only: the folders are walked once. From then on a walk looks at the times
//! of folders only, and reads those again in which something was made, renamed or removed.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::Grant;

/// How old a folder's time must be so that no later change can have the same: clocks of file systems tick that coarsely.
const SETTLED: Duration = Duration::from_millis(50);

/// How many sets of rules and folders are kept: worktrees of a team have one each.
const MOST_KEPT: usize = 64;

/// What was found, for all commands of a run.
#[derive(Debug, Default)]
pub(super) struct DeniedFiles {
    walks: Mutex<HashMap<Walked, Walk>>,
}

/// By which rules and from where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Walked {
    rules: Vec<String>,
    folders: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct Walk {
    folders: HashMap<PathBuf, Listing>,
}

/// What of one folder matters.
#[derive(Debug)]
struct Listing {
    /// When it was changed; nothing when that was only just.
    changed: Option<(i64, i64)>,
    folders: Vec<PathBuf>,
    denied: Vec<PathBuf>,
}

impl DeniedFiles {
    /// The files and folders that rules name: in the working folders, and in others below which a rule begins.
    pub(super) fn find(&self, grant: &Grant, others: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let rules = &grant.denied;
        if rules.is_empty() {
            return BTreeSet::new();
        }
        let mut folders: Vec<PathBuf> = grant.folders().filter_map(|path| fs::canonicalize(path).ok()).collect();
        let begins = rules.begins().cloned();
        folders.extend(begins.filter(|begin| others.iter().any(|it| begin.starts_with(it) && begin != it)));
        folders.sort();
        folders.dedup();
        let whole = folders.iter().chain(others).filter(|path| rules.names(path)).cloned();
        let mut found: BTreeSet<PathBuf> = whole.collect();
        let walked = Walked { rules: rules.texts().to_vec(), folders: folders.clone() };
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        if walks.len() >= MOST_KEPT && !walks.contains_key(&walked) {
            walks.clear();
        }
        let walk = walks.entry(walked).or_default();
        folders.retain(|path| !found.contains(path));
        walk.again(folders, &|path| rules.names(path), &mut found);
        found
    }
}

impl Walk {
    fn again(&mut self, begins: Vec<PathBuf>, is_denied: &dyn Fn(&Path) -> bool, found: &mut BTreeSet<PathBuf>) {
        let mut todo = begins;
        let mut seen = HashMap::with_capacity(self.folders.len());
        while let Some(folder) = todo.pop() {
            let Ok(metadata) = fs::symlink_metadata(&folder) else { continue };
            let changed = (metadata.mtime(), metadata.mtime_nsec());
            let kept = self.folders.remove(&folder).filter(|listing| listing.changed == Some(changed));
            let listing = kept.unwrap_or_else(|| Listing::read(&folder, &metadata, is_denied));
            found.extend(listing.denied.iter().cloned());
            todo.extend(listing.folders.iter().filter(|inner| !seen.contains_key(*inner)).cloned());
            seen.insert(folder, listing);
        }
        self.folders = seen;
    }
}

impl Listing {
    fn read(folder: &Path, metadata: &fs::Metadata, is_denied: &dyn Fn(&Path) -> bool) -> Self {
        let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        let changed = age.is_some_and(|age| age > SETTLED).then(|| (metadata.mtime(), metadata.mtime_nsec()));
        let mut listing = Self { changed, folders: Vec::new(), denied: Vec::new() };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if is_denied(&path) {
                // What a denied link leads to is denied with it, under its own name.
                listing.denied.extend(fs::canonicalize(&path));
            } else if kind.is_dir() {
                listing.folders.push(path);
            }
        }
        listing
    }
}
