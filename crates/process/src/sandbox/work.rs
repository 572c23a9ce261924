//! Computes the mounts for commands in the sandbox profile *work*: which files a command sees, and
//! which of these files it can write.
//!
//! A writable working folder contains files that must not be writable (`.git/config`, `.claude`),
//! and Landlock rules have no exceptions. Therefore a command gets its own mounts:
//!
//! - Only system folders, toolchains and the command's working folders are mounted at all.
//! - Files that control permissions or run automatically are mounted read-only.
//! - Each folder on the path to such a file is a mount point itself. A mount point cannot be
//!   renamed, so the folder cannot be replaced.
//!
//! Protected files that do not exist yet are checked after the command has ended
//! ([`super::quarantine`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::git_folder::GitFolder;
use super::git_programs;
use super::pinned::{links_below, other_names};
use super::places::trail;
use super::private::Workshop;
use super::readable::Readable;
use super::uncovered::{Uncovered, entries_in, folders_in, is_variant};
use super::{Grant, Machine, Options, sockets};
use crate::protected::{Depth, LOOSE_REPOSITORY, PROTECTED, ProtectedName};

/// Protected entries of a git folder. The entry `config` names programs that git runs, and the
/// other entries can make git use another configuration.
const PROTECTED_OF_GIT: &[&str] = &[
    "config",
    "config.worktree",
    "hooks",
    "commondir",
    "gitdir",
    "modules",
    "info/attributes",
    "objects/info/alternates",
];

/// Protected entries of a worktree's own git folder.
const PROTECTED_OF_WORKTREE: &[&str] = &["config.worktree", "hooks", "commondir", "gitdir"];

/// The temporary folders that a command sees. Each pair contains the path inside the sandbox and
/// the name of the real folder that is mounted at this path.
const TEMPORARY: &[(&str, &str)] = &[("/tmp", "tmp"), ("/var/tmp", "var-tmp")];

/// Cache folders in a home folder. A command gets its own cache folders instead.
const CACHES_OF_HOME: &[&str] = &[".cache", ".npm"];

/// The path of our own program inside the sandbox.
pub(super) const INNER: &str = "/run/pitcrew/exec";

/// The kind of mount at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mount {
    ReadOnly(PathBuf),
    Writable(PathBuf),
    Empty,
    Link(PathBuf),
}

/// Whether a command can rename the folders on the way to a protected path at which nothing exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnTheWay {
    Fixed,
    /// The check after the command finds what appeared at the path, whatever became of the folders.
    /// Ordinary files in these folders can be renamed meanwhile, which a mount would prevent.
    Replaceable,
}

/// All mounts for one command.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    at: BTreeMap<PathBuf, Mount>,
    /// The folders that the command is allowed to write.
    pub(super) writable: Vec<PathBuf>,
    /// The real folders that the command is allowed to write, with symbolic links resolved.
    /// Temporary folders are not included.
    pub(super) opened: BTreeSet<PathBuf>,
    /// The protected paths that a mount makes read-only.
    pub(super) covered: BTreeSet<PathBuf>,
    /// The protected places that no mount covers.
    pub(super) uncovered: Vec<Uncovered>,
}

/// The empty files and folders, and the temporary folders, that a command sees in place of the real
/// ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct StandIns<'a> {
    /// The folder of this process, in which temporary folders are created.
    pub(super) workshop: &'a Workshop,
    /// An empty file without permissions, which is mounted over hidden files.
    pub(super) empty_file: &'a Path,
    /// An empty folder without permissions, which is mounted over hidden folders.
    pub(super) empty_folder: &'a Path,
}

/// The files that a command sees or does not see, and those that it cannot change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) readable: &'a Readable,
    /// Paths in the working folders that rules forbid to change, and other names of protected
    /// files. They need not exist.
    pub(super) closed: &'a BTreeSet<PathBuf>,
    /// Protected files that the commands which run already cannot change. They are protected from
    /// this command too.
    pub(super) covered: &'a BTreeSet<PathBuf>,
}

