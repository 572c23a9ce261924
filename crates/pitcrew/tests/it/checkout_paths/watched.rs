//! Watches everything outside of a checkout: who opens a file there, and what changes there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};

/// Files of a git folder that pitcrew itself reads to find out whether the folder names a checkout.
/// Nothing else of a folder outside is read.
const NAMES_THE_CHECKOUT: [&str; 5] = ["gitdir", "config", "config.worktree", "commondir", "HEAD"];

/// A folder outside of the checkout, as it was when the watch began.
pub(super) struct Watched {
    folder: PathBuf,
    before: BTreeMap<PathBuf, String>,
    inotify: OwnedFd,
    places: BTreeMap<i32, PathBuf>,
}

impl Watched {
    pub(super) fn new(folder: &Path) -> Self {
        let before = state_of(folder);
        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let seen = WatchFlags::OPEN
            | WatchFlags::ACCESS
            | WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::ATTRIB;
        let all = before.keys().map(|below| folder.join(below));
        let places = all
            .filter(|path| !path.is_symlink())
            .map(|path| (add_watch(&inotify, &path, seen).unwrap(), path))
            .collect();
        Self { folder: folder.to_owned(), before, inotify, places }
    }

    /// Returns what happened to the folder since the watch began, one line for each thing.
    pub(super) fn happened(self) -> BTreeSet<String> {
        let mut happened = self.read();
        let after = state_of(&self.folder);
        for path in self.before.keys().chain(after.keys()) {
            let (before, after) = (self.before.get(path), after.get(path));
            if before != after {
                happened.insert(format!("changed {}: {before:?} -> {after:?}", path.display()));
            }
        }
        happened
    }

    fn read(&self) -> BTreeSet<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        let mut opened = BTreeSet::new();
        while let Ok(event) = events.next() {
            let is_read = event.events().intersects(ReadFlags::OPEN | ReadFlags::ACCESS);
            // A folder's own watch names the entry. The entry's watch tells the same once more.
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            let Some(place) = self.places.get(&event.wd()).filter(|_| is_read) else { continue };
            let path = name.map_or_else(|| place.clone(), |name| place.join(name));
            let is_allowed = path
                .file_name()
                .is_some_and(|name| NAMES_THE_CHECKOUT.iter().any(|it| name == *it));
            if !is_allowed {
                let below = path.strip_prefix(&self.folder).unwrap_or(&path).display().to_string();
                opened.insert(format!("opened {below}"));
            }
        }
        opened
    }
}

/// Returns kind, mode, owner, size, time of the last change and content of all files below a folder.
fn state_of(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = path.symlink_metadata().unwrap();
        let mut state = format!(
            "mode {:o}, owner {}, {} bytes, {}.{}",
            meta.mode(),
            meta.uid(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.is_file() {
            state += &format!(", {:?}", String::from_utf8_lossy(&fs::read(&path).unwrap()));
        }
        found.insert(path.strip_prefix(folder).unwrap().to_owned(), state);
    }
    found
}
