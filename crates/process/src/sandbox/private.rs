//! The temporary folders of sandboxed commands. A temporary folder is reused by later commands and
//! removed when this process ends.
//!
//! The folders are in `pitcrew/sandbox` below the configuration root. Each process that starts
//! commands has its own folder there. If a process is killed, the next process removes the folder
//! of the killed process. A command can write only in the temporary folder that it was given, even
//! in the sandbox profile *free*. Otherwise it could put a symbolic link in place of a folder that
//! is later mounted writable.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};

use crate::identity::ProcessIdentity;
use crate::own_mode;

/// Folder below the configuration root that contains one folder for each process.
const OF_PROCESSES: [&str; 2] = ["pitcrew", "sandbox"];

/// Folder below the configuration root with the temporary files of commands in the sandbox profile
/// *free*. Earlier versions of pitcrew stored the folders of the processes here.
const OF_FREE: [&str; 2] = ["pitcrew", "tmp"];

/// Permission bits of a folder that only the user is allowed to access.
const OWN: u32 = 0o700;

/// The folder of this process. It contains all temporary folders that this process gives to
/// commands.
#[derive(Debug)]
pub(super) struct Workshop {
    folder: PathBuf,
    /// The mount points of each set of temporary folders. The mount points are inside these
    /// folders. The index in this list is the number in the name of the set's folder.
    lasting: Mutex<Vec<BTreeSet<PathBuf>>>,
}

/// The temporary folders that commands with the same mount points share.
#[derive(Debug, Clone)]
pub(super) struct Lasting(PathBuf);

/// A temporary folder that is used only once. Dropping this value removes the folder.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
}

impl Workshop {
    /// Creates the folder of this process below the configuration root, and removes the folders of
    /// processes that no longer run.
    ///
    /// # Errors
    /// If a folder cannot be created, or if something else is in its place.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        // Earlier versions of pitcrew stored the processes' folders here.
        sweep(&root.join(OF_FREE.iter().collect::<PathBuf>()));
        let temporary = own_mode::folder_below(root, &OF_PROCESSES)?;
        sweep(&temporary);
        let own = ProcessIdentity::own();
        let folder = temporary.join(format!(
            "{}.{}.{}",
            own.pid,
            own.start_ticks,
            uuid::Uuid::new_v4().simple()
        ));
        DirBuilder::new().mode(OWN).create(&folder)?;
        Ok(Self { folder, lasting: Mutex::default() })
    }

    /// Returns the path of this process's folder.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns the paths of an empty file and an empty folder that nobody is allowed to access.
    /// They are mounted over files and folders that a command must not read.
    ///
    /// # Errors
    /// If the file or the folder cannot be created.
    pub(super) fn stand_ins(&self) -> io::Result<(PathBuf, PathBuf)> {
        let (file, folder) = (self.folder.join("empty-file"), self.folder.join("empty-folder"));
        if !folder.is_dir() {
            fs::write(&file, "")?;
            fs::set_permissions(&file, Permissions::from_mode(0o000))?;
            DirBuilder::new().mode(0o000).create(&folder)?;
        }
        Ok((file, folder))
    }

    /// Returns the set of temporary folders for commands that have mounts at the paths `mounted`
    /// inside these folders. Creates the set if there is none for these paths.
    ///
    /// If a command had no mount point at one of these paths, it could create a symbolic link
    /// there, and the mount of a later command would follow the link. Therefore only commands with
    /// the same mount points share temporary folders.
    ///
    /// # Errors
    /// If a folder cannot be created.
    pub(super) fn lasting(&self, mounted: BTreeSet<PathBuf>) -> io::Result<Lasting> {
        let mut known = self.lasting.lock().unwrap_or_else(PoisonError::into_inner);
        let number = known.iter().position(|it| *it == mounted).unwrap_or(known.len());
        let path = self.folder.join(format!("lasting-{number}"));
        if number == known.len() {
            DirBuilder::new().mode(OWN).create(&path)?;
            known.push(mounted);
        }
        Ok(Lasting(path))
    }

    /// Creates a temporary folder that is removed when the returned value is dropped.
    ///
    /// # Errors
    /// If the folder cannot be created.
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

impl Lasting {
    /// Returns the folder called `name`. Creates the folder if it is missing.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub(super) fn folder(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        own_mode::make_folder(&path)?;
        Ok(path)
    }
}

impl PrivateFolder {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        beside(move || remove(&path));
    }
}

/// Runs `work` in the background, on a blocking thread if there is an async runtime. The caller
/// does not wait for `work`, because a busy file system may be slow.
pub(super) fn beside(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_none) => work(),
    }
}

/// Returns the folder below the configuration root for temporary files of commands in the sandbox
/// profile *free*. Creates the folder if it is missing.
///
/// # Errors
/// If a folder cannot be created, or if something else is in its place.
pub(super) fn temporary_below(root: &Path) -> io::Result<PathBuf> {
    own_mode::folder_below(root, &OF_FREE)
}

/// Removes the folders of processes that no longer run. Two kinds of folders are not removed:
/// folders of other users, and folders whose names do not have the format of [`Workshop::open`].
fn sweep(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let is_dead =
            owner(&entry.file_name().to_string_lossy()).is_some_and(|owner| !owner.is_alive());
        if is_dead && fs::symlink_metadata(entry.path()).is_ok_and(|meta| is_ours(&meta)) {
            remove(&entry.path());
        }
    }
}

fn is_ours(meta: &Metadata) -> bool {
    meta.is_dir()
        && meta.uid() == rustix::process::geteuid().as_raw()
        && meta.mode() & 0o7777 == OWN
}

