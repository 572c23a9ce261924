//! Quarantine: a check of protected places that no mount can cover. A mount cannot cover a place
//! where nothing or only a symbolic link exists when a command in the sandbox profile *work*
//! starts. If the command creates a file at such a place, pitcrew renames the file after the
//! command has ended.
//!
//! The command may have removed all permissions from a folder on the path to the file. The folder
//! belongs to the user, so pitcrew restores the permissions while it renames the file. If the file
//! still cannot be renamed, the failure is reported as an error of the command. Each folder is
//! opened relative to its parent folder and never through a symbolic link, because other commands
//! may run meanwhile.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, fstat, openat, readlinkat, renameat, statat, symlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::unfinished::Record;

/// A part of the new name of a renamed file. It marks the file as quarantined.
const MARK: &str = "quarantined";

/// Mode bits that allow the user to list, change and enter a folder.
const ALL_OF_USER: u32 = 0o700;

/// The files that commands created in protected places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Appeared {
    /// Descriptions of the files that were renamed, with their new paths.
    pub aside: Vec<String>,
    /// Descriptions of the files that could not be renamed, with the reasons.
    pub left: Vec<String>,
}

impl Appeared {
    pub(super) fn add(&mut self, other: Self) {
        self.aside.extend(other.aside);
        self.left.extend(other.left);
    }

    fn note(&mut self, path: &Path, done: io::Result<Option<PathBuf>>) {
        match done {
            Ok(None) => {}
            Ok(Some(aside)) => {
                tracing::warn!(path = %path.display(), "a command made what decides rights or runs by itself");
                self.aside.push(format!("{} is now {}", path.display(), aside.display()));
            }
            Err(problem) => {
                tracing::error!(path = %path.display(), %problem, "what a command made is not put aside");
                self.left.push(format!("{}: {problem}", path.display()));
            }
        }
    }
}

/// A function that shows a warning to the user at once.
type Alarm = Box<dyn Fn(String) + Send + Sync>;

/// The files that commands created in protected places and that have not been reported yet.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<(Mutex<Appeared>, OnceLock<Alarm>)>);

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Told").field(&self.0.0).finish()
    }
}

impl Told {
    pub(super) fn take(&self) -> Appeared {
        std::mem::take(&mut *self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the function that warns the user about files that could not be renamed. Only the first
    /// call has an effect.
    pub(super) fn alarm_by(&self, alarm: Alarm) {
        let _first = self.0.1.set(alarm);
    }

    fn tell(&self, appeared: Appeared) {
        if let Some(alarm) = self.0.1.get() {
            for left in &appeared.left {
                alarm(format!(
                    "a sandboxed command made what decides rights or runs by itself, and it could not be put aside. Remove \
                     it before you work there: {left}"
                ));
            }
        }
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).add(appeared);
    }
}

/// A protected place that no mount covers while a command runs. Pitcrew checks the place after the
/// command has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Uncovered {
    /// The folder that contains the protected place, directly or in subfolders. All symbolic links
    /// in this path are resolved. The command is allowed to write this folder.
    open: PathBuf,
    /// The path of the protected place, relative to `open`.
    place: PathBuf,
    state: State,
}

/// The state that the protected place had before the command started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Nothing,
    Link {
        target: PathBuf,
    },
    /// The protected place is a folder. In each of its subfolders, an entry called `name` must not
    /// appear. The subfolders in `known` are excluded: they already had such an entry when the
    /// command started, and a mount protects the entry.
    EachFolder {
        name: String,
        known: Vec<PathBuf>,
    },
    /// The protected place is a folder. Entries whose name differs from a protected name only in
    /// case (`.CLAUDE`) must not appear in the folder, except the entries in `known`. If `is_each`
    /// is set, this applies to the entries of each subfolder, and the paths in `known` have two
    /// components.
    OtherCase {
        names: Vec<String>,
        known: Vec<PathBuf>,
        is_each: bool,
    },
}

/// Returns true if two file names differ only in case.
pub(super) fn is_other_case(entry: &Path, name: &str) -> bool {
    let entry = entry.to_string_lossy();
    entry != name && entry.to_lowercase() == name.to_lowercase()
}

impl Uncovered {
    /// Creates the record of a protected place at which nothing exists. Returns `None` if `path` is
    /// not below `open`.
    pub(super) fn nothing(open: &Path, path: &Path) -> Option<Self> {
        Self::at(open, path, State::Nothing)
    }

    /// Creates the record of a protected place at which a symbolic link exists.
    pub(super) fn link(open: &Path, path: &Path) -> Option<Self> {
        Self::at(open, path, State::Link { target: fs::read_link(path).ok()? })
    }

