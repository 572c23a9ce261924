//! The mounts of *work*: what a command sees, and what of that it can write.
//!
//! A folder that is granted holds what must not be granted (`.git/config`, `.claude`), and Landlock knows no exceptions. So
//! a command has mounts of its own: nothing but system folders, toolchains and its working folders is there at all; what
//! decides rights or runs by itself is mounted read-only; and so that no folder on the way is replaced by another, each is
//! a mount itself, which cannot be renamed. What is protected and not there is looked for afterwards ([`super::quarantine`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::git_folder::GitFolder;
use super::git_programs;
use super::places::trail;
use super::private::Workshop;
use super::quarantine::{Uncovered, entries_in, folders_in, is_other_case};
use super::readable::Readable;
use super::{Grant, Machine, Options, sockets};
use crate::protected::{LOOSE_REPOSITORY, PROTECTED};

/// What of a git folder does: configuration names programs, and the others lead git to another configuration.
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

/// What of the folders in a working folder does: programs that are started there read it.
const PROTECTED_IN_FOLDERS: &[&str] = &[".claude", ".mcp.json"];

/// What of a worktree's own git folder does.
const PROTECTED_OF_WORKTREE: &[&str] = &["config.worktree", "hooks", "commondir", "gitdir"];

/// The temporary folders of a command, and the names of those that are mounted there.
const TEMPORARY: &[(&str, &str)] = &[("/tmp", "tmp"), ("/var/tmp", "var-tmp")];

/// Folders of a home in which programs keep what they can make again: a command has its own.
const CACHES_OF_HOME: &[&str] = &[".cache", ".npm"];

/// Where our own program is put.
pub(super) const INNER: &str = "/run/pitcrew/exec";

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mount {
    ReadOnly(PathBuf),
    Writable(PathBuf),
    Empty,
    Link(PathBuf),
}

/// All that is mounted for one command.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    at: BTreeMap<PathBuf, Mount>,
    /// What the command may write.
    pub(super) writable: Vec<PathBuf>,
    /// The real folders among them, without links.
    opened: BTreeSet<PathBuf>,
    /// What is protected and mounted read-only.
    covered: BTreeSet<PathBuf>,
    /// What is protected and no mount covers.
    pub(super) uncovered: Vec<Uncovered>,
}

/// Files and folders that stand in for others.
#[derive(Debug, Clone, Copy)]
pub(super) struct StandIns<'a> {
    /// Where the temporary folders are made.
    pub(super) workshop: &'a Workshop,
    /// An empty file, which nobody can read.
    pub(super) empty_file: &'a Path,
    /// An empty folder.
    pub(super) empty_folder: &'a Path,
}

