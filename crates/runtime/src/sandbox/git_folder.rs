//! Where the git folders of a working folder are, read as git does, without starting it.
//!
//! A folder is believed to be git's only when it looks like it: a `.git` file could name any folder.

use std::fs;
use std::path::{Path, PathBuf};

/// How long a `.git` or `commondir` file can be.
const MOST_BYTES: u64 = 4096;

/// How many other stores of objects are looked at.
const MOST_ALTERNATES: usize = 16;

/// The git folders of a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitFolder {
    /// The top of the checkout.
    pub(super) top: PathBuf,
    /// Its own git folder.
    pub(super) own: PathBuf,
    /// The folder that all worktrees share; its own where there are none.
    pub(super) common: PathBuf,
    /// Other stores of objects that it borrows from.
    pub(super) borrowed: Vec<PathBuf>,
}

impl GitFolder {
    /// Finds the git folder of the checkout that a folder lies in.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let folder = fs::canonicalize(folder).ok()?;
        folder.ancestors().find_map(Self::at)
    }

    fn at(top: &Path) -> Option<Self> {
        let entry = top.join(".git");
        let metadata = fs::symlink_metadata(&entry).ok()?;
        let own = if metadata.is_file() {
            let text = read(&entry)?;
            fs::canonicalize(top.join(text.strip_prefix("gitdir:")?.trim())).ok()?
        } else {
            fs::canonicalize(&entry).ok()?
        };
        let common = match read(&own.join("commondir")) {
            Some(path) => fs::canonicalize(own.join(path.trim())).ok()?,
            None => own.clone(),
        };
        if !own.join("HEAD").is_file() || !is_repository(&common) {
            return None;
        }
        let borrowed = borrowed(&common.join("objects"));
        Some(Self { top: top.to_path_buf(), own, common, borrowed })
    }

    /// All of them.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.own, &self.common].into_iter().chain(&self.borrowed).map(PathBuf::as_path)
    }
}

fn is_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

fn read(file: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return None;
    }
    fs::read_to_string(file).ok()
}

/// Stores that `objects/info/alternates` names, and theirs.
fn borrowed(objects: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut todo = vec![objects.to_path_buf()];
    while let Some(objects) = todo.pop() {
        let Some(text) = read(&objects.join("info/alternates")) else { continue };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Ok(store) = fs::canonicalize(objects.join(line)) else { continue };
            let is_store = store.ends_with("objects") && store.parent().is_some_and(is_repository);
            if is_store && !found.contains(&store) && found.len() < MOST_ALTERNATES {
                found.push(store.clone());
                todo.push(store);
            }
        }
    }
    found
}
