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

/// The folders that walks begin at, each with all below it.
#[derive(Debug, Default)]
struct Walk {
    begins: Vec<Folder>,
}

/// What of one folder matters.
#[derive(Debug, Default)]
struct Folder {
    path: PathBuf,
    /// The time of its last change; nothing when it was changed only just, or never read.
    changed: Option<(i64, i64)>,
    folders: Vec<Self>,
    denied: Vec<PathBuf>,
}

impl DeniedFiles {
    /// The files and folders that rules name: in the working folders, and in others below which a rule begins.
    pub(super) fn find(&self, grant: &Grant, others: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let rules = &grant.denied;
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
    fn again(
        &mut self,
        begins: Vec<PathBuf>,
        is_denied: &dyn Fn(&Path) -> bool,
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
    /// Reads the folder when something in it was made, renamed or removed since the last look. The time of its last change
    /// tells, not that of its content: any program can set the latter back.
    fn look(&mut self, is_denied: &dyn Fn(&Path) -> bool) {
        let Ok(metadata) = fs::symlink_metadata(&self.path) else {
            *self = Self { path: std::mem::take(&mut self.path), ..Self::default() };
            return;
        };
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        if self.changed == Some(changed) {
            return;
        }
        self.changed = is_settled(changed).then_some(changed);
        self.denied.clear();
        let mut known: HashMap<PathBuf, Self> = std::mem::take(&mut self.folders)
            .into_iter()
            .map(|folder| (folder.path.clone(), folder))
            .collect();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if is_denied(&path) {
                // What a denied link leads to is denied with it, under its own name.
                self.denied.extend(fs::canonicalize(&path));
            } else if kind.is_dir() {
                self.folders
                    .push(known.remove(&path).unwrap_or_else(|| Self { path, ..Self::default() }));
            }
        }
    }
}

/// Whether a time is so long ago that no later change can have the same.
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
        let is_denied = |path: &Path| path.ends_with(".env");
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
        // Until the folder's time is settled it is read each time anyway.
        while walk.begins.first().is_none_or(|folder| folder.changed.is_none()) {
            assert_eq!(found(&mut walk, &top), Vec::<String>::new());
        }
        fs::write(top.join(".env"), "").unwrap();
        set_back();
        assert_eq!(found(&mut walk, &top), [".env"]);
    }
}
