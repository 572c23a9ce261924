//! The checkout that a folder lies in.

use std::path::Path;

/// Returns the nearest folder, from here upwards, that contains a `.git` of any kind.
pub fn checkout_around(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())
}
