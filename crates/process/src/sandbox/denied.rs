//! Finds the files that an agent's deny rules match, in the folders that a command may read,
//! and caches the result.
//!
//! A rule is a pattern, but the kernel knows only files. Therefore the first search reads all
//! folders completely. Later searches check only the change times of folders. They read a folder
//! again if an entry in it was created, renamed or removed. A file that a rule once matched is found
//! under every name ([`super::pinned`]).

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::pinned::{Pinned, hashes};
use super::{DeniedPaths, Grant};

/// Minimum age of a folder's change time before the time is trusted. File system clocks are coarse,
/// so a later change within this time could get the same timestamp.
const SETTLED: Duration = Duration::from_millis(50);

/// Maximum number of cached searches. Each combination of rules and folders has its own search, so
/// each worktree of a team needs one.
const MOST_KEPT: usize = 64;

/// The cached searches. All commands of this sandbox share them.
#[derive(Debug, Default)]
pub(super) struct DeniedFiles {
    walks: Mutex<HashMap<Walked, Walk>>,
    pinned: Pinned,
}

/// The key of a cached search: the rules that it used and the folders that it searched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Walked {
    rules: Vec<String>,
    folders: Vec<PathBuf>,
}

/// The folders at which a search starts, each with its cached subfolders.
#[derive(Debug, Default)]
struct Walk {
    begins: Vec<Folder>,
    /// The version of the list of remembered files that the cached content is about.
    version: u64,
}

/// The cached content of one folder.
#[derive(Debug, Default)]
struct Folder {
    path: PathBuf,
    /// The change time of the folder when it was read. `None` if the folder was never read, or if
    /// it changed so recently that the time is not reliable.
    changed: Option<(i64, i64)>,
    folders: Vec<Self>,
    denied: Vec<PathBuf>,
}

/// Maximum number of searches for one command. A search is repeated if it finds a file that has
/// other names.
const MOST_SEARCHES: usize = 3;

impl DeniedFiles {
    /// Returns the files and folders that rules match or once matched. The search covers the
    /// working folders. It also covers the base folder of each rule if this base folder is below
    /// one of the folders `others`.
    pub(super) fn find(
        &self,
        rules: &DeniedPaths,
        root: &Path,
        grant: &Grant,
        others: &BTreeSet<PathBuf>,
    ) -> BTreeSet<PathBuf> {
        if rules.is_empty() {
            return BTreeSet::new();
        }
        let mut folders: Vec<PathBuf> =
            grant.folders().filter_map(|path| fs::canonicalize(path).ok()).collect();
        let begins = rules.begins().cloned();
        folders.extend(
            begins.filter(|begin| others.iter().any(|it| begin.starts_with(it) && begin != it)),
        );
        folders.sort();
        folders.dedup();
        let whole = folders.iter().chain(others).filter(|path| rules.names(path)).cloned();
        let mut found: BTreeSet<PathBuf> = whole.collect();
        let walked = Walked { rules: rules.texts().to_vec(), folders: folders.clone() };
        // Do not search a folder that is denied as a whole.
        folders.retain(|path| !found.contains(path));
        let rule_hashes = hashes(rules.texts());
        for _ in 0..MOST_SEARCHES {
            let version = self.pinned.refresh(root);
            let is_denied = |path: &Path, inode: u64| {
                rules.names(path)
                    || self.pinned.may_hold(inode) && self.pinned.holds(&rule_hashes, path)
            };
            self.search(&walked, &folders, version, &is_denied, &mut found);
            found.iter().for_each(|path| self.pinned.add(&rule_hashes, path));
            if self.pinned.refresh(root) == version {
                break;
            }
        }
        found
    }

    /// Returns true if the rules once matched the file at the path or a folder around it. The path
    /// must not contain symbolic links.
    pub(super) fn is_remembered(&self, rules: &[String], root: &Path, path: &Path) -> bool {
        if rules.is_empty() {
            return false;
        }
        self.pinned.refresh(root);
        self.pinned.holds_around(&hashes(rules), path)
    }

    fn search(
        &self,
        walked: &Walked,
        folders: &[PathBuf],
        version: u64,
        is_denied: &dyn Fn(&Path, u64) -> bool,
        found: &mut BTreeSet<PathBuf>,
    ) {
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        if walks.len() >= MOST_KEPT && !walks.contains_key(walked) {
            // When `MOST_KEPT` searches are cached, remove all of them. A repeated search costs
            // only time.
            walks.clear();
        }
        let walk = walks.entry(walked.clone()).or_default();
        if walk.version != version {
            *walk = Walk { version, ..Walk::default() };
        }
        walk.again(folders.to_vec(), is_denied, found);
    }
}

