//! Remembers the files that rules deny by what they are, not by their paths.
//!
//! A rule is a pattern of paths, and a command that runs freely can rename a folder, so that no rule
//! matches any more. Therefore each file and folder that a rule once matched stays denied under
//! every name, as long as a process that learned of it lives. The processes of a machine's user
//! share one list below the configuration root. They only append to it, so no lock is needed. The
//! first process that finds nobody else at the list empties it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::{self, File, Metadata, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::places::Identity;
use crate::own_mode;

/// The list's path below the configuration root.
const LIST: &str = "pitcrew/denied-files";

/// Maximum number of remembered files. Further ones are denied by their paths only.
const MOST_PINS: usize = 50_000;

/// Maximum number of bytes of the list that are read.
const MOST_BYTES: u64 = 16 << 20;

/// Maximum number of entries of denied folders that are searched for files with several names.
const MOST_SEARCHED: usize = 100_000;

/// Maximum number of entries of a protected folder that are searched for links.
const MOST_SEARCHED_FOR_LINKS: usize = 20_000;

/// The files that rules matched, of this process and of all others at the same root.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pins: HashMap<u64, Vec<Pin>>,
    count: usize,
    list: Option<List>,
    is_opened: bool,
    /// Grows whenever a file becomes known that a finished search may have passed over.
    version: u64,
}

#[derive(Debug)]
struct List {
    file: File,
    read: u64,
}

/// A file that rules matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    device: u64,
    inode: u64,
    /// The time at which the file was made. It tells the file from a later one with the same
    /// number. Not every file system has it.
    born: Option<(u64, u32)>,
    /// Hashes of all rules of the agent for which the file was found.
    rules: BTreeSet<u64>,
}

impl Pin {
    fn of(metadata: &Metadata, rules: &BTreeSet<u64>) -> Self {
        let born = metadata.created().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: born.map(|it| (it.as_secs(), it.subsec_nanos())),
            rules: rules.clone(),
        }
    }

    fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode, self.born) == (other.device, other.inode, other.born)
    }
}

/// Returns hashes of rules, by which the list names them.
pub(super) fn hashes(rules: &[String]) -> BTreeSet<u64> {
    let hash = |rule: &String| {
        let mut hasher = DefaultHasher::new();
        rule.hash(&mut hasher);
        hasher.finish()
    };
    rules.iter().map(hash).collect()
}

impl Pinned {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what other processes have added to the list. Returns the version of the list.
    pub(super) fn refresh(&self, root: &Path) -> u64 {
        let mut state = self.state();
        if !state.is_opened {
            state.is_opened = true;
            let opened = List::open(root);
            let report = |error: &io::Error| {
                tracing::warn!(%error, "denied files are remembered by this process alone");
            };
            state.list = opened.inspect_err(report).ok();
        }
        let added = state.list.as_mut().map(List::added).unwrap_or_default();
        for pin in added {
            if state.keep(pin) {
                state.version += 1;
            }
        }
        state.version
    }

    /// Remembers a file or folder that the rules match, and the files in the folder that have other
    /// names too.
    pub(super) fn add(&self, rules: &BTreeSet<u64>, path: &Path) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        let pin = Pin::of(&metadata, rules);
        if self.state().knows(&pin) {
            return;
        }
        let inside = if metadata.is_dir() { linked_below(path) } else { Vec::new() };
        let own = std::iter::once(metadata);
        for metadata in own.chain(inside) {
            let has_other_names = metadata.is_file() && metadata.nlink() > 1;
            let pin = Pin::of(&metadata, rules);
            let mut state = self.state();
            if !state.keep(pin.clone()) {
                continue;
            }
            state.version += u64::from(has_other_names);
            if let Some(list) = &mut state.list {
                list.append(&pin);
            }
        }
    }

    /// Returns true if a remembered file has this number. Then [`Self::holds`] has the answer.
    pub(super) fn may_hold(&self, inode: u64) -> bool {
        self.state().pins.contains_key(&inode)
    }

    /// Returns true if these rules once matched the file or folder at the path.
    pub(super) fn holds(&self, rules: &BTreeSet<u64>, path: &Path) -> bool {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        if !self.may_hold(metadata.ino()) {
            return false;
        }
        let pin = Pin::of(&metadata, rules);
        self.state().knows(&pin)
    }

    /// Returns true if these rules once matched the file at the path or a folder around it.
    pub(super) fn holds_around(&self, rules: &BTreeSet<u64>, path: &Path) -> bool {
        !self.state().pins.is_empty() && path.ancestors().any(|it| self.holds(rules, it))
    }
}

impl State {
    /// Returns true if the file is remembered for some of the rules of `pin`.
    fn knows(&self, pin: &Pin) -> bool {
        let pins = self.pins.get(&pin.inode);
        pins.is_some_and(|pins| {
            pins.iter().any(|it| it.is_same_file(pin) && it.rules.is_subset(&pin.rules))
        })
    }

    /// Returns true if the file was not remembered before.
    fn keep(&mut self, pin: Pin) -> bool {
        if self.knows(&pin) || self.count >= MOST_PINS {
            return false;
        }
        self.count += 1;
        self.pins.entry(pin.inode).or_default().push(pin);
        true
    }
}

