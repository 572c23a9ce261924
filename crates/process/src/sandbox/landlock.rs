//! Restricts threads and the commands that they start, with Landlock.
//!
//! - The sandbox profile *free* allows everything except changes to protected files and to the
//!   folders on the path to them.
//! - The sandbox profile *read* allows only reading the readable files and writing the private
//!   temporary folder.
//!
//! If several rulesets apply to a thread, an access needs the permission of each ruleset. A process
//! in a Landlock domain cannot inspect processes outside the domain, even if the domain allows
//! everything.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::places::Places;
use super::readable::{Exceptions, Readable};
use super::shared::RuleSource;

#[cfg(target_os = "linux")]
type Ruleset = ::landlock::RulesetCreated;
#[cfg(not(target_os = "linux"))]
type Ruleset = std::convert::Infallible;

/// The Landlock features of this kernel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Landlock {
    holds_truncation: bool,
    scopes_signals: bool,
}

impl Landlock {
    pub(super) fn holds_truncation(self) -> bool {
        self.holds_truncation
    }

    /// Returns true if the kernel restricts signals to processes in the same Landlock domain.
    pub(super) fn scopes_signals(self) -> bool {
        self.scopes_signals
    }
}

/// Selects whether Landlock refuses TCP to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// Landlock refuses TCP.
    Refused,
    /// Landlock does not restrict TCP. A network namespace limits the network instead, unless the
    /// user shares the machine's network with commands (`sandbox.network`).
    AsIs,
}

/// The files that a command is allowed to write, and its network access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writable<'a> {
    pub(super) folders: &'a [&'a Path],
    pub(super) devices: &'a [&'a str],
    /// Folders with the command's own devices. The command is also allowed to control these devices
    /// by `ioctl`.
    pub(super) terminals: &'a [&'a str],
    pub(super) network: Network,
}

/// The files that a program of pitcrew's own is allowed to change. It reads all files.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnChanges<'a> {
    /// Files, and folders with everything below them.
    pub(super) write: &'a [PathBuf],
    /// Folders from which empty folders may be removed.
    pub(super) emptied: &'a [PathBuf],
    pub(super) network: Network,
}

/// A Landlock ruleset for threads, and the files from which the ruleset was built.
#[derive(Debug)]
pub(super) struct Bounds {
    ruleset: Ruleset,
    seen: Vec<RuleSource>,
}

impl Bounds {
    /// Returns true if all files from which the ruleset was built are unchanged.
    pub(super) fn is_current(&self) -> bool {
        self.seen.iter().all(RuleSource::is_current)
    }
}

#[cfg(not(target_os = "linux"))]
impl Landlock {
    pub(super) fn probe() -> Option<Self> {
        None
    }