impl Walk {
    fn again(
        &mut self,
        begins: Vec<PathBuf>,
        is_denied: &dyn Fn(&Path, u64) -> bool,
        found: &mut BTreeSet<PathBuf>,
    ) {
        self.begins.retain(|folder| begins.contains(&folder.path));
        for path in begins {
            if !self.begins.iter().any(|folder| folder.path == path) {
                self.begins.push(Folder { path, ..Folder::default() });
            }
        }
        let mut todo: Vec<&mut Folder> = self.begins.iter_mut().collect();
        while let Some(folder) = todo.pop() {
            folder.look(is_denied);
            found.extend(folder.denied.iter().cloned());
            todo.extend(&mut folder.folders);
        }
    }
}

impl Folder {
    /// Reads the folder again if its change time (ctime) differs from the change time at the last
    /// search. The modification time (mtime) is not used, because any program can set it back.
    fn look(&mut self, is_denied: &dyn Fn(&Path, u64) -> bool) {
        let Ok(metadata) = fs::symlink_metadata(&self.path) else {
            *self = Self { path: std::mem::take(&mut self.path), ..Self::default() };
            return;
        };
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        if self.changed == Some(changed) {
            return;
        }
        // The change time was read before the folder's entries are read, so that a change during
        // the reading is noticed next time.
        self.changed = is_settled(changed).then_some(changed);
        self.denied.clear();
        let mut known: HashMap<PathBuf, Self> = std::mem::take(&mut self.folders)
            .into_iter()
            .map(|folder| (folder.path.clone(), folder))
            .collect();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if is_denied(&path, entry.ino()) {
                // If the denied entry is a symbolic link, also deny the link's target by the
                // target's own path.
                self.denied.extend(fs::canonicalize(&path));
            } else if kind.is_dir() {
                // Keep the cached content of a subfolder that still exists.
                self.folders
                    .push(known.remove(&path).unwrap_or_else(|| Self { path, ..Self::default() }));
            }
        }
    }
}

/// Returns true if a change time is so old that no later change can have the same time.
pub(super) fn is_settled((seconds, nanoseconds): (i64, i64)) -> bool {
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
    else {
        return false;
    };
    let time =
        SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds.min(999_999_999)));
    time.and_then(|time| SystemTime::now().duration_since(time).ok())
        .is_some_and(|age| age > SETTLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(walk: &mut Walk, top: &Path) -> Vec<String> {
        let mut found = BTreeSet::new();
        let is_denied = |path: &Path, _inode: u64| path.ends_with(".env");
        walk.again(vec![top.to_path_buf()], &is_denied, &mut found);
        found.iter().map(|path| path.strip_prefix(top).unwrap().display().to_string()).collect()
    }

    #[test]
    fn a_walk_sees_what_was_made_renamed_and_removed_since_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/.env"), "").unwrap();
        let mut walk = Walk::default();
        for _ in 0..2 {
            assert_eq!(found(&mut walk, &top), ["a/.env"]);
        }
        fs::write(top.join("a/b/.env"), "").unwrap();
        assert_eq!(found(&mut walk, &top), ["a/.env", "a/b/.env"]);
        fs::rename(top.join("a"), top.join("c")).unwrap();
        assert_eq!(found(&mut walk, &top), ["c/.env", "c/b/.env"]);
        fs::remove_dir_all(top.join("c/b")).unwrap();
        assert_eq!(found(&mut walk, &top), ["c/.env"]);
        fs::remove_dir_all(top.join("c")).unwrap();
        assert_eq!(found(&mut walk, &top), Vec::<String>::new());
    }

    #[test]
    fn a_folder_whose_time_is_set_back_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let before = fs::metadata(&top).unwrap().modified().unwrap() - Duration::from_secs(3600);
        let set_back = || fs::File::open(&top).unwrap().set_modified(before).unwrap();
        set_back();
        let mut walk = Walk::default();
        // Search until the folder's change time is old enough to be cached.
        while walk.begins.first().is_none_or(|folder| folder.changed.is_none()) {
            assert_eq!(found(&mut walk, &top), Vec::<String>::new());
        }
        fs::write(top.join(".env"), "").unwrap();
        set_back();
        assert_eq!(found(&mut walk, &top), [".env"]);
    }
}
