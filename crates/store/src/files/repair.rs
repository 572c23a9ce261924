//! Putting right what [`look`](super::look) found. What is taken away goes to a [`Keep`].

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

/// What came of mending something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// It is gone, or right.
    Done,
    /// It is kept here.
    Kept(PathBuf),
    /// It was written, or taken away, since it was looked at: it is left as it is now.
    Changed,
    /// It is left as it is, for this reason.
    Left(&'static str),
}

impl FileBackend {
    /// Moves whatever stands under a team's name to the archive, whether it is a team, half of one or the tasks of one; says
    /// where it is, and nothing when nothing stands there. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when it cannot be moved; [`StoreError::NoFolder`] for a folder of the root that is none. A link of
    /// the team itself is moved as it is.
    pub fn clear_away(&self, team: &TeamDir) -> Result<Option<PathBuf>, StoreError> {
        self.files().must_have_folders(None)?;
        self.files().clear_away(team)
    }

    /// Whether [`repair`](Self::repair) puts such a thing right; a person knows what to do about all others.
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

    /// Keeps what a file holds now, before something is taken out of it. Blocks.
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

    /// Puts one of them right: stale locks, unfinished and torn files are moved to the keep, where nothing reads them and
    /// nothing of them is lost; of an inbox the whole messages stay, and of a log the lines that are ours. An archive is
    /// completed. Blocks.
    ///
    /// # Errors
    /// The errors of lock and disk; it is as it was then.
    pub fn repair(&self, damage: &Damage, keep: &mut Keep) -> Result<Mend, StoreError> {
        let files = self.files();
        match damage {
            Damage::StaleLock { path } => {
                if Stands::at(path)? == Stands::Nothing {
                    return Ok(Mend::Changed);
                }
                // Somebody may have come to need it since it was looked at.
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
    /// Breaks the locks of one team that nobody holds. Nothing behind a link is touched, and no lock that holds something.
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
                    // Taking a lock breaks it, if it still is nobody's; giving it back leaves nothing.
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
        // Its writer may have been at it, or another repair.
        if !seen.is_at(path) {
            return Ok(Mend::Changed);
        }
        let is_high_water = name_of(path) == HIGH_WATER;
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
        // What is no plain file, or too long to be read, goes as it is.
        let kept = keep.take(self, path)?;
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

    /// Raises the mark of used ids to that of a task file that is about to go.
    fn keep_id_taken(&self, task: &Path) -> Result<(), StoreError> {
        let Some(id) = id_of(task) else { return Ok(()) };
        self.raise_high_water(&task.with_file_name(HIGH_WATER), id.number())
    }

    /// Makes the mark of used ids the highest of what it is, `least`, and the ids in use.
    fn raise_high_water(&self, mark: &Path, least: u64) -> Result<(), StoreError> {
        let text = self.bytes_of_plain(mark)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let marked: u64 = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let tasks = list(mark.parent().unwrap_or(mark))?;
        let in_use =
            tasks.iter().filter_map(|path| id_of(path)).map(|id| id.number()).max().unwrap_or(0);
        let highest = marked.max(least).max(in_use);
        self.disk.create(mark, highest.to_string().as_bytes())
    }

    /// Takes lines out of a log. They are kept, and blanked in place: a reader finds the rest where it was, and nobody who
    /// appends meanwhile loses a line to a file that was replaced.
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

/// Whether a folder in which a team was being made holds nothing else.
fn holds_a_team_only(folder: &Path) -> Result<bool, StoreError> {
    let is_of_a_team = |name: &str| {
        matches!(name, "config.json" | "inboxes" | "pitcrew")
            || meaning(Place::Team, name) == FileMeaning::Temporary
    };
    Ok(list(folder)?.iter().all(|path| is_of_a_team(name_of(path))))
}
