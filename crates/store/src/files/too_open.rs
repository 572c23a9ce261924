//! Finds pitcrew's files and folders that other users of the machine can access, and removes that
//! access.
//!
//! Present versions of pitcrew create files and folders that only the user can access
//! ([`own_mode`]). Earlier versions left the mode to the umask. No link is followed, because every
//! folder is opened from its parent folder. Only folders and plain files with one name (hard link)
//! are checked. They must belong to the user, and their names must be names that pitcrew writes
//! (`ours`).

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};

use super::backend::Files;
use super::look::Stands;
use super::ours::{FileMeaning, Place, meaning};
use super::paths::{JOURNAL, lease_in};
use super::plain::CAREFUL;
use crate::own_mode;

/// Largest depth below `pitcrew/` to which folders are checked.
const DEEPEST: usize = 24;

/// Mode bits that allow other users to write.
const WRITING: u32 = 0o022;

/// Number of bytes read from the start of a journal. The first line is shorter than this.
const FIRST_LINE_BYTES: u64 = 64 * 1024;

/// What to do with a file or folder that other users can access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Only report the path.
    Name,
    /// Remove the access of other users.
    Close,
}

/// The kind of a folder. It decides which entries in the folder belong to pitcrew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Only the folder itself belongs to pitcrew. Its content can belong to other programs.
    Itself,
    /// Everything below the folder belongs to pitcrew.
    Whole,
    /// Only the folder itself is checked. Other users are allowed to read it but not to write it.
    Shared,
    /// The folder `pitcrew/` of the root.
    Common,
    /// The folder of archived teams.
    Archive,
    /// The folder with the files that count actions for rate limits.
    Rates,
    /// The folder `pitcrew/` of a team.
    Team,
    /// A folder with logs of members.
    Logs,
    /// The folder for the printed text of members.
    Output,
    /// The folder for logs of pitcrew's writes.
    Writes,
}

impl Extent {
    /// Returns the kind of the entry `name` in this kind of folder. Returns `None` if the entry
    /// does not belong to pitcrew.
    fn of(self, name: &str) -> Option<Self> {
        let is_ours = |place: Place| meaning(place, name) != FileMeaning::Foreign;
        let when = |condition: bool| condition.then_some(Self::Whole);
        match self {
            Self::Itself | Self::Shared => None,
            Self::Whole => Some(Self::Whole),
            Self::Common => match name {
                "archive" => Some(Self::Archive),
                "rates" => Some(Self::Rates),
                "sandbox" | "tmp" | "worktrees" => Some(Self::Itself),
                name => when(matches!(
                    name,
                    "shells" | "web" | "lifecycle.lock" | "trust.json" | "trust.lock"
                )),
            },
            // Files inside an archive keep their modes, so that a restore brings the team back
            // unchanged.
            Self::Archive => is_of_the_archive(name).then_some(Self::Itself),
            Self::Rates => {
                let of_teams = ["spawns.", "tasks.", "broadcasts."];
                when(
                    matches!(name, "teams" | "calls")
                        || of_teams.iter().any(|it| name.starts_with(it)),
                )
            }
            Self::Team => match name {
                "transcripts" | "read" => Some(Self::Logs),
                "output" => Some(Self::Output),
                "writes" => Some(Self::Writes),
                name => when(is_ours(Place::Ours) || lease_in(name).is_some()),
            },
            Self::Logs => when(is_ours(Place::Logs)),
            Self::Output => when(name.ends_with(".log")),
            Self::Writes => when(name.ends_with(".ndjson")),
        }
    }
}

