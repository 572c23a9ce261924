//! Lists the files that `cp` and `mv` create, including every file of a copied folder.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of files in a copied folder. Larger folders are not listed.
const LIMIT: usize = 1_000;

/// Returns the path of each file that a copy or move creates. Returns `None` if there are too many
/// files. Also returns `None` if the source contains a symbolic link: the copy then contains the
/// link too, and a later command could write through it to any place.
pub(super) fn landings(source: &Path, target: &Path) -> Option<Vec<PathBuf>> {
    let landing = landing(source, target);
    let mut all = vec![landing.clone()];
    let mut todo = vec![(source.to_path_buf(), landing)];
    while let Some((from, to)) = todo.pop() {
        let Ok(metadata) = fs::symlink_metadata(&from) else { continue };
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

/// Returns the path that `source` itself gets when it is copied or moved to `target`.
fn landing(source: &Path, target: &Path) -> PathBuf {
    let ends_in_name = source
        .components()
        .next_back()
        .is_some_and(|last| matches!(last, std::path::Component::Normal(_)));
    // `cp -r a/. b` copies the content of `a` and does not create `b/a`.
    let keeps_name = ends_in_name && !source.to_string_lossy().ends_with("/.");
    match source.file_name().filter(|_| target.is_dir() && keeps_name) {
        Some(name) => target.join(name),
        None => target.to_path_buf(),
    }
}
