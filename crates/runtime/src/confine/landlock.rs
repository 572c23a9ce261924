//! Rights given up by Landlock: everything but what is kept and the folders on the way to it is granted.
//!
//! Only rights to change are given up, so that reading and running stay as they are.

use std::io;

use super::places::Places;

/// Rights are given up in the kernel's best way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Landlock {
    holds_truncation: bool,
}

impl Landlock {
    pub(super) fn holds_truncation(self) -> bool {
        self.holds_truncation
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
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use ::landlock::{
        ABI, AccessFs, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated,
        RulesetCreatedAttr, RulesetError, RulesetStatus, make_bitflags,
    };
    use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};

    use super::super::places::Identity;
    use super::{Landlock, Places, io};

    impl Landlock {
        /// Gives up rights on a thread of its own, to see whether the kernel does it.
        ///
        /// The first version (Linux before 5.19) is not used: it refuses every rename from one folder to another.
        pub(in super::super) fn probe() -> Option<Self> {
            let try_it = || restrict(&ruleset().map_err(io::Error::other)?);
            let status = std::thread::Builder::new().spawn(try_it).ok()?.join().ok()?.ok()?;
            match (status.landlock, status.ruleset) {
                (LandlockStatus::Available { effective_abi, .. }, RulesetStatus::FullyEnforced)
                    if effective_abi >= ABI::V3 =>
                {
                    Some(Self { holds_truncation: true })
                }
                (LandlockStatus::Available { effective_abi: ABI::V2, .. }, _) => Some(Self { holds_truncation: false }),
                (
                    LandlockStatus::Available { .. } | LandlockStatus::NotEnabled | LandlockStatus::NotImplemented,
                    RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced,
                ) => None,
            }
        }

        /// Gives up this thread's right to change anything in the places, for good.
        pub(in super::super) fn give_up(self, places: &Places) -> io::Result<()> {
            let mut ruleset = ruleset().map_err(io::Error::other)?;
            for way in &places.ways {
                grant_beside(&mut ruleset, way, places);
            }
            let status = restrict(&ruleset)?;
            match status.ruleset {
                RulesetStatus::FullyEnforced => Ok(()),
                RulesetStatus::PartiallyEnforced if !self.holds_truncation => Ok(()),
                RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
                    Err(io::Error::other("the kernel does not take the rights away"))
                }
            }
        }
    }

    fn ruleset() -> Result<RulesetCreated, RulesetError> {
        Ruleset::default().handle_access(rights())?.create()
    }

    /// All rights to change something; not those to use devices, which change no file.
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
        // Who administers the machine needs no promise to gain no rights, and keeps `su` and its like.
        restrict(false).or_else(|_not_an_administrator| restrict(true))
    }

    /// Grants everything in a folder on the way that is not itself on it. What cannot be granted is not: a file system
    /// of the kernel's own, or something that is gone by now.
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
            // A link grants nothing: what it leads to is found at its own place.
            if matches!(name, b"." | b"..") || entry.file_type() == FileType::Symlink {
                continue;
            }
            grant(ruleset, folder.as_fd(), &way.join(OsStr::from_bytes(name)), places);
        }
    }

    fn grant(ruleset: &mut RulesetCreated, folder: BorrowedFd<'_>, path: &Path, places: &Places) -> Option<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: OwnedFd = openat(folder, path.file_name()?, flags, Mode::empty()).ok()?;
        let stat = fstat(&file).ok()?;
        let identity = Identity { device: stat.st_dev, inode: stat.st_ino };
        if places.holds(path, identity) {
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