    /// Creates the record that forbids a new entry `name` in each subfolder of `folder`. Subfolders
    /// in `known` are excluded.
    pub(super) fn in_each(
        open: &Path,
        folder: &Path,
        name: &str,
        known: Vec<PathBuf>,
    ) -> Option<Self> {
        Self::at(open, folder, State::EachFolder { name: name.to_owned(), known })
    }

    /// Creates the record that forbids new entries in `folder` whose name differs from one of
    /// `names` only in case. If `is_each` is true, the record forbids such entries in each
    /// subfolder of `folder` instead. Entries in `known` are excluded.
    pub(super) fn other_case(
        open: &Path,
        folder: &Path,
        names: &[&str],
        known: Vec<PathBuf>,
        is_each: bool,
    ) -> Option<Self> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self::at(open, folder, State::OtherCase { names, known, is_each })
    }

    fn at(open: &Path, path: &Path, state: State) -> Option<Self> {
        let place = path.strip_prefix(open).ok()?.to_path_buf();
        Some(Self { open: open.to_path_buf(), place, state })
    }

    fn path(&self) -> PathBuf {
        self.open.join(&self.place)
    }

    /// Returns the paths at the protected place that seem to have been created or changed since the
    /// command started. This function changes nothing.
    pub(super) fn has_appeared(&self) -> Vec<PathBuf> {
        match &self.state {
            State::Nothing => self.first_other().into_iter().collect(),
            State::Link { target } => {
                let is_same = fs::read_link(self.path()).is_ok_and(|now| now == *target);
                if is_same { Vec::new() } else { vec![self.path()] }
            }
            State::EachFolder { .. } => {
                let Ok(entries) = fs::read_dir(self.path()) else { return Vec::new() };
                let names = entries.flatten().map(|entry| PathBuf::from(entry.file_name()));
                self.each(names).iter().flat_map(Self::has_appeared).collect()
            }
            State::OtherCase { .. } => {
                self.in_other_case(&entries_in).iter().flat_map(Self::has_appeared).collect()
            }
        }
    }

    /// Returns the path of the protected place if something exists there. If a component on the
    /// path is not a folder, returns the path of that component. Otherwise returns `None`.
    fn first_other(&self) -> Option<PathBuf> {
        let mut at = self.open.clone();
        for name in self.place.iter() {
            at.push(name);
            match fs::symlink_metadata(&at) {
                Ok(metadata) if metadata.is_dir() => {}
                Err(problem) if problem.kind() == io::ErrorKind::NotFound => return None,
                // This component is not a folder, or it cannot be read. In both cases assume that a
                // command created it.
                Ok(_) | Err(_) => return Some(at),
            }
        }
        Some(at)
    }

    /// Renames the files that a command created at the protected place.
    pub(super) fn restore(&self) -> Appeared {
        let mut appeared = Appeared::default();
        match &self.state {
            State::EachFolder { .. } => match self.names_in(&self.place) {
                Ok(names) => {
                    self.each(names.into_iter()).iter().for_each(|it| appeared.add(it.restore()))
                }
                Err(problem) => appeared.note(&self.path(), Err(problem)),
            },
            State::OtherCase { .. } => {
                let problems = RefCell::new(Vec::new());
                let names = |folder: &Path| {
                    let place = folder.strip_prefix(&self.open).unwrap_or(folder);
                    self.names_in(place).unwrap_or_else(|problem| {
                        problems.borrow_mut().push((folder.to_path_buf(), problem));
                        Vec::new()
                    })
                };
                self.in_other_case(&names).iter().for_each(|it| appeared.add(it.restore()));
                problems
                    .into_inner()
                    .into_iter()
                    .for_each(|(folder, problem)| appeared.note(&folder, Err(problem)));
            }
            State::Nothing | State::Link { .. } => appeared.note(&self.path(), self.put_aside()),
        }
        appeared
    }

    /// Returns a record for each entry whose name differs from a protected name only in case,
    /// except the entries in `known`. The function `names` lists a folder.
    fn in_other_case(&self, names: &dyn Fn(&Path) -> Vec<PathBuf>) -> Vec<Self> {
        let State::OtherCase { names: protected, known, is_each } = &self.state else {
            return Vec::new();
        };
        let folder = self.path();
        let is_folder = |path: &PathBuf| {
            fs::symlink_metadata(folder.join(path)).is_ok_and(|meta| meta.is_dir())
        };
        let folders = match is_each {
            true => names(&folder).into_iter().filter(is_folder).collect(),
            false => vec![PathBuf::new()],
        };
        let entries = folders
            .iter()
            .flat_map(|inner| names(&folder.join(inner)).into_iter().map(|it| inner.join(it)));
        let is_protected = |path: &PathBuf| {
            let name = path.file_name().map(Path::new).unwrap_or(path);
            !known.contains(path) && protected.iter().any(|it| is_other_case(name, it))
        };
        let place = |path: PathBuf| Self {
            open: self.open.clone(),
            place: self.place.join(path),
            state: State::Nothing,
        };
        entries.filter(is_protected).map(place).collect()
    }

    fn each(&self, names: impl Iterator<Item = PathBuf>) -> Vec<Self> {
        let State::EachFolder { name, known } = &self.state else { return Vec::new() };
        let unknown = names.filter(|folder| !known.contains(folder));
        let is_folder = |it: &Self| {
            let folder = it.path();
            folder
                .parent()
                .is_some_and(|it| fs::symlink_metadata(it).is_ok_and(|meta| meta.is_dir()))
        };
        let place = |folder: PathBuf| Self {
            open: self.open.clone(),
            place: self.place.join(folder).join(name),
            state: State::Nothing,
        };
        unknown.map(place).filter(is_folder).collect()
    }

    /// Returns the entry names of the folder `place`. The path `place` is relative to the writable
    /// folder. Returns no names if there is no such folder.
    fn names_in(&self, place: &Path) -> io::Result<Vec<PathBuf>> {
        let Some(mut way) = Way::from(&self.open)? else { return Ok(Vec::new()) };
        for name in place.iter() {
            if way.step(name)? != Step::Folder {
                return Ok(Vec::new());
            }
        }
        let listed = way.with_rights(|folder| {
            openat(
                folder,
                c".",
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        })?;
        let names =
            Dir::read_from(&listed)?.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let is_own = |name: &Vec<u8>| name.as_slice() != b"." && name.as_slice() != b"..";
        Ok(names.filter(is_own).map(|name| PathBuf::from(OsString::from_vec(name))).collect())
    }

    fn put_aside(&self) -> io::Result<Option<PathBuf>> {
        let Some(mut way) = Way::from(&self.open)? else { return Ok(None) };
        let (Some(folder), Some(name)) = (self.place.parent(), self.place.file_name()) else {
            return Ok(None);
        };
        let mut at = self.open.clone();
        for name in folder.iter() {
            match way.step(name)? {
                Step::Folder => at.push(name),
                // A file or symbolic link exists where a folder is expected. A symbolic link would
                // lead programs to another folder, so rename the entry.
                Step::Other => return way.rename(&at, name).map(Some),
                Step::Nothing => return Ok(None),
            }
        }
        let is_there = way.has(name)?;
        let State::Link { target } = &self.state else {
            return if is_there { way.rename(&at, name).map(Some) } else { Ok(None) };
        };
        let link = way.with_rights(|folder| readlinkat(folder, name, Vec::new())).ok();
        if link.is_some_and(|link| link.as_bytes() == target.as_os_str().as_bytes()) {
            return Ok(None);
        }
        // The recorded symbolic link was removed or replaced. If another entry has its name now,
        // rename that entry. Then create the link again.
        let aside = if is_there { Some(way.rename(&at, name)?) } else { None };
        way.with_rights(|folder| symlinkat(target.as_path(), folder, name))?;
        Ok(aside)
    }
}