impl List {
    fn open(root: &Path) -> io::Result<Self> {
        let path = root.join(LIST);
        if let Some(folder) = path.parent() {
            own_mode::create_folders(folder)?;
        }
        let file = own_mode::file_options().read(true).append(true).create(true).open(&path)?;
        match file.try_lock() {
            // No other process uses the list, so it is about files of earlier runs.
            Ok(()) => file.set_len(0)?,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Never wait: whoever holds the list for itself must not stop commands.
        drop(file.try_lock_shared());
        Ok(Self { file, read: 0 })
    }

    /// Returns what was added since the last call.
    fn added(&mut self) -> Vec<Pin> {
        let mut text = Vec::new();
        let mut read = || {
            self.file.seek(SeekFrom::Start(self.read))?;
            (&self.file).take(MOST_BYTES).read_to_end(&mut text)
        };
        if read().is_err() {
            return Vec::new();
        }
        // The last line may not be whole yet.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read += u64::try_from(whole).unwrap_or_default();
        let lines = text.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    fn append(&mut self, pin: &Pin) {
        let line = serde_json::to_string(pin).map(|line| line + "\n");
        let written = line.map_err(io::Error::from).and_then(|line| {
            // One write, so that the lines of several processes do not mix.
            self.file.write_all(line.as_bytes())
        });
        if let Err(error) = written {
            tracing::warn!(%error, "a denied file is remembered by this process alone");
        }
    }
}

/// Returns the files in a folder that have several names.
fn linked_below(folder: &Path) -> Vec<Metadata> {
    let mut linked = Vec::new();
    let mut searched = 0;
    let mut todo = vec![folder.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            searched += 1;
            if searched > MOST_SEARCHED {
                tracing::warn!("not all names of denied files are known: there are too many");
                return linked;
            }
            // The metadata of an entry is that of a link itself.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                todo.push(entry.path());
            } else if metadata.is_file() && metadata.nlink() > 1 {
                linked.push(metadata);
            }
        }
    }
    linked
}

/// Returns the symbolic links in a folder and its subfolders.
pub(super) fn links_below(folder: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut searched = 0;
    let mut todo = VecDeque::from([folder.to_path_buf()]);
    // The outer folders come first, because programs read most of their files there.
    while let Some(folder) = todo.pop_front() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            searched += 1;
            if searched > MOST_SEARCHED_FOR_LINKS {
                tracing::warn!("not all links in protected folders are known: there are too many");
                return links;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push_back(entry.path()),
                Ok(kind) if kind.is_symlink() => links.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    links
}

/// Returns the paths in `folders` at which a file below one of `kept` has another name.
pub(super) fn other_names<'a>(
    kept: impl Iterator<Item = PathBuf>,
    folders: impl Iterator<Item = &'a Path>,
) -> BTreeSet<PathBuf> {
    let kept: Vec<PathBuf> = kept.collect();
    let own = kept.iter().filter_map(|path| fs::symlink_metadata(path).ok());
    let own = own.filter(|it| it.is_file() && it.nlink() > 1);
    let inside = kept.iter().filter(|path| path.is_dir()).flat_map(|path| linked_below(path));
    let files: BTreeSet<Identity> = own.chain(inside).map(|it| Identity::from(&it)).collect();
    let mut names = BTreeSet::new();
    // Files have several names only rarely. Then no folder is searched.
    if files.is_empty() {
        return names;
    }
    let mut todo: Vec<PathBuf> = folders.filter_map(|path| fs::canonicalize(path).ok()).collect();
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                todo.push(entry.path());
            } else if files.iter().any(|it| it.inode == entry.ino())
                && entry.metadata().is_ok_and(|it| files.contains(&Identity::from(&it)))
            {
                names.insert(entry.path());
            }
        }
    }
    names.retain(|name| !kept.iter().any(|kept| name.starts_with(kept)));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_at_one_root_share_what_they_know_and_the_next_run_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let rules = hashes(&["a".to_owned()]);
        let more = hashes(&["a".to_owned(), "b".to_owned()]);
        let (one, two) = (Pinned::default(), Pinned::default());
        let before = two.refresh(&root);
        one.refresh(&root);
        one.add(&rules, &file);
        assert!(two.refresh(&root) > before);
        let moved = dir.path().join("moved");
        fs::rename(&file, &moved).unwrap();
        for pinned in [&one, &two] {
            assert!(pinned.holds(&rules, &moved));
            assert!(pinned.holds(&more, &moved), "further rules take nothing away");
            assert!(!pinned.holds(&hashes(&["b".to_owned()]), &moved), "other agents may read it");
        }
        drop(one);
        drop(two);
        let next = Pinned::default();
        next.refresh(&root);
        assert!(!next.holds(&rules, &moved));
    }

    #[test]
    fn a_file_that_gets_the_number_of_a_removed_one_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let pinned = Pinned::default();
        let rules = hashes(&["a".to_owned()]);
        // Some file systems give the number of a removed file to the next one at once.
        for _ in 0..100 {
            fs::write(&file, "x").unwrap();
            let metadata = fs::symlink_metadata(&file).unwrap();
            assert!(metadata.created().is_err() || !pinned.holds(&rules, &file));
            pinned.add(&rules, &file);
            assert!(pinned.holds(&rules, &file));
            fs::remove_file(&file).unwrap();
        }
    }
}
