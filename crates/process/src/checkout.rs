//! The checkout that a folder lies in.

use std::path::Path;

/// The folder with the `.git` that git finds from here, whatever has that name.
pub fn checkout_around(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())
}