/// The kind of entry that a folder has under a certain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Folder,
    Other,
    Nothing,
}

/// A folder that is reached step by step from a writable folder. Dropping this value restores the
/// original permissions of the folders on the way.
struct Way {
    folder: OwnedFd,
    lent: Vec<(OwnedFd, u32)>,
}

impl Way {
    const FLAGS: OFlags =
        OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

    /// Opens the writable folder `open`, from which other folders are reached. Returns `None` if
    /// the folder was removed meanwhile.
    fn from(open: &Path) -> io::Result<Option<Self>> {
        match openat(CWD, open, Self::FLAGS, Mode::empty()) {
            Ok(folder) => Ok(Some(Self { folder, lent: Vec::new() })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Enters the subfolder `name` of the current folder. If `name` is not a folder, stays in the
    /// current folder and returns what `name` is.
    fn step(&mut self, name: &OsStr) -> io::Result<Step> {
        match self.with_rights(|folder| openat(folder, name, Self::FLAGS, Mode::empty())) {
            Ok(next) => {
                self.folder = next;
                Ok(Step::Folder)
            }
            Err(Errno::NOENT) => Ok(Step::Nothing),
            Err(Errno::NOTDIR | Errno::LOOP) => Ok(Step::Other),
            Err(error) => Err(error.into()),
        }
    }

    fn has(&mut self, name: &OsStr) -> io::Result<bool> {
        match self.with_rights(|folder| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the entry `name` of the current folder a quarantine name. `at` is the path of the
    /// current folder. Returns the new path of the entry.
    fn rename(&mut self, at: &Path, name: &OsStr) -> io::Result<PathBuf> {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let unique = unique.get(..8).unwrap_or(&unique);
        let aside = format!("{}.{MARK}-{unique}", name.to_string_lossy());
        self.with_rights(|folder| renameat(folder, name, folder, aside.as_str()))?;
        Ok(at.join(aside))
    }

    /// Runs `work` in the current folder. If the system denies permission, gives the user all
    /// permissions for the folder and runs `work` again.
    fn with_rights<T>(
        &mut self,
        work: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        match work(self.folder.as_fd()) {
            Err(Errno::ACCESS | Errno::PERM) => {}
            done => return done,
        }
        let mode = fstat(&self.folder)?.st_mode & 0o7777;
        if set_mode(&self.folder, mode | ALL_OF_USER).is_ok()
            && let Ok(folder) = self.folder.try_clone()
        {
            // Store the folder with its original mode. The mode is restored on drop.
            self.lent.push((folder, mode));
        }
        work(self.folder.as_fd())
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        while let Some((folder, mode)) = self.lent.pop() {
            if let Err(problem) = set_mode(&folder, mode) {
                tracing::warn!(%problem, "a folder keeps the rights that were given to it");
            }
        }
    }
}

/// Sets the permission bits of a folder that was opened with `O_PATH`. `fchmod` does not accept
/// such a descriptor, so this function uses the descriptor's path in `/proc`.
fn set_mode(folder: &OwnedFd, mode: u32) -> io::Result<()> {
    fs::set_permissions(
        format!("/proc/self/fd/{}", folder.as_raw_fd()),
        Permissions::from_mode(mode),
    )
}

/// Returns the entry names of a folder.
pub(super) fn entries_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| PathBuf::from(entry.file_name())).collect()
}

/// Returns the names of a folder's subfolders.
pub(super) fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| PathBuf::from(entry.file_name())).collect()
}

/// The check of protected places that runs after a command and all its processes have ended.
/// Dropping this value runs the check.
#[derive(Debug)]
pub struct Aftermath {
    /// The places to check. A copy is stored on disk until the check is done. `None` if nothing
    /// needs a check.
    record: Option<Record>,
    told: Told,
}

impl Aftermath {
    pub(super) fn new(record: Option<Record>, told: Told) -> Self {
        Self { record, told }
    }

