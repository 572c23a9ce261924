//! What crashes and other programs leave behind, and putting it right: found and mended on demand only.
//!
//! The store works with all of it in place, except for torn files, which it never overwrites.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pitcrew_protocol::{AgentName, TaskId, TeamDir};

use super::array;
use super::backend::{FileBackend, Files};
use super::disk::{TEMP_PREFIX, failed, is_absent, remove_file};
use super::lifecycle::UNBORN;
use super::lock::{Lock, STALE_AFTER};
use super::plain;
use super::tasks::HIGH_WATER;
use crate::StoreError;

/// A temporary file so old is of no living write.
const TEMP_DEAD_AFTER: Duration = Duration::from_secs(60);

/// Something left behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaving {
    /// A lock, folder or file, whose holder gave no sign for 10 s.
    StaleLock {
        /// The lock itself.
        path: PathBuf,
    },
    /// A temporary file of a write that never ended, or the folder of a team that was never whole.
    Unfinished {
        /// The file or folder.
        path: PathBuf,
    },
    /// A config, inbox or task that is not whole, also when looked at twice.
    Torn {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A team that was moved to the archive without its tasks.
    HalfArchived {
        /// The team.
        team: TeamDir,
        /// The folder of its tasks.
        path: PathBuf,
    },
}

impl FileBackend {
    /// Finds what was left behind under the root. Blocks while it reads every file of every team.
    ///
    /// # Errors
    /// [`StoreError::Io`] when a folder cannot be listed.
    pub fn leavings(&self) -> Result<Vec<Leaving>, StoreError> {
        let files = self.files();
        let (teams, tasks) = (files.paths.teams(), files.paths.all_tasks());
        let mut found = Vec::new();
        for path in list(&teams)? {
            if name_of(&path).starts_with(UNBORN) && is_older(&path, TEMP_DEAD_AFTER) {
                found.push(Leaving::Unfinished { path });
                continue;
            }
            let ours = path.join("pitcrew");
            for dir in [path.clone(), path.join("inboxes"), ours.join("transcripts"), ours] {
                look(&dir, &mut found)?;
            }
        }
        for path in list(&tasks)? {
            look(&path, &mut found)?;
            let team = TeamDir::of(name_of(&path));
            if team.as_str() == name_of(&path)
                && matches!(files.must_have_config(&team), Err(StoreError::NoTeam { .. }))
                && files.unfinished_archive(&team)?.is_some()
            {
                found.push(Leaving::HalfArchived { team, path });
            }
        }
        found.sort();
        Ok(found)
    }

    /// Moves whatever stands under a team's name to the archive, whether it is a team, half of one or the tasks of one; says
    /// where it is, and nothing when nothing stands there. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when it cannot be moved.
    pub fn clear_away(&self, team: &TeamDir) -> Result<Option<PathBuf>, StoreError> {
        self.files().clear_away(team)
    }

    /// Whose inboxes there are in a team, members' or not, by the names of the files. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the folder cannot be listed.
    pub fn inboxes(&self, team: &TeamDir) -> Result<Vec<AgentName>, StoreError> {
        let inboxes = list(&self.files().paths.inboxes(team))?;
        Ok(inboxes.iter().filter_map(|path| name_of(path).strip_suffix(".json")).map(AgentName::foreign).collect())
    }

    /// Puts one of them right: stale locks are broken, unfinished things removed, an archive completed, and a torn file is
    /// moved aside in its folder, where nothing reads it and nothing of it is lost; of an inbox the whole messages stay.
    /// Gives its new place. Blocks.
    ///
    /// # Errors
    /// The errors of lock and disk.
    pub fn mend(&self, leaving: &Leaving) -> Result<Option<PathBuf>, StoreError> {
        match leaving {
            Leaving::StaleLock { path } => break_stale(path).map(|()| None),
            Leaving::Unfinished { path } if path.is_dir() => {
                fs::remove_dir_all(path).map_err(failed("remove", path))?;
                Ok(None)
            }
            Leaving::Unfinished { path } => remove_file(path).map(|()| None),
            Leaving::Torn { path, .. } => self.files().move_aside(path).map(Some),
            Leaving::HalfArchived { team, .. } => self.files().archive_team(team).map(Some),
        }
    }
}

