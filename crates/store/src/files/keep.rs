//! Moves the files that a repair removes to a folder in the archive, and keeps them there for one
//! week.
//!
//! This folder is called a keep, and its name is `.repair-<time>-<id>`. Each repair has its own
//! keep. No archive of a team has such a name. A list in the keep names every moved file or folder.
//! It is added to the list before it is moved. When a keep is older than a week, a later repair
//! removes only what its list names.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_protocol::FORMAT_VERSION;
use serde::{Deserialize, Serialize};

use super::backend::{FileBackend, Files};
use super::disk::failed;
use super::look::{Stands, list, name_of};
use super::plain;
use super::rename;
use crate::{StoreError, own_mode};

/// Time for which a repair keeps the files that it removed.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Prefix in the name of a keep, which is the folder for the files that one repair removes. The
/// time of the repair follows the prefix.
const PREFIX: &str = ".repair-";

/// File name of the list in a keep (the folder for the files that one repair removes). The list has
/// one JSON object per line.
const LIST: &str = "kept.ndjson";

/// A line of the list in a keep (the folder for the files that one repair removes).
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    /// The first line: the version of the format, and the time of the repair.
    Repair { v: u64, at_ms: i64 },
    /// An entry that the repair moved into the keep. The path is relative to the keep's folder. It
    /// is the same as the entry's old path relative to the root. If the keep already has this path,
    /// a number is added.
    Kept { path: PathBuf },
}

/// A keep: a folder in the archive for the files that one repair removes. The folder is created
/// when the first file is removed.
#[derive(Debug)]
pub struct Keep {
    root: PathBuf,
    place: Option<PathBuf>,
}

impl FileBackend {
    /// Returns the keep for a new repair: the folder for the files that the repair removes. This
    /// function writes nothing.
    #[must_use]
    pub fn keep(&self) -> Keep {
        Keep { root: self.files().paths.root().to_owned(), place: None }
    }

    /// Returns the folders of those keeps that are older than a week. This function blocks the
    /// thread.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the archive cannot be listed.
    pub fn old_keeps(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.files().old_keeps(jiff::Timestamp::now().as_millisecond())
    }

    /// Returns the newest copy that a repair keeps of the entry at `path`, or `None` if there is
    /// none. This function blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the archive cannot be listed.
    pub fn kept_copy(&self, path: &Path) -> Result<Option<PathBuf>, StoreError> {
        let files = self.files();
        let Ok(below) = path.strip_prefix(files.paths.root()) else { return Ok(None) };
        let mut newest = None;
        for (place, _, kept) in files.keeps()? {
            let copy = place.join(below);
            // The name of a keep begins with its time.
            if kept.iter().any(|path| path == below) && Stands::at(&copy)? != Stands::Nothing {
                newest = newest.max(Some(copy));
            }
        }
        Ok(newest)
    }

    /// Removes an old keep: first the entries on its list, then its folder if nothing else is in
    /// it. This function blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::Io`] if an entry or the folder cannot be removed.
    pub fn remove_keep(&self, place: &Path) -> Result<(), StoreError> {
        let Some((_, kept)) = read_list(place)? else { return Ok(()) };
        for path in kept.iter().filter(|path| is_inside(path)).map(|path| place.join(path)) {
            match Stands::at(&path)? {
                Stands::Nothing => {}
                // If the folder contains links, `remove_dir_all` removes the links themselves and
                // does not follow them.
                Stands::Folder => fs::remove_dir_all(&path).map_err(failed("remove", &path))?,
                Stands::File | Stands::Link | Stands::Other => {
                    fs::remove_file(&path).map_err(failed("remove", &path))?;
                }
            }
        }
        remove_empty_folders(place)?;
        // An entry that is not on the list belongs to somebody else. If there is one, the folder
        // stays.
        if list(place)?.iter().all(|path| name_of(path) == LIST) {
            let named = place.join(LIST);
            fs::remove_file(&named).map_err(failed("remove", &named))?;
            fs::remove_dir(place).map_err(failed("remove", place))?;
        }
        Ok(())
    }
}

impl Keep {
    /// Returns the keep's folder, or `None` if this repair has removed nothing yet.
    #[must_use]
    pub fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// Chooses a path in the keep for the entry at `path`, and adds this path to the list. `path`
    /// must be below the root.
    pub(crate) fn name(&mut self, files: &Files, path: &Path) -> Result<PathBuf, StoreError> {
        let not_below = || failed("keep", path)(std::io::Error::other("it is not below the root"));
        let below = path.strip_prefix(&self.root).map_err(|_| not_below())?;
        let place = self.open(files)?;
        let mut name = below.to_owned();
        // If the path is already used in the keep, a number is added to it.
        for number in 2_u32.. {
            if Stands::at(&place.join(&name))? == Stands::Nothing {
                break;
            }
            let mut numbered = below.as_os_str().to_owned();
            numbered.push(format!(".{number}"));
            name = PathBuf::from(numbered);
        }
        // The entry is listed before it is moved. If a crash comes in between, a later repair still
        // finds the entry on the list.
        add_line(files, &place, &Line::Kept { path: name.clone() })?;
        let kept = place.join(&name);
        let folder = kept.parent().unwrap_or(&place);
        own_mode::create_folders(folder).map_err(failed("create", folder))?;
        Ok(kept)
    }

