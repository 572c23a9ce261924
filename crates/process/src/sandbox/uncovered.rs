//! The protected places that no mount can cover while a command in the sandbox profile *work* runs,
//! and the check of these places.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{readlinkat, symlinkat};
use serde::{Deserialize, Serialize};

use super::decided::Decided;
use super::quarantine::Appeared;
use super::way::{Step, Way, is_quarantined};
use crate::protected::is_alike;

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
    /// case (`.CLAUDE`), or fits a protected pattern (`*.code-workspace`), must not appear in the
    /// folder, except the entries in `known`. If `is_each`
    /// is set, this applies to the entries of each subfolder, and the paths in `known` have two
    /// components.
    OtherCase {
        names: Vec<String>,
        known: Vec<PathBuf>,
        is_each: bool,
    },
}

/// Returns true if the name of an entry differs from a protected name only in case, or fits the
/// protected name, if it is a pattern.
pub(super) fn is_variant(entry: &Path, name: &str) -> bool {
    let text = entry.to_string_lossy();
    if name.contains('*') {
        return is_alike(entry.as_os_str(), name) && !is_quarantined(&text);
    }
    text != name && text.to_lowercase() == name.to_lowercase()
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
    /// `names` only in case or fits it. If `is_each` is true, the record forbids such entries in each
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

    /// Returns true if the place is inside one of the folders or contains one of them.
    pub(super) fn is_about(&self, folders: &BTreeSet<PathBuf>) -> bool {
        let path = self.path();
        folders.iter().any(|folder| path.starts_with(folder) || folder.starts_with(&path))
    }

    /// Returns true if a new file at the path would be a new file at the protected place.
    pub(super) fn has(&self, file: &Path) -> bool {
        let path = self.path();
        let inside = || file.strip_prefix(&path).ok();
        match &self.state {
            State::Nothing | State::Link { .. } => {
                file.starts_with(&path) || path.starts_with(file)
            }
            State::EachFolder { name, known } => inside().is_some_and(|inside| {
                let mut names = inside.iter();
                let folder = names.next().map(Path::new);
                folder.is_some_and(|it| !known.iter().any(|known| known == it))
                    && names.next().is_some_and(|it| it == name.as_str())
            }),
            State::OtherCase { names, known, is_each } => inside().is_some_and(|inside| {
                let depth = if *is_each { 2 } else { 1 };
                let entry: PathBuf = inside.iter().take(depth).collect();
                let last = entry.file_name().map(Path::new);
                entry.iter().count() == depth
                    && !known.contains(&entry)
                    && last.is_some_and(|last| names.iter().any(|name| is_variant(last, name)))
            }),
        }
    }

    /// Returns true if a file at the path is at the protected place or inside it.
    pub(super) fn is_around(&self, file: &Path) -> bool {
        match &self.state {
            State::Nothing | State::Link { .. } => file.starts_with(self.path()),
            State::EachFolder { .. } | State::OtherCase { .. } => self.has(file),
        }
    }

    /// Returns true if this place says nothing that `earlier` does not say, or if it contradicts
    /// `earlier`. `earlier` is a place that another command recorded before. A command may have
    /// changed the folder since then, so only the earlier state is that from before all commands.
    pub(super) fn yields_to(&self, earlier: &Self) -> bool {
        let (path, other) = (self.path(), earlier.path());
        let is_inside_link = matches!(earlier.state, State::Link { .. })
            && path != other
            && path.starts_with(&other);
        let is_new_link =
            matches!(self.state, State::Link { .. }) && path != other && other.starts_with(&path);
        let is_same = path == other
            && match (&self.state, &earlier.state) {
                (State::EachFolder { name, .. }, State::EachFolder { name: earlier, .. }) => {
                    name == earlier
                }
                (
                    State::OtherCase { names, is_each, .. },
                    State::OtherCase { names: earlier, is_each: was_each, .. },
                ) => names == earlier && is_each == was_each,
                (State::EachFolder { .. } | State::OtherCase { .. }, _)
                | (_, State::EachFolder { .. } | State::OtherCase { .. }) => false,
                (State::Nothing | State::Link { .. }, State::Nothing | State::Link { .. }) => true,
            };
        is_inside_link || is_new_link || is_same
    }

    /// Returns the paths at the protected place that seem to have been created or changed since the
    /// command started. This function changes nothing.
    pub(super) fn has_appeared(&self, decided: &Decided) -> Vec<PathBuf> {
        let each = |places: Vec<Self>| -> Vec<PathBuf> {
            places.iter().flat_map(|it| it.has_appeared(decided)).collect()
        };
        match &self.state {
            State::Nothing => {
                self.first_other().map(|path| decided.others_at(path)).unwrap_or_default()
            }
            State::Link { target } => {
                let is_same = fs::read_link(self.path()).is_ok_and(|now| now == *target);
                if is_same { Vec::new() } else { vec![self.path()] }
            }
            State::EachFolder { .. } => {
                let Ok(entries) = fs::read_dir(self.path()) else { return Vec::new() };
                let names = entries.flatten().map(|entry| PathBuf::from(entry.file_name()));
                each(self.each(names))
            }
            State::OtherCase { .. } => each(self.in_other_case(&entries_in)),
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

    /// Renames the files that commands created at the protected place. Files whose content a person
    /// decided stay.
    pub(super) fn restore(&self, decided: &Decided) -> Appeared {
        let mut appeared = Appeared::default();
        match &self.state {
            State::EachFolder { .. } => match self.names_in(&self.place) {
                Ok(names) => {
                    let places = self.each(names.into_iter());
                    places.iter().for_each(|it| appeared.add(it.restore(decided)));
                }
                Err(problem) => appeared.note_left(&self.path(), &problem),
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
                let places = self.in_other_case(&names);
                places.iter().for_each(|it| appeared.add(it.restore(decided)));
                for (folder, problem) in problems.into_inner() {
                    appeared.note_left(&folder, &problem);
                }
            }
            State::Nothing | State::Link { .. } => {
                if let Err(problem) = self.put_aside(decided, &mut appeared) {
                    appeared.note_left(&self.path(), &problem);
                }
            }
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
            !known.contains(path) && protected.iter().any(|it| is_variant(name, it))
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
        Ok(way.names()?.into_iter().map(PathBuf::from).collect())
    }

    fn put_aside(&self, decided: &Decided, appeared: &mut Appeared) -> io::Result<()> {
        let Some(mut way) = Way::from(&self.open)? else { return Ok(()) };
        let (Some(folder), Some(name)) = (self.place.parent(), self.place.file_name()) else {
            return Ok(());
        };
        let mut at = self.open.clone();
        for name in folder.iter() {
            match way.step(name)? {
                Step::Folder => at.push(name),
                // A file or symbolic link exists where a folder is expected. A symbolic link would
                // lead programs to another folder, so rename the entry.
                Step::Other => return sift(&mut way, &at, name, decided, appeared),
                Step::Nothing => return Ok(()),
            }
        }
        let State::Link { target } = &self.state else {
            if way.has(name)? {
                sift(&mut way, &at, name, decided, appeared)?;
            }
            return Ok(());
        };
        let link = way.with_rights(|folder| readlinkat(folder, name, Vec::new())).ok();
        if link.is_some_and(|link| link.as_bytes() == target.as_os_str().as_bytes()) {
            return Ok(());
        }
        // The recorded symbolic link was removed or replaced. If another entry has its name now,
        // rename that entry. Then create the link again.
        if way.has(name)? {
            let path = at.join(name);
            if decided.holds(&path, || way.file(name)) == Some(true) {
                return Ok(());
            }
            appeared.note_aside(&path, &way.rename(&at, name)?);
        }
        way.with_rights(|folder| symlinkat(target.as_path(), folder, name))?;
        Ok(())
    }
}

/// Renames the entry `name` of the folder `way`, whose path is `at`. If a person decided the content
/// of files inside the entry, moves everything else out of it.
pub(super) fn sift(
    way: &mut Way,
    at: &Path,
    name: &OsStr,
    decided: &Decided,
    appeared: &mut Appeared,
) -> io::Result<()> {
    let path = at.join(name);
    match decided.holds(&path, || way.file(name)) {
        Some(true) => return Ok(()),
        Some(false) => {}
        None if decided.is_inside(&path) => {
            let mut inner = way.fork()?;
            if inner.step(name)? == Step::Folder {
                return sift_folder(way, at, &mut inner, &path, decided, appeared);
            }
        }
        None => {}
    }
    appeared.note_aside(&path, &way.rename(at, name)?);
    Ok(())
}

/// Moves everything out of the folder `inner`, whose path is `path`, except the files whose content
/// a person decided. The entries get quarantine names in the folder `outer`, because programs may
/// read all entries of `inner`, whatever their names are.
fn sift_folder(
    outer: &mut Way,
    outer_path: &Path,
    inner: &mut Way,
    path: &Path,
    decided: &Decided,
    appeared: &mut Appeared,
) -> io::Result<()> {
    for name in inner.names()? {
        let entry = path.join(&name);
        match decided.holds(&entry, || inner.file(&name)) {
            Some(true) => continue,
            Some(false) => {}
            None if decided.is_inside(&entry) => {
                let mut deeper = inner.fork()?;
                if deeper.step(&name)? == Step::Folder {
                    sift_folder(outer, outer_path, &mut deeper, &entry, decided, appeared)?;
                    continue;
                }
            }
            None => {}
        }
        let label = entry.strip_prefix(outer_path).unwrap_or(&entry);
        let label = label.to_string_lossy().replace('/', "-");
        let aside = inner.move_to(&name, outer, &label)?;
        appeared.note_aside(&entry, &outer_path.join(aside));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_somebody_removed_holds_nothing_to_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("gone");
        for place in [
            Uncovered::nothing(&open, &open.join(".mcp.json")),
            Uncovered::in_each(&open, &open, ".claude", Vec::new()),
        ] {
            assert_eq!(place.unwrap().restore(&Decided::default()), Appeared::default());
        }
    }
}
