//! What `cp` and `mv` make: every file of a tree, each at its own place.

use std::fs;
use std::path::{Path, PathBuf};

/// How many files a copied tree may have that is looked through.
const LIMIT: usize = 1_000;

/// The places of all files that come to be when a source is copied or moved. None when they cannot all be told: there are
/// too many, or links are among them, through which a later file would be written.
pub(super) fn landings(source: &Path, target: &Path) -> Option<Vec<PathBuf>> {
    let ends_in_name = source
        .components()
        .next_back()
        .is_some_and(|last| matches!(last, std::path::Component::Normal(_)));
    let keeps_name = ends_in_name && !source.to_string_lossy().ends_with("/.");
    let landing = match source.file_name().filter(|_| target.is_dir() && keeps_name) {
        Some(name) => target.join(name),
        None => target.to_path_buf(),
    };
    let mut all = vec![landing.clone()];
    let mut todo = vec![(source.to_path_buf(), landing)];
    while let Some((from, to)) = todo.pop() {
        let Ok(metadata) = fs::symlink_metadata(&from) else {
            continue;
        };
        if metadata.is_symlink() {
            return None;
        }
        if !metadata.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&from).ok()? {
            let name = entry.ok()?.file_name();
            let (from, to) = (from.join(&name), to.join(&name));
            all.push(to.clone());
            todo.push((from, to));
        }
        if all.len() > LIMIT {
            return None;
        }
    }
    Some(all)
}
