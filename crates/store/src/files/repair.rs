//! Repairs the damage that [`look`](super::look) found. Removed files go to a [`Keep`].

use std::path::{Path, PathBuf};

use pitcrew_protocol::{TaskId, TeamDir};

use super::array;
use super::backend::{FileBackend, Files};
use super::damage::{BadLine, Damage, FileState};
use super::keep::Keep;
use super::lines;
use super::lock::{Lock, set_aside, will_be_of_the_dead};
use super::look::{Stands, is_free, is_stale, list, name_of};
use super::ours::{FileMeaning, Place, is_unborn, meaning};
use super::plain;
use super::tasks::HIGH_WATER;
use super::too_open::Treatment;
use crate::StoreError;

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// The damage is removed or corrected.
    Done,
    /// The damaged file is now kept at this path.
    Kept(PathBuf),
    /// The file was written or removed after the check, so the repair left it unchanged.
    Changed,
    /// The repair left the file unchanged for this reason.
    Left(&'static str),
}

impl FileBackend {
    /// Moves everything under a team's name to the archive: a team, half a team, or only its tasks.
    /// Returns the path of the archive, or `None` if there was nothing. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be moved; [`StoreError::NoFolder`] if an entry at the path
    /// of a folder of the root is no folder. If the team itself is a link, the link is moved.
    pub fn clear_away(&self, team: &TeamDir) -> Result<Option<PathBuf>, StoreError> {
        self.files().must_have_folders(None)?;
        self.files().clear_away(team)
    }

    /// Whether [`repair`](Self::repair) can repair this kind of damage. All other kinds need a
    /// person.
    #[must_use]
    pub fn can_repair(damage: &Damage) -> bool {
        match damage {
            Damage::StaleLock { .. }
            | Damage::Unfinished { .. }
            | Damage::Torn { .. }
            | Damage::BadLines { .. }
            | Damage::HalfArchived { .. }
            | Damage::TooOpen { .. } => true,
            Damage::Occupied { .. }
            | Damage::NoTask { .. }
            | Damage::Link { .. }
            | Damage::NoFolder { .. }
            | Damage::NoConfig { .. }
            | Damage::BadConfig { .. }
            | Damage::Newer { .. }
            | Damage::Unseen { .. } => false,
        }
    }

    /// Keeps a copy of the file before a part of it is removed. Blocks.
    ///
    /// # Errors
    /// The errors of the disk.
    pub fn keep_copy(&self, path: &Path, keep: &mut Keep) -> Result<Mend, StoreError> {
        let files = self.files();
        match files.bytes_of_plain(path)? {
            Some(bytes) => keep.copy(files, path, &bytes).map(Mend::Kept),
            None => Ok(Mend::Done),
        }
    }

    /// Repairs one finding. Stale locks, unfinished files and damaged files are moved to the keep,
    /// where nothing reads them and nothing is lost. The complete messages of an inbox and the
    /// valid lines of a log stay in place. A half archived team is completed. Blocks.
    ///
    /// # Errors
    /// The errors of lock and disk. The damage is then unchanged.
    pub fn repair(&self, damage: &Damage, keep: &mut Keep) -> Result<Mend, StoreError> {
        let files = self.files();
        match damage {
            Damage::StaleLock { path } => {
                if Stands::at(path)? == Stands::Nothing {
                    return Ok(Mend::Changed);
                }
                // A process may have taken the lock since the check.
                if !is_stale(path) || !is_free(path)? {
                    return Ok(Mend::Left("somebody holds it"));
                }
                let kept = keep.name(files, path)?;
                Ok(if set_aside(path, &kept)? {
                    Mend::Kept(kept)
                } else {
                    Mend::Left("somebody holds it")
                })
            }
            Damage::Unfinished { path }
                if is_unborn(name_of(path)) && !holds_a_team_only(path)? =>
            {
                Ok(Mend::Left("there is more in it than a team"))
            }
            Damage::Unfinished { path } if Stands::at(path)? == Stands::Nothing => {
                Ok(Mend::Changed)
            }
            Damage::Unfinished { path } => keep.take(files, path).map(Mend::Kept),
            Damage::Torn { path, seen, .. } => files.keep_torn(path, seen, keep),
            Damage::BadLines { path, lines } => files.take_out(path, lines, keep).map(Mend::Kept),
            Damage::HalfArchived { team, .. } => {
                files.must_have_folders(Some(team))?;
                files.archive_team(team).map(Mend::Kept)
            }
            Damage::TooOpen { team, .. } => {
                match files.too_open(team.as_ref(), Treatment::Close).is_empty() {
                    true => Ok(Mend::Done),
                    false => Ok(Mend::Left(
                        "the file system keeps no modes, or some of it cannot be opened",
                    )),
                }
            }
            Damage::Occupied { .. }
            | Damage::NoTask { .. }
            | Damage::Link { .. }
            | Damage::NoFolder { .. }
            | Damage::NoConfig { .. }
            | Damage::BadConfig { .. }
            | Damage::Newer { .. }
            | Damage::Unseen { .. } => Ok(Mend::Left("only a person can")),
        }
    }
}