    pub(crate) fn take(&mut self, files: &Files, path: &Path) -> Result<PathBuf, StoreError> {
        let kept = self.name(files, path)?;
        let moved = match Stands::at(path)? {
            Stands::Folder => rename::folder(path, &kept),
            Stands::File | Stands::Link | Stands::Other | Stands::Nothing => {
                fs::rename(path, &kept)
            }
        };
        moved.map_err(failed("keep", path))?;
        self.force(files, &kept, path)?;
        Ok(kept)
    }

    /// Writes `bytes` into the keep as a copy of the file at `path`. The file itself is not
    /// changed.
    pub(crate) fn copy(
        &mut self,
        files: &Files,
        path: &Path,
        bytes: &[u8],
    ) -> Result<PathBuf, StoreError> {
        let kept = self.name(files, path)?;
        files.disk.create(&kept, bytes)?;
        self.force(files, &kept, &kept)?;
        Ok(kept)
    }

    fn force(&self, files: &Files, kept: &Path, from: &Path) -> Result<(), StoreError> {
        for path in [kept, from] {
            files.disk.force_dir(path.parent().unwrap_or(path))?;
        }
        Ok(())
    }

    fn open(&mut self, files: &Files) -> Result<PathBuf, StoreError> {
        if let Some(place) = &self.place {
            return Ok(place.clone());
        }
        for folder in [files.paths.common(), files.paths.archive()] {
            match Stands::at(&folder)? {
                Stands::Folder => {}
                Stands::Nothing => {
                    own_mode::create_folder(&folder).map_err(failed("create", &folder))?
                }
                Stands::File | Stands::Link | Stands::Other => {
                    let reason = "nothing is kept there, since it is no folder".to_owned();
                    return Err(StoreError::Corrupt { path: folder, reason });
                }
            }
        }
        let now = jiff::Timestamp::now();
        let short: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
        let place = files
            .paths
            .archive()
            .join(format!("{PREFIX}{}-{short}", now.strftime("%Y%m%dT%H%M%SZ")));
        own_mode::create_folder(&place).map_err(failed("create", &place))?;
        add_line(files, &place, &Line::Repair { v: FORMAT_VERSION, at_ms: now.as_millisecond() })?;
        files.disk.force_dir(&place)?;
        files.disk.force_dir(&files.paths.archive())?;
        self.place = Some(place.clone());
        Ok(place)
    }
}

impl Files {
    fn old_keeps(&self, now_ms: i64) -> Result<Vec<PathBuf>, StoreError> {
        let kept_for = i64::try_from(KEPT_FOR.as_millis()).unwrap_or(i64::MAX);
        let is_old = |at_ms: i64| now_ms.saturating_sub(at_ms) > kept_for;
        let keeps = self.keeps()?.into_iter().filter(|(_, at_ms, _)| is_old(*at_ms));
        let mut old: Vec<PathBuf> = keeps.map(|(place, ..)| place).collect();
        old.sort();
        Ok(old)
    }

    /// Returns all keeps, each with the time of its repair and the paths on its list.
    fn keeps(&self) -> Result<Vec<(PathBuf, i64, Vec<PathBuf>)>, StoreError> {
        let archive = self.paths.archive();
        if Stands::at(&self.paths.common())? != Stands::Folder
            || Stands::at(&archive)? != Stands::Folder
        {
            return Ok(Vec::new());
        }
        let mut keeps = Vec::new();
        for place in list(&archive)? {
            let is_keep = is_keep_name(name_of(&place)) && Stands::at(&place)? == Stands::Folder;
            if is_keep && let Some((at_ms, kept)) = read_list(&place)? {
                keeps.push((place, at_ms, kept));
            }
        }
        Ok(keeps)
    }
}

/// Whether the name is the folder name of a keep, such as `.repair-20261120T134500Z-12345678`.
fn is_keep_name(name: &str) -> bool {
    let Some((time, id)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else {
        return false;
    };
    let is_time = time.len() == "20261120T134500Z".len() && time.as_bytes().get(8) == Some(&b'T');
    is_time && id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the time of the repair and the listed paths. Returns `None` if the folder has no valid
/// list, or if a later version of pitcrew wrote the list.
fn read_list(place: &Path) -> Result<Option<(i64, Vec<PathBuf>)>, StoreError> {
    let bytes = match plain::read(&place.join(LIST), plain::FILE_MOST) {
        Ok(Some(bytes)) => bytes,
        Ok(None) | Err(StoreError::Corrupt { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut at, mut kept) = (None, Vec::new());
    for line in
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
    {
        match line {
            Line::Repair { v, at_ms } => at = (v <= FORMAT_VERSION).then_some(at_ms),
            Line::Kept { path } => kept.push(path),
        }
    }
    Ok(at.map(|at| (at, kept)))
}

/// Whether the path stays below the folder to which it is appended.
fn is_inside(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn add_line(files: &Files, place: &Path, line: &Line) -> Result<(), StoreError> {
    let path = place.join(LIST);
    let mut text =
        serde_json::to_vec(line).map_err(|error| failed("write", &path)(error.into()))?;
    text.push(b'\n');
    let opened = plain::open_with(OpenOptions::new().append(true).create(true), &path);
    let mut file = opened.map_err(|error| error.at("open", &path))?;
    file.write_all(&text).and_then(|()| files.disk.force(&file)).map_err(failed("write", &path))
}

fn remove_empty_folders(folder: &Path) -> Result<(), StoreError> {
    for path in list(folder)? {
        if Stands::at(&path)? == Stands::Folder {
            remove_empty_folders(&path)?;
            if list(&path)?.is_empty() {
                fs::remove_dir(&path).map_err(failed("remove", &path))?;
            }
        }
    }
    Ok(())
}
