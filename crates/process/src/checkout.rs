//! Finds the git checkout that contains a folder.

use std::path::Path;

/// Returns the nearest folder that contains an entry named `.git` of any kind: `folder` itself or
/// one of its parent folders.
pub fn checkout_around(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())
}
