//! Temporary folders of demos that were killed. Each has a mark that names its process; the next demo removes the folders
//! whose process is dead.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;
use pitcrew_runtime::identity::ProcessIdentity;
use pitcrew_store::{LeaseName, own_mode};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::context::Context;
use crate::demo_repo::Showcase;
use crate::failure::Failure;

/// How the names of the folders begin.
pub(crate) const PREFIX: &str = "pitcrew-demo-";

/// The file that names the process of a demo.
const MARK: &str = ".pitcrew-demo";

/// The longest mark that is read.
const MARK_BYTES: u64 = 1_000;

/// Marks a folder as the temporary one of this process.
///
/// # Errors
/// When the mark cannot be written.
pub(crate) fn mark(folder: &Path) -> io::Result<()> {
    let text = serde_json::to_vec(&ProcessIdentity::own())?;
    own_mode::file_options().write(true).create_new(true).open(folder.join(MARK))?.write_all(&text)
}

/// Takes the mark away: the folder belongs to the user from now on, and no demo removes it.
///
/// # Errors
/// When it is there and cannot be removed.
pub(crate) fn unmark(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(MARK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes the folders of dead demos. A folder that cannot be removed stays, and the next demo tries again.
///
/// # Errors
/// When the settings cannot be used.
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

/// Whether it is a folder of this user, and no link to one.
fn is_own_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw())
}

/// Whether the folder has a mark of this user that names a process which is dead.
fn is_dead(folder: &Path) -> bool {
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

/// Whether another process goes on with the demo's team: `run --resume` does not take the mark away.
async fn is_resumed(at_root: &Context, team: &str) -> Result<bool, Failure> {
    let team = at_root.teams()?.at(&TeamDir::of(team))?;
    // A lease that cannot be read may be held.
    Ok(team.lease_holder(&LeaseName::Run).await.map_or(true, |holder| holder.is_some()))
}
