//! The folders that sandboxed commands have to themselves: one for each, removed after it.
//!
//! They lie below the root's `pitcrew/tmp`, in a folder of the process that started the commands. What a killed process left
//! there is removed by the next.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::identity::ProcessIdentity;

/// Only the user's.
const OWN: u32 = 0o700;

/// A folder of this process, with all that is made in it.
#[derive(Debug)]
pub(super) struct Workshop {
    folder: PathBuf,
}

/// A folder of one command; dropping it removes it.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    path: PathBuf,
}

impl Workshop {
    /// Makes the folder of this process, and removes those of processes that are gone.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn open(temporary: &Path) -> io::Result<Self> {
        fs::create_dir_all(temporary)?;
        let temporary = fs::canonicalize(temporary)?;
        sweep(&temporary);
        let own = ProcessIdentity::own();
        let folder = temporary.join(format!("{}.{}.{}", own.pid, own.start_ticks, uuid::Uuid::new_v4().simple()));
        DirBuilder::new().mode(OWN).create(&folder)?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// An empty file and an empty folder that nobody may read, to stand where something is withheld.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn stand_ins(&self) -> io::Result<(PathBuf, PathBuf)> {
        let (file, folder) = (self.folder.join("empty-file"), self.folder.join("empty-folder"));
        if !folder.is_dir() {
            fs::write(&file, "")?;
            fs::set_permissions(&file, Permissions::from_mode(0o000))?;
            DirBuilder::new().mode(0o000).create(&folder)?;
        }
        Ok((file, folder))
    }

    /// Makes a folder for one command.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn private(&self) -> io::Result<PrivateFolder> {
        let path = self.folder.join(uuid::Uuid::new_v4().simple().to_string());
        DirBuilder::new().mode(OWN).create(&path)?;
        Ok(PrivateFolder { path })
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

impl PrivateFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the folders of processes that are gone.
fn sweep(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        if owner(&entry.file_name().to_string_lossy()).is_some_and(|owner| !owner.is_alive()) {
            remove(&entry.path());
        }
    }
}

fn owner(name: &str) -> Option<ProcessIdentity> {
    let mut parts = name.split('.');
    let (pid, start_ticks, _unique) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    parts.next().is_none().then_some(ProcessIdentity { pid, start_ticks })
}

/// Removes a folder, also where a command took its own rights to it away.
fn remove(folder: &Path) {
    let removed = fs::remove_dir_all(folder).or_else(|_unwritable| {
        open_up(folder);
        fs::remove_dir_all(folder)
    });
    if let Err(problem) = removed
        && problem.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %problem, "a temporary folder is left");
    }
}

fn open_up(folder: &Path) {
    let _refused = fs::set_permissions(folder, Permissions::from_mode(OWN));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