impl Mounts {
    /// Lays out what a command sees.
    ///
    /// # Errors
    /// What the system said when a stand-in could not be made.
    pub(super) fn lay_out(
        machine: &Machine,
        options: &Options,
        grant: &Grant,
        git: Option<&GitFolder>,
        readable: &Readable,
        stand_ins: StandIns<'_>,
    ) -> io::Result<Self> {
        let mut mounts = Self::default();
        let home =
            machine.home.as_deref().filter(|home| home.is_absolute() && home.parent().is_some());
        home.iter().for_each(|home| mounts.empty_home(home));
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
            PROTECTED.iter().for_each(|name| mounts.protect(&folder.join(name)));
            if git.is_none_or(|git| git.top != *folder) {
                // A repository that is made here has its configuration from the command.
                let inner = folder.join(".git");
                PROTECTED_OF_GIT.iter().for_each(|name| mounts.protect(&inner.join(name)));
            }
            PROTECTED_IN_FOLDERS.iter().for_each(|name| mounts.protect_in_each(folder, name));
            mounts.protect_other_case(folder);
            mounts.protect_loose_repository(folder);
            mounts.protect(&machine.root);
        }
        mounts.close_ways();
        mounts.mask(readable, &working, stand_ins);
        mounts.add_temporary(home, stand_ins.workshop)?;
        Ok(mounts)
    }

    /// Shows an empty home folder that cannot be written, for toolchains and caches to be mounted in.
    fn empty_home(&mut self, home: &Path) {
        let real = fs::canonicalize(home).unwrap_or_else(|_not_there| home.to_path_buf());
        if real != home {
            self.at.insert(home.to_path_buf(), Mount::Link(real.clone()));
        }
        self.at.insert(real, Mount::Empty);
    }

    /// Adds temporary folders and caches, which last from command to command.
    fn add_temporary(&mut self, home: Option<&Path>, workshop: &Workshop) -> io::Result<()> {
        let home = home.and_then(|home| fs::canonicalize(home).ok());
        let caches =
            home.iter().flat_map(|home| CACHES_OF_HOME.iter().map(|name| (home.join(name), *name)));
        let places = TEMPORARY.iter().map(|(at, name)| (PathBuf::from(at), *name)).chain(caches);
        // One that is a working folder stays as it is.
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
            // A folder on the way to a mount is one itself, so that no command replaces it by a link.
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

    /// Opens the git folders of a checkout, less what configures git.
    fn open_git(&mut self, git: &GitFolder) {
        let entry = git.top.join(".git");
        self.open(&git.common);
        self.open(&git.own);
        PROTECTED_OF_GIT.iter().for_each(|name| self.protect(&git.common.join(name)));
        let worktrees = git.common.join("worktrees");
        self.protect_in_each(&worktrees, "config.worktree");
        for worktree in folders_in(&worktrees).into_iter().map(|name| worktrees.join(name)) {
            PROTECTED_OF_WORKTREE.iter().for_each(|name| self.protect(&worktree.join(name)));
            // The file in a worktree that leads git to its folder.
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

    /// Protects what has this name in the folders of a folder, also of those that are made.
    fn protect_in_each(&mut self, folder: &Path, name: &str) {
        let Some(open) = self.open_around(&folder.join(name)) else { return };
        let mut known = folders_in(folder);
        known.retain(|it| fs::symlink_metadata(folder.join(it).join(name)).is_ok());
        known.iter().for_each(|it| self.protect(&folder.join(it).join(name)));
        self.uncovered.extend(Uncovered::in_each(&open, folder, name, known));
    }

    /// Protects what has a protected name in other letters, in a folder and in those in it.
    fn protect_other_case(&mut self, folder: &Path) {
        let names: Vec<&str> = PROTECTED.iter().copied().chain([".git"]).collect();
        let known_in = |inner: &Path, names: &[&str]| {
            let entries = entries_in(&folder.join(inner)).into_iter();
            let known = entries.filter(|entry| names.iter().any(|name| is_other_case(entry, name)));
            known.map(|entry| inner.join(entry)).collect::<Vec<_>>()
        };
        let here = known_in(Path::new(""), &names);
        let folders = folders_in(folder);
        let inside: Vec<PathBuf> =
            folders.iter().flat_map(|inner| known_in(inner, PROTECTED_IN_FOLDERS)).collect();
        here.iter().chain(&inside).for_each(|path| self.protect(&folder.join(path)));
        self.uncovered.extend(Uncovered::other_case(folder, folder, &names, here, false));
        self.uncovered.extend(Uncovered::other_case(
            folder,
            folder,
            PROTECTED_IN_FOLDERS,
            inside,
            true,
        ));
    }

    /// Keeps a working folder from becoming a repository without a `.git`, and the configuration of one that is.
    fn protect_loose_repository(&mut self, folder: &Path) {
        // Without this file git takes no folder for a repository.
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

    /// The outermost open folder that something lies in.
    fn open_around(&self, path: &Path) -> Option<PathBuf> {
        self.opened.iter().find(|open| path != open.as_path() && path.starts_with(open)).cloned()
    }

    /// Keeps what is at a path as it is, as far as it lies in open folders: the links on its way, and where it ends.
    fn protect(&mut self, path: &Path) {
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
        self.fix_way(&open, &end);
        match fs::symlink_metadata(&end) {
            Ok(_) => self.cover(&end),
            Err(_) => self.uncovered.extend(Uncovered::nothing(&open, &end)),
        }
    }

    fn cover(&mut self, path: &Path) {
        self.at.insert(path.to_path_buf(), Mount::ReadOnly(path.to_path_buf()));
        self.covered.insert(path.to_path_buf());
    }

    /// Mounts each folder on the way from an open folder to a path onto itself, so that none is replaced.
    fn fix_way(&mut self, open: &Path, path: &Path) {
        let ways = path.ancestors().skip(1).take_while(|way| *way != open);
        for way in ways.collect::<Vec<_>>().into_iter().rev() {
            match fs::symlink_metadata(way) {
                Ok(metadata) if metadata.is_dir() => {
                    self.at
                        .entry(way.to_path_buf())
                        .or_insert_with(|| Mount::Writable(way.to_path_buf()));
                }
                // A file in the place of a folder, such as a `.git` that leads to one.
                Ok(_) => return self.cover(way),
                Err(_) => return,
            }
        }
    }

    /// A way through something that is read-only itself is not writable.
    fn close_ways(&mut self) {
        let Self { at, covered, opened, .. } = self;
        let is_inside =
            |path: &Path| covered.iter().any(|it| path != it.as_path() && path.starts_with(it));
        at.retain(|path, mount| match mount {
            Mount::Writable(_) => opened.contains(path) || !is_inside(path),
            Mount::ReadOnly(_) | Mount::Empty | Mount::Link(_) => true,
        });
    }

    /// Covers what is withheld, and sockets of programs outside.
    fn mask(&mut self, readable: &Readable, working: &[PathBuf], stand_ins: StandIns<'_>) {
        let is_shown = |path: &Path| {
            let nearest = path.ancestors().find_map(|it| self.at.get(it));
            nearest.is_some_and(|mount| matches!(mount, Mount::ReadOnly(_) | Mount::Writable(_)))
        };
        let withheld = readable.withheld.iter().filter(|path| is_shown(path)).cloned();
        for path in withheld.chain(sockets::listening_in(working)).collect::<Vec<_>>() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let cover =
                if metadata.is_dir() { stand_ins.empty_folder } else { stand_ins.empty_file };
            self.at.insert(path, Mount::ReadOnly(cover.to_path_buf()));
        }
    }

    /// The arguments by which bubblewrap makes them, outer ones first.
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
        for (at, _) in self.at.iter().filter(|(_, mount)| **mount == Mount::Empty) {
            arguments.extend(["--remount-ro".into(), at.into()]);
        }
        arguments.extend(["--remount-ro", "/"].map(OsString::from));
        arguments
    }
}