impl Files {
    /// Breaks the stale locks of one team.
    pub(crate) fn break_stale_locks(&self, team: &TeamDir) -> Result<usize, StoreError> {
        self.must_exist(team)?;
        let mut broken = 0;
        for dir in [self.paths.team(team), self.paths.inboxes(team), self.paths.tasks(team)] {
            for path in list(&dir)? {
                let name = name_of(&path);
                if name.ends_with(".lock") && name != ".lock" && is_older(&path, STALE_AFTER) {
                    break_stale(&path)?;
                    broken += 1;
                }
            }
        }
        Ok(broken)
    }

    fn move_aside(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let is_task = path.starts_with(self.paths.all_tasks());
        let _lock = Lock::take(&if is_task { path.with_file_name(".lock") } else { path.to_owned() })?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".torn-{}", uuid::Uuid::new_v4().simple()));
        let aside = PathBuf::from(name);
        if is_task {
            self.keep_id_taken(path)?;
        }
        let is_inbox = path.parent().is_some_and(|dir| name_of(dir) == "inboxes");
        match plain::read(path, plain::FILE_MOST) {
            Ok(Some(bytes)) if is_inbox => {
                self.disk.create(&aside, &bytes)?;
                self.disk.create(path, array::whole(&bytes).as_bytes())?;
            }
            // What is no plain file, or too long to be read, goes as it is.
            Ok(_) | Err(StoreError::Corrupt { .. }) => fs::rename(path, &aside).map_err(failed("move aside", path))?,
            Err(error) => return Err(error),
        }
        self.disk.force_dir(path.parent().unwrap_or(path))?;
        Ok(aside)
    }

    /// Raises the mark of used ids to that of a task file that is about to go.
    fn keep_id_taken(&self, task: &Path) -> Result<(), StoreError> {
        let Some(id) = task.file_stem().and_then(|stem| stem.to_str()).and_then(TaskId::parse) else { return Ok(()) };
        let path = task.with_file_name(HIGH_WATER);
        let text = plain::read(&path, plain::FILE_MOST)?.and_then(|bytes| String::from_utf8(bytes).ok());
        let marked = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        self.disk.create(&path, id.number().max(marked).to_string().as_bytes())
    }
}

/// Taking a lock breaks it, if it still is stale; giving it back leaves nothing.
fn break_stale(lock: &Path) -> Result<(), StoreError> {
    Lock::take(&lock.with_extension("")).map(drop)
}

fn look(dir: &Path, found: &mut Vec<Leaving>) -> Result<(), StoreError> {
    let is_inboxes = name_of(dir) == "inboxes";
    for path in list(dir)? {
        let name = name_of(&path);
        if name.starts_with(TEMP_PREFIX) {
            if is_older(&path, TEMP_DEAD_AFTER) {
                found.push(Leaving::Unfinished { path });
            }
        } else if name.ends_with(".lock") && name != ".lock" {
            if is_older(&path, STALE_AFTER) {
                found.push(Leaving::StaleLock { path });
            }
        } else if name.ends_with(".json")
            && let (Some(_), Some(reason)) = (fault_of(&path, is_inboxes)?, fault_of(&path, is_inboxes)?)
        {
            found.push(Leaving::Torn { path, reason });
        }
    }
    Ok(())
}

fn fault_of(path: &Path, is_inbox: bool) -> Result<Option<String>, StoreError> {
    let bytes = match plain::read(path, plain::FILE_MOST) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(StoreError::Corrupt { reason, .. }) => return Ok(Some(reason)),
        Err(error) => return Err(error),
    };
    if is_inbox {
        return Ok(array::check(&bytes).err());
    }
    Ok(serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).err().map(|e| e.to_string()))
}

fn is_older(path: &Path, age: Duration) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|meta| meta.modified());
    changed.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|since| since > age))
}

pub(crate) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

pub(crate) fn list(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|e| e.path()).map_err(failed("list", dir))).collect(),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(failed("list", dir)(error)),
    }
}
