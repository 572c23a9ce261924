//! Answers which git folders and object stores outside of a checkout the user trusts by name.

use std::path::{Path, PathBuf};

use pitcrew_process::sandbox::git_folder::TrustedStores;

use super::project::Project;
use super::record::Trust;

/// Returns the stores that checkouts may borrow: those of `for_this_run`, and those that the user's
/// answers below `root` name for the checkout. If an answer cannot be read, nothing of it counts.
#[must_use]
pub fn trusted_stores(root: &Path, for_this_run: &[PathBuf]) -> TrustedStores {
    let root = root.to_owned();
    let for_this_run = for_this_run.to_vec();
    TrustedStores::by(move |folder| {
        let mut trusted = for_this_run.clone();
        if let (Ok(project), Ok(trust)) = (Project::read(folder, &root), Trust::load(&root)) {
            let state = trust.state(&project);
            trusted.extend(project.counted(state).git_folders);
        }
        trusted
    })
}