    pub(super) fn give_up(self, _places: &Places) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(super) fn leave_other_processes(self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(super) fn bounds(
        self,
        _readable: &Readable,
        _writable: &Writable<'_>,
    ) -> io::Result<Bounds> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(super) fn changing(self, _changes: OwnChanges<'_>) -> io::Result<Bounds> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(super) fn hold_to(self, bounds: &Bounds) -> io::Result<()> {
        match bounds.ruleset {}
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use ::landlock::{
        ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus,
        Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
        Scope, make_bitflags,
    };
    use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};

    use super::super::places::Identity;
    use super::{
        Bounds, Exceptions, Landlock, Network, OwnChanges, Places, Readable, RuleSource, Writable,
        io,
    };

    impl Landlock {
        /// Tests on a new thread whether the kernel enforces a Landlock ruleset.
        ///
        /// Landlock version 1 (before Linux 5.19) is not used, because that version refuses every
        /// rename from one folder to another.
        pub(in super::super) fn probe() -> Option<Self> {
            let try_it = || restrict(&ruleset().map_err(io::Error::other)?);
            let status = std::thread::Builder::new().spawn(try_it).ok()?.join().ok()?.ok()?;
            match (status.landlock, status.ruleset) {
                (LandlockStatus::Available { effective_abi, .. }, RulesetStatus::FullyEnforced)
                    if effective_abi >= ABI::V3 =>
                {
                    Some(Self { holds_truncation: true, scopes_signals: effective_abi >= ABI::V6 })
                }
                (LandlockStatus::Available { effective_abi: ABI::V2, .. }, _) => {
                    Some(Self { holds_truncation: false, scopes_signals: false })
                }
                (
                    LandlockStatus::Available { .. }
                    | LandlockStatus::NotEnabled
                    | LandlockStatus::NotImplemented,
                    RulesetStatus::FullyEnforced
                    | RulesetStatus::PartiallyEnforced
                    | RulesetStatus::NotEnforced,
                ) => None,
            }
        }

        /// Permanently gives up this thread's right to change the protected places.
        pub(in super::super) fn give_up(self, places: &Places) -> io::Result<()> {
            let mut ruleset = ruleset().map_err(io::Error::other)?;
            for way in &places.ways {
                grant_beside(&mut ruleset, way, places);
            }
            for open in &places.open {
                grant_whole(&mut ruleset, open, rights());
            }
            self.enforce(&ruleset)
        }

        /// Gives up the right to inspect processes outside this Landlock domain: their memory,
        /// their files and their view of the file system (`/proc/PID/root`). The kernel takes this
        /// right from every process in a Landlock domain, whatever the ruleset is. The ruleset used
        /// here therefore allows all file access.
        pub(in super::super) fn leave_other_processes(self) -> io::Result<()> {
            let mut ruleset = ruleset().map_err(io::Error::other)?;
            grant_whole(&mut ruleset, Path::new("/"), rights());
            self.enforce(&ruleset)
        }

        fn enforce(self, ruleset: &RulesetCreated) -> io::Result<()> {
            match restrict(ruleset)?.ruleset {
                RulesetStatus::FullyEnforced => Ok(()),
                // A kernel before Linux 6.2 cannot refuse truncation. Pitcrew warns the user about
                // this gap elsewhere.
                RulesetStatus::PartiallyEnforced if !self.holds_truncation => Ok(()),
                RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
                    Err(io::Error::other("the kernel does not take the rights away"))
                }
            }
        }
    }

