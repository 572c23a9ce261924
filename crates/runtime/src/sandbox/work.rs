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

use pitcrew_team::store::own_mode;

use super::git_folder::GitFolder;
use super::quarantine::Absent;
use super::readable::Readable;
use super::{Grant, Machine, Options};
use crate::protected::PROTECTED;

/// What of a git folder does: configuration names programs, and the others lead git to another configuration.
const PROTECTED_OF_GIT: &[&str] = &["config", "config.worktree", "hooks", "commondir", "gitdir", "modules"];

/// What of a worktree's own git folder does.
const PROTECTED_OF_WORKTREE: &[&str] = &["config.worktree", "hooks", "commondir", "gitdir"];

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
    /// What is protected and not there.
    pub(super) absent: Vec<Absent>,
}

/// Folders that stand in for others.
#[derive(Debug, Clone, Copy)]
pub(super) struct StandIns<'a> {
    /// A folder of the command's own.
    pub(super) private: &'a Path,
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
        for folder in ["tmp", "var-tmp", "home"] {
            own_mode::create_folder(&stand_ins.private.join(folder))?;
        }
        mounts.own("/tmp", stand_ins.private.join("tmp"));
        mounts.own("/var/tmp", stand_ins.private.join("var-tmp"));
        if let Some(home) = machine.home.as_ref().filter(|home| home.is_absolute()) {
            mounts.own(home, stand_ins.private.join("home"));
        }
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
            mounts.open_git(git, &working);
        }
        for folder in &working {
            PROTECTED.iter().for_each(|name| mounts.protect(folder, &folder.join(name)));
            if git.is_none_or(|git| git.top != *folder) {
                // A repository that is made here has its configuration from the command.
                let inner = folder.join(".git");
                PROTECTED_OF_GIT.iter().for_each(|name| mounts.protect(folder, &inner.join(name)));
            }
            mounts.protect_if_inside(folder, &machine.root);
        }
        mounts.mask(readable, &working, stand_ins);
        Ok(mounts)
    }

    fn own(&mut self, at: impl AsRef<Path>, folder: PathBuf) {
        self.at.insert(at.as_ref().to_path_buf(), Mount::Writable(folder));
        self.writable.push(at.as_ref().to_path_buf());
    }

    fn open(&mut self, folder: &Path) {
        self.at.insert(folder.to_path_buf(), Mount::Writable(folder.to_path_buf()));
        self.writable.push(folder.to_path_buf());
    }

    /// Opens the git folders of a checkout, less what configures git.
    fn open_git(&mut self, git: &GitFolder, working: &[PathBuf]) {
        let entry = git.top.join(".git");
        self.open(&git.common);
        self.open(&git.own);
        PROTECTED_OF_GIT.iter().for_each(|name| self.protect(&git.common, &git.common.join(name)));
        for worktree in worktrees(&git.common) {
            PROTECTED_OF_WORKTREE.iter().for_each(|name| self.protect(&git.common, &worktree.join(name)));
            // The file in a worktree that leads git to its folder.
            if let Some(link) = fs::read_to_string(worktree.join("gitdir")).ok().map(|path| PathBuf::from(path.trim()))
                && let Some(folder) = working.iter().find(|folder| link.starts_with(folder))
            {
                self.protect(folder, &link);
            }
        }
        if !git.own.starts_with(&git.common) {
            PROTECTED_OF_WORKTREE.iter().for_each(|name| self.protect(&git.own, &git.own.join(name)));
        }
        if entry != git.own {
            self.protect(&git.top, &entry);
        }
    }

    fn protect_if_inside(&mut self, folder: &Path, path: &Path) {
        if let Ok(path) = fs::canonicalize(path)
            && path.starts_with(folder)
            && path != folder
        {
            self.protect(folder, &path);
        }
    }

    /// Mounts what is at a path below an open folder read-only, and each folder on the way onto itself.
    fn protect(&mut self, open: &Path, path: &Path) {
        let ways = path.ancestors().skip(1).take_while(|way| *way != open);
        for way in ways.collect::<Vec<_>>().into_iter().rev() {
            match fs::symlink_metadata(way) {
                Ok(metadata) if metadata.is_dir() => {
                    self.at.entry(way.to_path_buf()).or_insert_with(|| Mount::Writable(way.to_path_buf()));
                }
                Ok(_) => return,
                Err(_) => break,
            }
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => self.absent.push(Absent::link(path)),
            Ok(_) => _ = self.at.insert(path.to_path_buf(), Mount::ReadOnly(path.to_path_buf())),
            Err(_) => self.absent.push(Absent::nothing(path)),
        }
    }

    /// Covers what is withheld, and sockets of programs outside.
    fn mask(&mut self, readable: &Readable, working: &[PathBuf], stand_ins: StandIns<'_>) {
        let shown: BTreeSet<PathBuf> = self.at.keys().cloned().collect();
        let is_shown = |path: &Path| {
            let nearest = path.ancestors().find(|it| shown.contains(*it));
            nearest.is_some_and(|it| {
                it.parent().is_some() && readable.open.contains(it)
                    || self.writable.iter().any(|open| it.starts_with(open))
            })
        };
        let withheld = readable.withheld.iter().filter(|path| is_shown(path)).cloned();
        let sockets = sockets().into_iter().filter(|path| working.iter().any(|folder| path.starts_with(folder)));
        for path in withheld.chain(sockets).collect::<Vec<_>>() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let cover = if metadata.is_dir() { stand_ins.empty_folder } else { stand_ins.empty_file };
            self.at.insert(path, Mount::ReadOnly(cover.to_path_buf()));
        }
    }

    /// The arguments by which bubblewrap makes them, outer ones first.
    pub(super) fn arguments(&self, inner: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = ["--proc", "/proc", "--dev", "/dev"].map(OsString::from).into();
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
        arguments.extend(["--remount-ro", "/"].map(OsString::from));
        arguments
    }
}

/// The git folders of worktrees.
fn worktrees(common: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// The sockets that programs listen at, as far as the kernel tells their whole path.
fn sockets() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path =
        |line: &str| line.splitn(8, ' ').nth(7).and_then(|rest| rest.find('/').map(|at| PathBuf::from(&rest[at..])));
    table.lines().filter_map(path).collect()
}