/// Whether the name has the form of a folder in the archive. The folder of an archived team has the
/// name `<team>-<time>-<8 hexadecimal digits>`. A folder with files that a repair keeps has the
/// name `.repair-<time>-<8 hexadecimal digits>`.
fn is_of_the_archive(name: &str) -> bool {
    let Some((front, id)) = name.rsplit_once('-') else { return false };
    let Some((_, time)) = front.rsplit_once('-') else { return false };
    let is_time = time.len() == 16
        && time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'Z'));
    is_time && id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Files {
    /// Returns the paths that other users can access, sorted. Checks the folders of `team`, or the
    /// folder `pitcrew/` of the root if `team` is `None`. With [`Treatment::Close`], returns only
    /// the paths from which the access could not be removed.
    pub(crate) fn too_open(&self, team: Option<&TeamDir>, treatment: Treatment) -> Vec<PathBuf> {
        let mut search = Search { treatment, found: Vec::new() };
        // The root itself is allowed to be a link.
        let Ok(root) =
            openat(CWD, self.paths.root(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
        else {
            return Vec::new();
        };
        let root = (File::from(root), self.paths.root().to_owned());
        match team {
            None => {
                search.below(&root, &["pitcrew"], Extent::Common);
                // Another client may have created these two folders, so other users are allowed to
                // read the folders. Other users must not be able to write to the folders, because
                // then they could replace teams.
                for shared in ["teams", "tasks"] {
                    search.below(&root, &[shared], Extent::Shared);
                }
            }
            Some(team) => {
                search.below(&root, &["teams", team.as_str(), "pitcrew"], Extent::Team);
                if self.is_made_by_us(team) {
                    let folders: [&[&str]; 3] = [
                        &["teams", team.as_str()],
                        &["teams", team.as_str(), "inboxes"],
                        &["tasks", team.as_str()],
                    ];
                    for names in folders {
                        search.below(&root, names, Extent::Itself);
                    }
                }
            }
        }
        search.found.sort();
        search.found
    }

    /// Whether the first entry of the team's journal is the creation of the team. This is not so if
    /// another client created the team.
    fn is_made_by_us(&self, team: &TeamDir) -> bool {
        let path = self.paths.ours(team).join(JOURNAL);
        let is_apart =
            path.ancestors().skip(1).take(2).all(|it| matches!(Stands::at(it), Ok(Stands::Folder)));
        let Some(file) = is_apart.then(|| super::plain::open(&path).ok()).flatten() else {
            return false;
        };
        let mut bytes = Vec::new();
        if file.take(FIRST_LINE_BYTES).read_to_end(&mut bytes).is_err() {
            return false;
        }
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let entry = serde_json::from_slice::<serde_json::Value>(first).unwrap_or_default();
        entry.get("event").and_then(|event| event.as_str()) == Some("team_created")
    }
}

struct Search {
    treatment: Treatment,
    found: Vec<PathBuf>,
}

type Opened = (File, PathBuf);

impl Search {
    /// Checks the folder whose path below `start` consists of `names`.
    fn below(&mut self, start: &Opened, names: &[&str], extent: Extent) {
        let Some((last, above)) = names.split_last() else { return };
        let mut at = (start.0.try_clone(), start.1.clone());
        for name in above {
            let Ok(folder) = &at.0 else { return };
            at = (open(folder, *name, OFlags::DIRECTORY), at.1.join(name));
        }
        let (Ok(folder), path) = at else { return };
        let Ok(stat) = statat(&folder, *last, AtFlags::SYMLINK_NOFOLLOW) else { return };
        if is_folder(&stat) {
            self.at_entry(&folder, *last, &path.join(last), &stat, extent, 0);
        }
    }

    fn at_entry<P: rustix::path::Arg + Copy>(
        &mut self,
        above: &File,
        name: P,
        path: &Path,
        stat: &Stat,
        extent: Extent,
        depth: usize,
    ) {
        let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
        let rights = if extent == Extent::Shared { WRITING } else { own_mode::OF_OTHERS };
        if is_own && stat.st_mode & rights != 0 && !self.is_closed(above, name, stat, rights) {
            self.found.push(path.to_owned());
        }
        // In these two kinds of folder, entries can belong to other programs. Such entries are not
        // checked and keep their modes.
        if !matches!(extent, Extent::Itself | Extent::Shared)
            && is_folder(stat)
            && depth < DEEPEST
            && let Ok(folder) = open(above, name, OFlags::DIRECTORY)
        {
            self.inside(&folder, path, extent, depth + 1);
        }
    }

    fn inside(&mut self, folder: &File, path: &Path, extent: Extent, depth: usize) {
        let Ok(entries) = Dir::read_from(folder) else { return };
        for entry in entries.flatten() {
            let name: &CStr = entry.file_name();
            let Ok(text) = name.to_str() else { continue };
            let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // A file with a second hard link is possibly a file of the user outside the root.
            let is_plain = FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_nlink == 1;
            if matches!(text, "." | "..") || !(is_plain || is_folder(&stat)) {
                continue;
            }
            let Some(below) = extent.of(text) else { continue };
            self.at_entry(folder, name, &path.join(text), &stat, below, depth);
        }
    }

    /// With [`Treatment::Close`], removes the access of other users. Returns whether the access was
    /// removed.
    fn is_closed<P: rustix::path::Arg>(
        &self,
        above: &File,
        name: P,
        seen: &Stat,
        rights: u32,
    ) -> bool {
        self.treatment == Treatment::Close && close(above, name, seen, rights).unwrap_or(false)
    }
}

/// Removes the rights `of_others` from the entry that was checked. Returns whether this succeeded.
fn close<P: rustix::path::Arg>(
    above: &File,
    name: P,
    seen: &Stat,
    of_others: u32,
) -> io::Result<bool> {
    let kind = if is_folder(seen) { OFlags::DIRECTORY } else { OFlags::empty() };
    let file = open(above, name, kind)?;
    let now = file.metadata()?;
    // Another entry may have replaced the checked entry. The mode of that other entry must not
    // change.
    if (now.dev(), now.ino(), now.uid()) != (seen.st_dev, seen.st_ino, seen.st_uid) {
        return Ok(false);
    }
    let mut rights = now.permissions();
    rights.set_mode(now.mode() & 0o7777 & !of_others);
    file.set_permissions(rights)?;
    // Some file systems do not store modes. Therefore the mode is read back.
    Ok(file.metadata()?.mode() & of_others == 0)
}

fn open<P: rustix::path::Arg>(above: &File, name: P, kind: OFlags) -> io::Result<File> {
    Ok(File::from(openat(above, name, OFlags::RDONLY | CAREFUL | kind, Mode::empty())?))
}

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}