    impl Landlock {
        /// Creates a ruleset that allows only reading `readable` and writing `writable`.
        pub(in super::super) fn bounds(
            self,
            readable: &Readable,
            writable: &Writable<'_>,
        ) -> io::Result<Bounds> {
            let ruleset = bounding_ruleset(writable.network).map_err(io::Error::other)?;
            let mut bounds = Bounds { ruleset, seen: Vec::new() };
            let exceptions = Exceptions::of(&readable.withheld);
            for path in &readable.open {
                bounds.grant_reading_at(path, exceptions.at(path));
            }
            for folder in writable.folders {
                bounds.grant_writing(folder, all_but_devices());
            }
            for device in writable.devices {
                let rights = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
                bounds.grant_writing(Path::new(device), rights);
            }
            for device in writable.terminals {
                let rights = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});
                bounds.grant_writing(Path::new(device), rights);
            }
            Ok(bounds)
        }

        /// Creates a ruleset for a program of pitcrew's own. It allows reading and executing
        /// everything, and changing only what `changes` names.
        pub(in super::super) fn changing(self, changes: OwnChanges<'_>) -> io::Result<Bounds> {
            let ruleset = changing_ruleset(changes.network).map_err(io::Error::other)?;
            let mut bounds = Bounds { ruleset, seen: Vec::new() };
            let devices = make_bitflags!(AccessFs::{MakeChar | MakeBlock});
            for path in changes.write {
                let is_folder = path.is_dir();
                let of_file = make_bitflags!(AccessFs::{WriteFile | Truncate});
                bounds.grant_writing(path, if is_folder { rights() & !devices } else { of_file });
            }
            for folder in changes.emptied {
                bounds.grant_writing(folder, AccessFs::RemoveDir.into());
            }
            let of_device = make_bitflags!(AccessFs::{WriteFile | Truncate});
            bounds.grant_writing(Path::new("/dev/null"), of_device);
            Ok(bounds)
        }

        /// Restricts this thread permanently to the rights that `bounds` allows. If a thread is
        /// restricted several times, it keeps only the rights that all of its bounds allow.
        pub(in super::super) fn hold_to(self, bounds: &Bounds) -> io::Result<()> {
            let copy = bounds.ruleset.try_clone()?.no_new_privs(true);
            let status = copy.restrict_self().map_err(io::Error::other)?;
            match status.ruleset {
                RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced
                    if self.holds_truncation =>
                {
                    Ok(())
                }
                RulesetStatus::FullyEnforced
                | RulesetStatus::PartiallyEnforced
                | RulesetStatus::NotEnforced => {
                    Err(io::Error::other("the kernel does not take the rights away"))
                }
            }
        }
    }

    impl Bounds {
        fn grant_writing(&mut self, path: &Path, rights: BitFlags<AccessFs>) {
            let identity = grant_whole(&mut self.ruleset, path, rights);
            self.seen.push(RuleSource::whole(path, identity));
        }

        fn grant_reading_at(&mut self, path: &Path, exceptions: Option<&Exceptions>) {
            let file = open(rustix::fs::CWD, path.as_os_str()).ok();
            self.seen.push(RuleSource::whole(path, file.as_ref().and_then(identity)));
            if let Some(file) = file {
                self.grant_reading(path, file, exceptions);
            }
        }

        /// Allows reading a file, or a folder with everything below it except the withheld paths.
        /// Only the contents of withheld files and folders are withheld: their names can still be
        /// listed in the parent folder.
        fn grant_reading(&mut self, path: &Path, file: OwnedFd, exceptions: Option<&Exceptions>) {
            let Ok(stat) = fstat(&file) else { return };
            let rights = match (FileType::from_raw_mode(stat.st_mode), exceptions) {
                (_, Some(it)) if it.is_whole => return,
                (FileType::RegularFile, _) => make_bitflags!(AccessFs::{Execute | ReadFile}),
                (FileType::Directory, None) => AccessFs::from_read(ABI::V1),
                (FileType::Directory, Some(below)) => {
                    // Record the folder's change time before listing it, so that any later change
                    // is detected.
                    self.seen.push(RuleSource::listed(path, &stat));
                    self.grant_entries(path, &file, below);
                    AccessFs::ReadDir.into()
                }
                (
                    FileType::Symlink
                    | FileType::Fifo
                    | FileType::Socket
                    | FileType::CharacterDevice
                    | FileType::BlockDevice
                    | FileType::Unknown,
                    _,
                ) => return,
            };
            drop((&mut self.ruleset).add_rule(PathBeneath::new(file, rights)).map(drop));
        }

        /// Allows reading the entries of a folder. Each entry gets its own rule.
        fn grant_entries(&mut self, path: &Path, folder: &OwnedFd, exceptions: &Exceptions) {
            let entries = openat(
                folder,
                c".",
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            );
            for entry in entries.and_then(Dir::read_from).into_iter().flatten().flatten() {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." || entry.file_type() == FileType::Symlink {
                    continue;
                }
                if let Ok(inner) = open(folder, name) {
                    self.grant_reading(&path.join(name), inner, exceptions.below(name));
                }
            }
        }
    }

    fn identity(file: &OwnedFd) -> Option<Identity> {
        fstat(file).ok().as_ref().map(Identity::from)
    }
    /// The newest Landlock version that this code knows. Where the kernel lacks a Landlock feature,
    /// the system call filter (seccomp) refuses the same access.
    const KNOWN: ABI = ABI::V9;

    fn bounding_ruleset(network: Network) -> Result<RulesetCreated, RulesetError> {
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))?
            .scope(Scope::from_all(KNOWN))?;
        match network {
            Network::Refused => ruleset.handle_access(AccessNet::from_all(KNOWN))?.create(),
            Network::AsIs => ruleset.create(),
        }
    }

    fn changing_ruleset(network: Network) -> Result<RulesetCreated, RulesetError> {
        let ruleset = Ruleset::default().handle_access(rights())?;
        match network {
            Network::Refused => ruleset
                .handle_access(AccessNet::from_all(KNOWN))?
                .scope(Scope::from_all(KNOWN))?
                .create(),
            // An agent of the user's, for keys or passwords, may listen at any kind of socket.
            Network::AsIs => ruleset.scope(Scope::Signal)?.create(),
        }
    }

    fn all_but_devices() -> BitFlags<AccessFs> {
        AccessFs::from_all(KNOWN) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev})
    }

    fn open(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
        openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    /// Allows `rights` for a file, or for a folder with everything below it. Returns the identity
    /// of the file or folder.
    fn grant_whole(
        ruleset: &mut RulesetCreated,
        path: &Path,
        rights: BitFlags<AccessFs>,
    ) -> Option<Identity> {
        let file = open(rustix::fs::CWD, path.as_os_str()).ok()?;
        let identity = identity(&file);
        let granted = ruleset.add_rule(PathBeneath::new(file, rights)).map(drop);
        drop(granted.inspect_err(
            |problem| tracing::debug!(%problem, path = %path.display(), "not granted"),
        ));
        identity
    }

    fn ruleset() -> Result<RulesetCreated, RulesetError> {
        Ruleset::default().handle_access(rights())?.create()
    }

    /// Returns all rights to change files. The right to control devices is not included, because
    /// controlling a device changes no file.
    fn rights() -> BitFlags<AccessFs> {
        make_bitflags!(AccessFs::{
            WriteFile | Truncate | RemoveDir | RemoveFile | MakeChar | MakeDir | MakeReg | MakeSock | MakeFifo
                | MakeBlock | MakeSym | Refer
        })
    }

    fn restrict(ruleset: &RulesetCreated) -> io::Result<RestrictionStatus> {
        let restrict = |promises_no_gain| {
            let copy = ruleset.try_clone()?.no_new_privs(promises_no_gain);
            copy.restrict_self().map_err(io::Error::other)
        };
        // Try first without the no-new-privileges flag, so that `su` and similar programs still
        // work. Only an administrator is allowed to restrict a thread without the flag. Other users
        // need the flag.
        restrict(false).or_else(|_not_an_administrator| restrict(true))
    }

    /// Allows everything in a folder on the path to a protected file, except the entry with which
    /// the path continues. Two kinds of entries are skipped, because no rule can be made for them:
    /// kernel file systems, and entries that no longer exist.
    fn grant_beside(ruleset: &mut RulesetCreated, way: &Path, places: &Places) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = rustix::fs::open(way, flags, Mode::empty()) else {
            return;
        };
        let Ok(entries) = Dir::read_from(&folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            // Skip symbolic links. The target of a link gets a rule at its own path.
            if matches!(name, b"." | b"..") || entry.file_type() == FileType::Symlink {
                continue;
            }
            grant(ruleset, folder.as_fd(), &way.join(OsStr::from_bytes(name)), places);
        }
    }

    fn grant(
        ruleset: &mut RulesetCreated,
        folder: BorrowedFd<'_>,
        path: &Path,
        places: &Places,
    ) -> Option<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: OwnedFd = openat(folder, path.file_name()?, flags, Mode::empty()).ok()?;
        let stat = fstat(&file).ok()?;
        // A protected file gets no rule, so it cannot be changed.
        if places.holds(path, Identity::from(&stat)) {
            return None;
        }
        let rights = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => rights(),
            FileType::Symlink => return None,
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => make_bitflags!(AccessFs::{WriteFile | Truncate}),
        };
        let granted = ruleset.add_rule(PathBeneath::new(file, rights)).map(drop);
        granted.inspect_err(|problem| tracing::debug!(%problem, "a right is not granted")).ok()
    }
}