impl Files {
    /// Breaks all locks of one team that nobody holds. Does not follow links, and does not break a
    /// lock folder that contains anything.
    pub(crate) fn break_stale_locks(&self, team: &TeamDir) -> Result<usize, StoreError> {
        self.must_exist(team)?;
        let mut broken = 0;
        let (team_dir, inboxes) = (self.paths.team(team), self.paths.inboxes(team));
        let tasks = self.paths.tasks(team);
        for (dir, place) in
            [(team_dir.clone(), Place::Team), (inboxes, Place::Inboxes), (tasks, Place::Tasks)]
        {
            let is_below_link = place == Place::Inboxes && Stands::at(&team_dir)? != Stands::Folder;
            if is_below_link || Stands::at(&dir)? != Stands::Folder {
                continue;
            }
            for path in list(&dir)? {
                let is_lock = meaning(place, name_of(&path)) == FileMeaning::Lock;
                if is_lock && (is_stale(&path) || will_be_of_the_dead(&path)) && is_free(&path)? {
                    // Taking the lock breaks it if it is still stale. Releasing it then removes the
                    // folder.
                    drop(Lock::take(&path.with_extension(""), |_| ())?);
                    broken += 1;
                }
            }
        }
        Ok(broken)
    }

    fn keep_torn(
        &self,
        path: &Path,
        seen: &FileState,
        keep: &mut Keep,
    ) -> Result<Mend, StoreError> {
        let is_task = path.starts_with(self.paths.all_tasks());
        let is_document = path.extension().is_some_and(|ending| ending == "json");
        let lock_of = if is_task { path.with_file_name(".lock") } else { path.to_owned() };
        let _lock = if is_task || is_document { Some(self.disk.lock(&lock_of)?) } else { None };
        // The writer of the file or another repair may have changed the file since the check.
        if !seen.is_at(path) {
            return Ok(Mend::Changed);
        }
        let is_high_water = name_of(path) == HIGH_WATER;
        // The file of the task is removed, but the id of the task must never be used again.
        if is_task && !is_high_water {
            self.keep_id_taken(path)?;
        }
        let is_inbox = path.parent().is_some_and(|dir| name_of(dir) == "inboxes");
        if is_inbox && let Some(bytes) = self.bytes_of_plain(path)? {
            let mode = std::fs::symlink_metadata(path)
                .map(|meta| std::os::unix::fs::MetadataExt::mode(&meta))
                .ok();
            let kept = keep.copy(self, path, &bytes)?;
            let _stamp =
                self.disk.write_temp(path, array::whole(&bytes).as_bytes(), mode)?.rename(path)?;
            self.disk.force_dir(path.parent().unwrap_or(path))?;
            return Ok(Mend::Kept(kept));
        }
        // A file that is no plain file, or too long to read, is moved unchanged.
        let kept = keep.take(self, path)?;
        // Without the mark of used ids, the next task could get an id that was already used.
        if is_high_water {
            self.raise_high_water(path, 0)?;
        }
        Ok(Mend::Kept(kept))
    }

    fn bytes_of_plain(&self, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        match plain::read(path, plain::FILE_MOST) {
            Err(StoreError::Corrupt { .. }) => Ok(None),
            read => read,
        }
    }

    /// Raises the mark of used ids to the id of a task file that is about to be removed.
    fn keep_id_taken(&self, task: &Path) -> Result<(), StoreError> {
        let Some(id) = id_of(task) else { return Ok(()) };
        self.raise_high_water(&task.with_file_name(HIGH_WATER), id.number())
    }

    /// Sets the mark of used ids to the highest of its old value, `least` and the ids in use.
    fn raise_high_water(&self, mark: &Path, least: u64) -> Result<(), StoreError> {
        let text = self.bytes_of_plain(mark)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let marked: u64 = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let tasks = list(mark.parent().unwrap_or(mark))?;
        let in_use =
            tasks.iter().filter_map(|path| id_of(path)).map(|id| id.number()).max().unwrap_or(0);
        let highest = marked.max(least).max(in_use);
        self.disk.create(mark, highest.to_string().as_bytes())
    }

    /// Removes lines from a log. The lines are copied to the keep, and then overwritten with spaces
    /// in place. So the positions of readers stay valid, and no concurrent append goes to a
    /// replaced file.
    fn take_out(
        &self,
        path: &Path,
        bad: &[BadLine],
        keep: &mut Keep,
    ) -> Result<PathBuf, StoreError> {
        let mut text = Vec::new();
        for line in bad {
            text.extend_from_slice(&line.bytes);
            text.push(b'\n');
        }
        let kept = keep.copy(self, path, &text)?;
        lines::blank(
            &self.disk,
            path,
            bad.iter().map(|line| (line.number, line.bytes.as_slice())),
        )?;
        Ok(kept)
    }
}

fn id_of(task: &Path) -> Option<TaskId> {
    if task.extension()? != "json" {
        return None;
    }
    TaskId::parse(task.file_stem()?.to_str()?)
}

/// Whether the folder of an unfinished team creation contains only files of a team.
fn holds_a_team_only(folder: &Path) -> Result<bool, StoreError> {
    let is_of_a_team = |name: &str| {
        matches!(name, "config.json" | "inboxes" | "pitcrew")
            || meaning(Place::Team, name) == FileMeaning::Temporary
    };
    Ok(list(folder)?.iter().all(|path| is_of_a_team(name_of(path))))
}