    /// Returns true if all processes that the command started end together with the command.
    pub fn ends_all(&self) -> bool {
        self.record.is_some()
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.told.tell(record.settle());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::unfinished::Unfinished;
    use super::*;

    #[test]
    fn what_cannot_be_put_aside_is_told_at_once_and_stays_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (root, open) = (base.join("root"), base.join("work"));
        fs::create_dir(&root).unwrap();
        // Create a file where the check expects the writable folder, so that the check fails.
        fs::write(&open, "").unwrap();
        let (told, screen) = (Told::default(), Arc::new(Mutex::new(Vec::new())));
        let shown = screen.clone();
        told.alarm_by(Box::new(move |text| shown.lock().unwrap().push(text)));
        let places = vec![Uncovered::nothing(&open, &open.join(".mcp.json")).unwrap()];
        let record = Record::write(&root, places).unwrap();
        drop(Aftermath::new(Some(record), told.clone()));
        let shown = screen.lock().unwrap().clone();
        assert!(matches!(shown.as_slice(), [text] if text.contains("work/.mcp.json")), "{shown:?}");
        let told = told.take();
        assert!(told.aside.is_empty() && told.left.len() == 1, "{told:?}");
        assert_eq!(fs::read_dir(root.join("pitcrew/quarantine")).unwrap().count(), 1);
        assert!(Unfinished::below(&root).is_empty(), "its process lives");
    }

    #[test]
    fn a_folder_that_somebody_removed_holds_nothing_to_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("gone");
        for place in [
            Uncovered::nothing(&open, &open.join(".mcp.json")),
            Uncovered::in_each(&open, &open, ".claude", Vec::new()),
        ] {
            assert_eq!(place.unwrap().restore(), Appeared::default());
        }
    }
}
