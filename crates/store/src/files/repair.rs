//! Repairs the damage that [`look`](super::look) found. A file that a repair removes is moved to a
//! [`Keep`], where it stays for a week.

use std::path::{Path, PathBuf};

use pitcrew_process::file_lock;
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
    /// The repair removed or corrected the damage.
    Done,
    /// The repair moved the damaged file to this path.
    Kept(PathBuf),
    /// The file was written or removed after the check, so the repair left it unchanged.
    Changed,
    /// The repair left the file unchanged. The text gives the reason.
    Left(&'static str),
}

impl FileBackend {
    /// Moves everything that exists under a team's name to the archive: a team, a part of a team,
    /// or only its tasks. If the folder of the team is a link, the link itself is moved. Returns
    /// the path of the archive, or `None` if nothing existed. This function blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::Io`] if something cannot be moved. [`StoreError::NoFolder`] if a folder of the
    /// root is a link or a file.
    pub fn clear_away(&self, team: &TeamDir) -> Result<Option<PathBuf>, StoreError> {
        self.files().must_have_folders(None)?;
        self.files().clear_away(team)
    }

    /// Whether [`repair`](Self::repair) is able to repair this kind of damage. For all other kinds,
    /// a person must decide.
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

    /// Copies the file at `path` into the keep, for a caller that then removes a part of the file.
    /// This function blocks the thread.
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

    /// Repairs one finding. Stale locks, unfinished files and damaged files are moved to the keep.
    /// No program reads the files in the keep, and no data is lost. The complete messages of an
    /// inbox and the valid lines of a log stay in place. For a half archived team, the archiving is
    /// completed. Files that other users can access get safe permissions. This function blocks the
    /// thread.
    ///
    /// # Errors
    /// The errors of taking a lock and of the disk. If it returns an error, the damage is
    /// unchanged.
    pub fn repair(&self, damage: &Damage, keep: &mut Keep) -> Result<Mend, StoreError> {
        let files = self.files();
        match damage {
            Damage::StaleLock { path } => {
                if Stands::at(path)? == Stands::Nothing {
                    return Ok(Mend::Changed);
                }
                // Another process may have taken the lock after the check.
                if !is_stale(path) || !is_free(path)? {
                    return Ok(Mend::Left("another process has locked it"));
                }
                let kept = keep.name(files, path)?;
                Ok(if set_aside(path, &kept)? {
                    Mend::Kept(kept)
                } else {
                    Mend::Left("another process has locked it")
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
    /// Removes all locks of one team that nobody holds. Does not follow links. Does not remove a
    /// lock folder that has content.
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
                    // If the lock is still stale, `take` removes it and takes a new lock. The drop
                    // then releases the new lock, so no lock remains.
                    drop(Lock::take(&path.with_extension(""), file_lock::report)?);
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
        // After the check, the writer of the file or another repair may have changed the file.
        if !seen.is_at(path) {
            return Ok(Mend::Changed);
        }
        let is_high_water = name_of(path) == HIGH_WATER;
        // The task file will be removed. The id of its task must nevertheless never be used again.
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
        // If the file is not a plain file, or is too long to read, it is moved unchanged.
        let kept = keep.take(self, path)?;
        // The removed file contained the highest used id. It is written again, because otherwise
        // the next task could get an id that was used before.
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

    /// Raises the stored highest used id to the id of a task file that is about to be removed.
    fn keep_id_taken(&self, task: &Path) -> Result<(), StoreError> {
        let Some(id) = id_of(task) else { return Ok(()) };
        self.raise_high_water(&task.with_file_name(HIGH_WATER), id.number())
    }

    /// Sets the stored highest used id to the largest of three values: its old value, `least`, and
    /// the ids of the present task files.
    fn raise_high_water(&self, mark: &Path, least: u64) -> Result<(), StoreError> {
        let text = self.bytes_of_plain(mark)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let marked: u64 = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let tasks = list(mark.parent().unwrap_or(mark))?;
        let in_use =
            tasks.iter().filter_map(|path| id_of(path)).map(|id| id.number()).max().unwrap_or(0);
        let highest = marked.max(least).max(in_use);
        self.disk.create(mark, highest.to_string().as_bytes())
    }

    /// Removes lines from a log. The lines are copied to the keep and then overwritten with spaces.
    /// The log keeps its length and its file. Therefore the positions of readers stay valid, and a
    /// concurrent append does not go to a file that was replaced.
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

/// Whether the folder of an unfinished team creation contains only entries of a team.
pub(super) fn holds_a_team_only(folder: &Path) -> Result<bool, StoreError> {
    let is_of_a_team = |name: &str| {
        matches!(name, "config.json" | "inboxes" | "pitcrew")
            || meaning(Place::Team, name) == FileMeaning::Temporary
    };
    Ok(list(folder)?.iter().all(|path| is_of_a_team(name_of(path))))
}