/// Parses the process identity from a folder name. Returns `None` if the name does not have exactly
/// the format of [`Workshop::open`].
fn owner(name: &str) -> Option<ProcessIdentity> {
    let mut parts = name.split('.');
    let (pid, start_ticks, unique) =
        (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let owner = ProcessIdentity { pid, start_ticks };
    let is_unique =
        unique.len() == 32 && unique.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_unique && name == format!("{pid}.{start_ticks}.{unique}")).then_some(owner)
}

/// Removes a folder, even if a command removed the permissions to access the folder. Symbolic links
/// inside are removed and not followed. If another file system is mounted inside, the folder is not
/// removed.
fn remove(folder: &Path) {
    let removed = match has_a_mount(folder) {
        true => Err(io::Error::other("another file system is mounted in it")),
        false => fs::remove_dir_all(folder).or_else(|_unwritable| {
            open_up(folder);
            fs::remove_dir_all(folder)
        }),
    };
    if let Err(problem) = removed
        && problem.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %problem, "a temporary folder is left");
    }
}

/// Returns true if anything below the folder is on another device, which means that a file system
/// is mounted there.
fn has_a_mount(folder: &Path) -> bool {
    let Ok(device) = fs::symlink_metadata(folder).map(|meta| meta.dev()) else { return false };
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match fs::symlink_metadata(entry.path()) {
                Ok(meta) if meta.dev() != device => return true,
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    false
}

/// Restores the user's permissions for a folder and its subfolders. Each subfolder is opened
/// relative to its parent folder, because a command that still runs may replace folders by symbolic
/// links.
fn open_up(folder: &Path) {
    if let Err(problem) = open_up_in(CWD, folder) {
        tracing::debug!(folder = %folder.display(), %problem, "the rights to a temporary folder stay");
    }
}

fn open_up_in(above: BorrowedFd<'_>, name: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(above, name, flags | OFlags::PATH, Mode::empty())?;
    let at = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let _refused = fs::set_permissions(at, Permissions::from_mode(OWN));
    let listed = openat(&opened, c".", flags, Mode::empty())?;
    for entry in Dir::read_from(&listed)?.flatten() {
        let name = entry.file_name();
        if entry.file_type() == FileType::Directory && name != c"." && name != c".." {
            let _refused =
                open_up_in(opened.as_fd(), Path::new(OsStr::from_bytes(name.to_bytes())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_a_name_of_our_own_form_has_an_owner() {
        assert_eq!(
            owner(&format!("12.34.{ID}")),
            Some(ProcessIdentity { pid: 12, start_ticks: 34 })
        );
        for name in ["2023999.12.31", "12.34.holidays", "1.2.", "12.34", "a.b.c", ".12.34"] {
            assert_eq!(owner(name), None, "{name}");
        }
        for name in [
            format!("012.34.{ID}"),
            format!("+12.34.{ID}"),
            format!("12.34.{ID}.1"),
            format!("12.34.{}", ID.to_uppercase()),
        ] {
            assert_eq!(owner(&name), None, "{name}");
        }
    }

    #[test]
    fn only_provable_leftovers_of_dead_processes_are_swept_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        let root = dir.path().join("root");
        let temporary = root.join("pitcrew/sandbox");
        fs::create_dir_all(outside.join("photos")).unwrap();
        let make = |name: &str, mode: u32| {
            let path = temporary.join(name);
            fs::create_dir_all(path.join("in")).unwrap();
            symlink(&outside, path.join("in/link")).unwrap();
            fs::set_permissions(path.join("in"), Permissions::from_mode(0o000)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let own = ProcessIdentity::own();
        let dead = make(&format!("{}.1.{ID}", u32::MAX), OWN);
        let kept = [
            make(&format!("{}.2.{ID}", u32::MAX), 0o755),
            make("2023999.12.31", OWN),
            make(&format!("{}.{}.{ID}", own.pid, own.start_ticks), OWN),
        ];
        let link = temporary.join(format!("{}.3.{ID}", u32::MAX));
        symlink(&outside, &link).unwrap();
        let workshop = Workshop::open(&root).unwrap();
        assert!(!dead.exists());
        assert!(
            kept.iter().all(|path| path.is_dir())
                && link.is_symlink()
                && outside.join("photos").is_dir()
        );
        drop(workshop);
        for path in kept {
            remove(&path);
            assert!(!path.exists() && outside.join("photos").is_dir());
        }
    }

    #[test]
    fn commands_with_the_same_mounts_share_temporary_folders_and_others_have_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let workshop = Workshop::open(dir.path()).unwrap();
        let folder = |paths: &[&str]| {
            workshop
                .lasting(paths.iter().map(PathBuf::from).collect())
                .unwrap()
                .folder("tmp")
                .unwrap()
        };
        assert_eq!(folder(&["/tmp/a"]), folder(&["/tmp/a"]));
        assert_ne!(folder(&["/tmp/a"]), folder(&[]));
        assert_eq!(fs::metadata(folder(&[])).unwrap().mode() & 0o777, OWN);
        let kept = folder(&[]);
        drop(workshop);
        assert!(!kept.exists());
    }

    #[test]
    fn the_folder_is_opened_through_no_link_but_the_root() {
        for linked in ["pitcrew", "pitcrew/sandbox"] {
            let dir = tempfile::tempdir().unwrap();
            let (outside, root) = (dir.path().join("outside"), dir.path().join("root"));
            fs::create_dir_all(outside.join(format!("{}.1.{ID}", u32::MAX))).unwrap();
            let link = root.join(linked);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&outside, &link).unwrap();
            assert!(Workshop::open(&root).is_err());
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        }
        let dir = tempfile::tempdir().unwrap();
        symlink(dir.path(), dir.path().join("root")).unwrap();
        assert!(Workshop::open(&dir.path().join("root")).is_ok());
    }
}
