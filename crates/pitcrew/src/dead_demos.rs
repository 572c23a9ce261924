//! Removes the temporary folders of killed demos. Each folder has a mark file that names the demo's
//! process. A later demo removes the folders whose process is dead.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::TeamDir;
use pitcrew_team::store::{LeaseName, own_mode};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::context::Context;
use crate::demo_repo::Showcase;
use crate::failure::Failure;

/// The prefix of the names of temporary demo folders.
pub(crate) const PREFIX: &str = "pitcrew-demo-";

/// The name of the mark file. The file contains the identity of the demo's process.
const MARK: &str = ".pitcrew-demo";

/// The maximum number of bytes that are read from a mark file.
const MARK_BYTES: u64 = 1_000;

/// Marks a folder as the temporary folder of this process.
///
/// # Errors
/// Returns an error if the mark file cannot be written.
pub(crate) fn mark(folder: &Path) -> io::Result<()> {
    let text = serde_json::to_vec(&ProcessIdentity::own())?;
    own_mode::file_options().write(true).create_new(true).open(folder.join(MARK))?.write_all(&text)
}

/// Removes the mark file. From then on the folder belongs to the user, and no demo removes it.
///
/// # Errors
/// Returns an error if the mark file exists and cannot be removed.
#[expect(clippy::disallowed_methods, reason = "the mark of a demo is a file of this crate")]
pub(crate) fn unmark(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(MARK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes the folders of dead demos. If a folder cannot be removed, the next demo tries again.
///
/// # Errors
/// Returns an error if the settings cannot be used.
#[expect(clippy::disallowed_methods, reason = "the folder of a demo belongs to this crate")]
pub(crate) async fn remove(context: &Context, temporary: &Path, team: &str) -> Result<(), Failure> {
    for folder in dead(temporary) {
        if !is_resumed(&context.at_root(Showcase::root(&folder)), team).await? {
            let _removed_later = fs::remove_dir_all(folder);
        }
    }
    Ok(())
}

fn dead(temporary: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(temporary).into_iter().flatten().flatten();
    let named = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    named
        .map(|entry| entry.path())
        .filter(|folder| is_own_folder(folder) && is_dead(folder))
        .collect()
}

/// Returns whether the path is a real folder, not a link, and belongs to this user.
fn is_own_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw())
}

/// Returns whether the folder has a mark file that belongs to this user and names a dead process.
fn is_dead(folder: &Path) -> bool {
    // Other users can write to the temporary folder, so the mark file may be a link or a pipe that
    // another user created. With these flags, opening a link fails and opening a pipe does not
    // wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let Ok(file) = fs::OpenOptions::new().read(true).custom_flags(flags).open(folder.join(MARK))
    else {
        return false;
    };
    let is_own = file.metadata().is_ok_and(|it| it.is_file() && it.uid() == geteuid().as_raw());
    let mut text = Vec::new();
    let is_read = is_own && file.take(MARK_BYTES).read_to_end(&mut text).is_ok();
    let process = serde_json::from_slice::<ProcessIdentity>(&text).ok().filter(|_| is_read);
    process.is_some_and(|process| !process.is_alive())
}

/// Returns whether another process has resumed the demo's team. The mark file cannot tell this,
/// because `run --resume` does not remove the mark.
async fn is_resumed(at_root: &Context, team: &str) -> Result<bool, Failure> {
    let team = at_root.teams()?.at(&TeamDir::of(team))?;
    // If the lease cannot be read, a process may hold the lease. The team then counts as resumed.
    Ok(team.lease_holder(&LeaseName::Run).await.map_or(true, |holder| holder.is_some()))
}