impl Mounts {
    /// Computes all mounts for a command.
    ///
    /// # Errors
    /// If a temporary folder cannot be created.
    pub(super) fn lay_out(
        machine: &Machine,
        options: &Options,
        grant: &Grant,
        git: Option<&GitFolder>,
        Files { readable, closed, covered }: Files<'_>,
        stand_ins: StandIns<'_>,
    ) -> io::Result<Self> {
        let mut mounts = Self::default();
        let home =
            machine.home.as_deref().filter(|home| home.is_absolute() && home.parent().is_some());
        home.iter().for_each(|home| mounts.empty_home(home));
        // `/run` must exist, because our own program is mounted below it.
        mounts.at.insert(PathBuf::from("/run"), Mount::Empty);
        let kernel_s = ["/proc", "/dev", "/sys/fs/cgroup"].map(Path::new);
        for path in readable.open.iter().filter(|path| !kernel_s.contains(&path.as_path())) {
            mounts.at.insert(path.clone(), Mount::ReadOnly(path.clone()));
        }
        for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
            if let Ok(target) = fs::read_link(name) {
                mounts.at.insert(PathBuf::from(name), Mount::Link(target));
            }
        }
        let working: Vec<PathBuf> = grant
            .folders()
            .chain(options.write.iter().map(PathBuf::as_path))
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect();
        for folder in &working {
            mounts.open(folder);
        }
        if let Some(git) = git {
            mounts.open_git(git);
            git_programs::named(git, machine.home.as_deref())
                .iter()
                .for_each(|path| mounts.protect(path));
        }
        for folder in &working {
            mounts.protect_names(folder);
            if git.is_none_or(|git| git.top != *folder) {
                // The command may create a repository in the working folder, and could then write
                // the configuration of that repository. Therefore protect the configuration in
                // advance.
                let inner = folder.join(".git");
                PROTECTED_OF_GIT.iter().for_each(|name| mounts.protect(&inner.join(name)));
            }
            mounts.protect_loose_repository(folder);
            mounts.protect(&machine.root);
        }
        // A running command may have replaced the link that leads to such a file.
        covered.iter().for_each(|path| mounts.protect(path));
        for path in closed {
            mounts.close(path);
        }
        // A folder around a denied file keeps its name, so that no rule loses sight of the file.
        for path in &readable.withheld {
            if let Some(open) = mounts.open_around(path) {
                mounts.fix_way(&open, path);
            }
        }
        mounts.cover_other_names(&machine.root);
        mounts.close_ways();
        mounts.mask(readable, &working, stand_ins);
        mounts.add_temporary(home, stand_ins.workshop)?;
        Ok(mounts)
    }

    /// Mounts an empty, read-only home folder. Toolchains and caches are then mounted into it.
    fn empty_home(&mut self, home: &Path) {
        let real = fs::canonicalize(home).unwrap_or_else(|_not_there| home.to_path_buf());
        if real != home {
            self.at.insert(home.to_path_buf(), Mount::Link(real.clone()));
        }
        self.at.insert(real, Mount::Empty);
    }

    /// Adds mounts for the temporary folders and caches. Their content is kept from one command to
    /// the next.
    fn add_temporary(&mut self, home: Option<&Path>, workshop: &Workshop) -> io::Result<()> {
        let home = home.and_then(|home| fs::canonicalize(home).ok());
        let caches =
            home.iter().flat_map(|home| CACHES_OF_HOME.iter().map(|name| (home.join(name), *name)));
        let places = TEMPORARY.iter().map(|(at, name)| (PathBuf::from(at), *name)).chain(caches);
        // Keep a working folder visible, even if its path is the path of a temporary folder.
        let places: Vec<_> = places.filter(|(at, _)| !self.opened.contains(at)).collect();
        let mut mounted = BTreeSet::new();
        let others: Vec<PathBuf> =
            self.at.keys().chain(places.iter().map(|(at, _)| at)).cloned().collect();
        for (at, _) in &places {
            let below =
                others.iter().filter_map(|other| other.strip_prefix(at).ok()?.iter().next());
            mounted.extend(below.map(|name| at.join(name)));
        }
        for path in &mounted {
            // Turn each folder on the path to a mount point into a mount point too, so that no
            // command can replace the folder by a symbolic link.
            self.at.entry(path.clone()).or_insert(Mount::Empty);
        }
        let lasting = workshop.lasting(mounted)?;
        for (at, name) in places {
            self.at.insert(at.clone(), Mount::Writable(lasting.folder(name)?));
            self.writable.push(at);
        }
        Ok(())
    }

    fn open(&mut self, folder: &Path) {
        self.at.insert(folder.to_path_buf(), Mount::Writable(folder.to_path_buf()));
        self.writable.push(folder.to_path_buf());
        self.opened.insert(folder.to_path_buf());
    }

    /// Makes the git folders of a checkout writable, except the files that configure git.
    fn open_git(&mut self, git: &GitFolder) {
        let entry = git.top.join(".git");
        self.open(&git.common);
        self.open(&git.own);
        PROTECTED_OF_GIT.iter().for_each(|name| self.protect(&git.common.join(name)));
        let worktrees = git.common.join("worktrees");
        self.protect_in_each(&worktrees, "config.worktree");
        for worktree in folders_in(&worktrees).into_iter().map(|name| worktrees.join(name)) {
            PROTECTED_OF_WORKTREE.iter().for_each(|name| self.protect(&worktree.join(name)));
            // Also protect the `.git` file of the worktree. That file leads git to this git folder.
            if let Ok(link) = fs::read_to_string(worktree.join("gitdir")) {
                self.protect(Path::new(link.trim()));
            }
        }
        if !git.own.starts_with(&git.common) {
            PROTECTED_OF_WORKTREE.iter().for_each(|name| self.protect(&git.own.join(name)));
        }
        if entry != git.own {
            self.protect(&entry);
        }
    }

    /// Protects the entry `name` in each subfolder of a folder, including subfolders that the
    /// command creates.
    fn protect_in_each(&mut self, folder: &Path, name: &str) {
        let Some(open) = self.open_around(&folder.join(name)) else { return };
        let mut known = folders_in(folder);
        known.retain(|it| fs::symlink_metadata(folder.join(it).join(name)).is_ok());
        known.iter().for_each(|it| self.protect(&folder.join(it).join(name)));
        self.uncovered.extend(Uncovered::in_each(&open, folder, name, known));
    }

    /// Protects the files of the table in a working folder.
    fn protect_names(&mut self, folder: &Path) {
        for row in PROTECTED.iter().filter(|row| !row.is_pattern()) {
            let path = row.parts().fold(folder.to_path_buf(), |path, part| path.join(part));
            self.protect_as(&path, OnTheWay::Replaceable);
        }
        let in_subfolders: Vec<&str> =
            PROTECTED.iter().filter(|row| row.depth == Depth::Subfolders).map(name).collect();
        in_subfolders.iter().for_each(|name| self.protect_in_each(folder, name));
        self.protect_variants(folder, &in_subfolders);
    }

    /// Makes sure that a command leaves no new entry in a working folder whose name differs from a
    /// protected name only in case, or fits a protected pattern. The same applies to the names
    /// `in_subfolders` in each subfolder.
    fn protect_variants(&mut self, folder: &Path, in_subfolders: &[&'static str]) {
        let mut names: BTreeMap<PathBuf, BTreeSet<&str>> = BTreeMap::new();
        names.entry(PathBuf::new()).or_default().insert(".git");
        for row in PROTECTED {
            let mut inside = PathBuf::new();
            for part in row.parts() {
                names.entry(inside.clone()).or_default().insert(part);
                inside.push(part);
            }
        }
        for (inside, names) in names {
            let names: Vec<&str> = names.into_iter().collect();
            let inside = folder.join(inside);
            let known = variants_in(&inside, Path::new(""), &names);
            known.iter().for_each(|entry| self.protect(&inside.join(entry)));
            self.uncovered.extend(Uncovered::other_case(folder, &inside, &names, known, false));
        }
        let known: Vec<PathBuf> = folders_in(folder)
            .iter()
            .flat_map(|inner| variants_in(folder, inner, in_subfolders))
            .collect();
        known.iter().for_each(|path| self.protect(&folder.join(path)));
        self.uncovered.extend(Uncovered::other_case(folder, folder, in_subfolders, known, true));
    }

    /// Prevents a command from turning a working folder into a repository without `.git`. If the
    /// folder is already such a repository, this function protects its configuration.
    fn protect_loose_repository(&mut self, folder: &Path) {
        // Without the file `HEAD`, git does not treat a folder as a repository. Prevent commands
        // from creating `HEAD`.
        let head = folder.join("HEAD");
        if fs::symlink_metadata(&head).is_err() {
            return self.protect(&head);
        }
        let has = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
        let is_repository = has("commondir") || has("objects") && has("refs");
        let names = if is_repository { PROTECTED_OF_GIT } else { LOOSE_REPOSITORY };
        names
            .iter()
            .filter(|name| is_repository || !has(name))
            .for_each(|name| self.protect(&folder.join(name)));
    }

    /// Returns the outermost writable folder that contains a path.
    fn open_around(&self, path: &Path) -> Option<PathBuf> {
        self.opened.iter().find(|open| path != open.as_path() && path.starts_with(open)).cloned()
    }

    /// Protects the parts of a path that are inside writable folders. These parts are the symbolic
    /// links on the way and the final target.
    fn protect(&mut self, path: &Path) {
        self.protect_as(path, OnTheWay::Fixed);
    }

    fn protect_as(&mut self, path: &Path, on_the_way: OnTheWay) {
        let (end, links) = trail(path);
        for link in links {
            if let Some(open) = self.open_around(&link) {
                self.fix_way(&open, &link);
                self.uncovered.extend(Uncovered::link(&open, &link));
            }
        }
        let is_apart = |end: &PathBuf| !self.opened.iter().any(|open| open.starts_with(end));
        let Some(end) = end.filter(is_apart) else { return };
        let Some(open) = self.open_around(&end) else { return };
        let metadata = fs::symlink_metadata(&end);
        if metadata.is_ok() || on_the_way == OnTheWay::Fixed {
            self.fix_way(&open, &end);
        }
        match metadata {
            Ok(metadata) => {
                let is_new = !self.covered.contains(&end);
                self.cover(&end);
                if metadata.is_dir() && is_new {
                    self.protect_links_of(&end);
                }
            }
            Err(_) => self.uncovered.extend(Uncovered::nothing(&open, &end)),
        }
    }

    /// Protects the files to which the symbolic links in a protected folder lead. A program that
    /// reads the folder reads these files, and they may be anywhere in the working folders.
    fn protect_links_of(&mut self, folder: &Path) {
        for link in links_below(folder) {
            if let (Ok(target), Some(folder)) = (fs::read_link(&link), link.parent()) {
                self.protect(&folder.join(target));
            }
        }
    }

    /// Makes the other names read-only that protected files have in the writable folders. Whoever
    /// writes there changes the protected file. `root` is left out, because its plugins share files
    /// with the repositories that they came from.
    fn cover_other_names(&mut self, root: &Path) {
        let root = fs::canonicalize(root).unwrap_or_else(|_not_there| root.to_path_buf());
        let covered = self.covered.clone().into_iter().filter(|path| !path.starts_with(&root));
        let names = other_names(covered, self.opened.iter().map(PathBuf::as_path));
        names.iter().for_each(|name| self.protect(name));
    }

    /// Makes a path read-only that rules forbid to change. It may be a whole working folder.
    fn close(&mut self, path: &Path) {
        if self.opened.contains(path) {
            return self.cover(path);
        }
        self.protect(path);
    }

    fn cover(&mut self, path: &Path) {
        self.at.insert(path.to_path_buf(), Mount::ReadOnly(path.to_path_buf()));
        self.covered.insert(path.to_path_buf());
    }

    /// Mounts each folder between a writable folder and the end of a path onto itself, so that none
    /// of these folders can be replaced.
    fn fix_way(&mut self, open: &Path, path: &Path) {
        let ways = path.ancestors().skip(1).take_while(|way| *way != open);
        for way in ways.collect::<Vec<_>>().into_iter().rev() {
            match fs::symlink_metadata(way) {
                Ok(metadata) if metadata.is_dir() => {
                    self.at
                        .entry(way.to_path_buf())
                        .or_insert_with(|| Mount::Writable(way.to_path_buf()));
                }
                // A file exists where a folder is expected, for example a `.git` file that names
                // the git folder. Mount the file read-only.
                Ok(_) => return self.cover(way),
                Err(_) => return,
            }
        }
    }

    /// Removes the writable mounts that are inside folders mounted read-only. The mounts of the
    /// working folders stay.
    fn close_ways(&mut self) {
        let Self { at, covered, opened, .. } = self;
        let is_inside =
            |path: &Path| covered.iter().any(|it| path != it.as_path() && path.starts_with(it));
        at.retain(|path, mount| match mount {
            Mount::Writable(_) => opened.contains(path) || !is_inside(path),
            Mount::ReadOnly(_) | Mount::Empty | Mount::Link(_) => true,
        });
    }

    /// Hides withheld files, and sockets at which programs outside the sandbox listen. An empty
    /// file or folder is mounted over each of them.
    fn mask(&mut self, readable: &Readable, working: &[PathBuf], stand_ins: StandIns<'_>) {
        let is_shown = |path: &Path| {
            let nearest = path.ancestors().find_map(|it| self.at.get(it));
            nearest.is_some_and(|mount| matches!(mount, Mount::ReadOnly(_) | Mount::Writable(_)))
        };
        // Hide only paths that a mount shows. A command cannot see any other path.
        let withheld = readable.withheld.iter().filter(|path| is_shown(path)).cloned();
        for path in withheld.chain(sockets::listening_in(working)).collect::<Vec<_>>() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let cover =
                if metadata.is_dir() { stand_ins.empty_folder } else { stand_ins.empty_file };
            self.at.insert(path, Mount::ReadOnly(cover.to_path_buf()));
        }
    }

    /// Returns the bubblewrap arguments that create the mounts. Outer mounts come first.
    pub(super) fn arguments(&self, inner: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> =
            ["--proc", "/proc", "--dev", "/dev"].map(OsString::from).into();
        for (at, mount) in &self.at {
            let (option, source) = match mount {
                Mount::ReadOnly(source) => ("--ro-bind", Some(source)),
                Mount::Writable(source) => ("--bind", Some(source)),
                Mount::Empty => ("--tmpfs", None),
                Mount::Link(target) => ("--symlink", Some(target)),
            };
            arguments.push(option.into());
            arguments.extend(source.map(|source| source.clone().into_os_string()));
            arguments.push(at.into());
        }
        let own: [OsString; 3] = ["--ro-bind".into(), inner.into(), INNER.into()];
        arguments.extend(own);
        // Make the empty folders read-only last, because mount points must be created inside these
        // folders first.
        for (at, _) in self.at.iter().filter(|(_, mount)| **mount == Mount::Empty) {
            arguments.extend(["--remount-ro".into(), at.into()]);
        }
        arguments.extend(["--remount-ro", "/"].map(OsString::from));
        arguments
    }
}

/// Returns the name of a row that has only one part.
fn name(row: &ProtectedName) -> &'static str {
    row.split().1
}

/// Returns the entries of the folder `inner` of `folder` whose names are variants of `names`. The
/// paths are relative to `folder`.
fn variants_in(folder: &Path, inner: &Path, names: &[&str]) -> Vec<PathBuf> {
    let entries = entries_in(&folder.join(inner)).into_iter();
    let known = entries.filter(|entry| names.iter().any(|name| is_variant(entry, name)));
    known.map(|entry| inner.join(entry)).collect()
}
