//! Creation and archiving of teams. A new team is built in a separate folder and then moved into
//! place in one step. Archiving moves the whole team.
//!
//! Folders are only renamed, never emptied. So a crash leaves a team complete, or half archived
//! under the name of its archive, where the next call finds it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use pitcrew_protocol::{TeamConfig, TeamDir};
use rustix::io::Errno;

use super::backend::Files;
use super::disk::{failed, is_absent, make_dir};
use super::lock::Lock;
use super::look::{Stands, list, name_of};
use super::ours::{FileMeaning, Place, UNBORN, meaning};
use super::paths::lease_in;
use super::plain::{self, Unopened};
use super::rename;
use super::teams::{is_nameless, pretty};
use crate::{ArchiveName, ArchivedLogs, StoreError, own_mode};

impl Files {
    /// Creates a team. `taken_along` names logs of an archived team that the new team starts with.
    pub(crate) fn create_team(
        &self,
        config: &TeamConfig,
        taken_along: Option<&ArchivedLogs>,
    ) -> Result<(), StoreError> {
        let team = config.name.dir();
        self.must_be_free(&team)?;
        let teams = self.paths.teams();
        make_dir(&teams)?;
        make_dir(&self.paths.all_tasks())?;
        let _alone = self.lock_lifecycle()?;
        self.must_be_free(&team)?;
        let unborn = teams.join(format!("{UNBORN}{}", uuid::Uuid::new_v4().simple()));
        // The team is built under a name that no reader takes for a team, so nobody sees half of
        // it.
        let filled = self.fill(&unborn, config).and_then(|()| match taken_along {
            Some(ArchivedLogs { archive, logs }) => {
                self.copy_logs(archive, logs, &unborn.join("pitcrew"))
            }
            None => Ok(()),
        });
        let made = filled.and_then(|()| self.bear(&team, &unborn));
        if made.is_err()
            && let Err(error) = fs::remove_dir_all(&unborn)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %unborn.display(), %error, "a folder stays behind");
        }
        made
    }

    pub(super) fn must_be_free(&self, team: &TeamDir) -> Result<(), StoreError> {
        match self.must_have_config(team) {
            Err(StoreError::NoTeam { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                let name = self
                    .team(team)
                    .map_or_else(|_| team.to_string(), |config| config.name.to_string());
                Err(StoreError::TeamTaken { team: team.clone(), name })
            }
        }
    }

    fn fill(&self, unborn: &Path, config: &TeamConfig) -> Result<(), StoreError> {
        let ours = unborn.join("pitcrew");
        let dirs = [unborn.to_owned(), unborn.join("inboxes"), ours.clone()];
        for dir in
            dirs.iter().chain(&[ours.join("transcripts"), ours.join("output"), ours.join("read")])
        {
            own_mode::create_folder(dir).map_err(failed("create", dir))?;
        }
        let path = unborn.join("config.json");
        let text = pretty(config).map_err(|fault| fault.at(&path))?;
        self.disk.create(&path, &text)?;
        for dir in &dirs {
            self.disk.force_dir(dir)?;
        }
        self.disk.crash_point("team filled");
        Ok(())
    }

    /// Moves leftovers away from the team's place, and moves the complete new team there.
    fn bear(&self, team: &TeamDir, unborn: &Path) -> Result<(), StoreError> {
        self.clear_place(team, true)?;
        let (place, tasks) = (self.paths.team(team), self.paths.tasks(team));
        make_dir(&tasks)?;
        self.disk.create(&self.paths.task_list(team), b"")?;
        self.disk.force_dir(&tasks)?;
        self.disk.force_dir(&self.paths.all_tasks())?;
        self.disk.crash_point("task list made");
        match rename::folder_to_free_place(unborn, &place) {
            Ok(()) => {}
            // Another client does not know pitcrew's lock and may have created the team meanwhile.
            Err(rustix::io::Errno::EXIST) => {
                self.must_be_free(team)?;
                return Err(failed("create", &place)(rustix::io::Errno::EXIST.into()));
            }
            Err(error) => return Err(failed("create", &place)(error.into())),
        }
        self.disk.crash_point("team in place");
        self.disk.force_dir(&self.paths.teams())
    }

    /// Moves leftovers under a team's name to the archive. Leftover tasks go to the archived team
    /// that lacks its tasks.
    pub(super) fn clear_place(&self, team: &TeamDir, clears_tasks: bool) -> Result<(), StoreError> {
        let (place, tasks) = (self.paths.team(team), self.paths.tasks(team));
        let is_filled = |dir: &Path| fs::read_dir(dir).is_ok_and(|entries| entries.count() > 0);
        if clears_tasks && is_filled(&tasks) {
            let archive = match self.unfinished_archive(team)? {
                Some(unfinished) => unfinished,
                None => self.archive_place(team)?,
            };
            rename::folder(&tasks, &archive.join("tasks"))
                .map_err(failed("move leftovers from", &tasks))?;
            self.disk.crash_point("leftovers moved");
        }
        if is_filled(&place) {
            rename::folder(&place, &self.archive_place(team)?.join("team"))
                .map_err(failed("move leftovers from", &place))?;
            self.disk.crash_point("leftovers moved");
        }
        match fs::remove_dir(&place) {
            Err(error) if !is_absent(&error) => Err(failed("clear", &place)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn archive_team(&self, team: &TeamDir) -> Result<PathBuf, StoreError> {
        let (place, tasks) = (self.paths.team(team), self.paths.tasks(team));
        let is_whole = self.must_have_config(team);
        let unfinished = match is_whole {
            Ok(_) => None,
            Err(StoreError::NoTeam { .. }) => Some(
                self.unfinished_archive(team)?
                    .ok_or_else(|| StoreError::NoTeam { team: team.clone() })?,
            ),
            Err(error) => return Err(error),
        };
        let _alone = self.lock_lifecycle()?;
        let archive = match unfinished {
            Some(archive) => archive,
            None => {
                self.must_have_config(team)?;
                // Appends to the journal are not forced, so this is the last chance before the team
                // moves away.
                self.force_journal(team)?;
                let archive = self.archive_place(team)?;
                rename::folder(&place, &archive.join("team")).map_err(failed("archive", &place))?;
                self.disk.crash_point("team archived");
                self.disk.force_dir(&archive)?;
                self.disk.force_dir(&self.paths.teams())?;
                archive
            }
        };
        match rename::folder(&tasks, &archive.join("tasks")) {
            Ok(()) => {
                self.disk.crash_point("tasks archived");
                self.disk.force_dir(&archive)?;
                self.disk.force_dir(&self.paths.all_tasks())?;
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(failed("archive", &tasks)(error)),
        }
        drop_damages(&archive);
        self.forget(team);
        Ok(archive)
    }

    /// Removes a whole team. The team is first moved to the archive, so that no reader sees half of
    /// it. A crash leaves the archive.
    pub(crate) fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError> {
        let archive = self.archive_team(team)?;
        fs::remove_dir_all(&archive).map_err(failed("remove", &archive))
    }

    /// Moves everything under a team's name to the archive.
    pub(crate) fn clear_away(&self, team: &TeamDir) -> Result<Option<PathBuf>, StoreError> {
        let places = [(self.paths.team(team), "team"), (self.paths.tasks(team), "tasks")];
        let _alone = self.lock_lifecycle()?;
        let there: Vec<_> =
            places.iter().filter(|(place, _)| fs::symlink_metadata(place).is_ok()).collect();
        if there.is_empty() || is_nameless(team) {
            return Ok(None);
        }
        let archive = match self.unfinished_archive(team)? {
            // Only the tasks are left. They belong to the team that was archived without them.
            Some(unfinished) if there.len() == 1 => unfinished,
            Some(_) | None => self.archive_place(team)?,
        };
        for (place, part) in there {
            rename::folder(place, &archive.join(part)).map_err(failed("archive", place))?;
            self.disk.crash_point("part cleared away");
        }
        for dir in [archive.as_path(), &self.paths.teams(), &self.paths.all_tasks()] {
            if dir.is_dir() {
                self.disk.force_dir(dir)?;
            }
        }
        drop_damages(&archive);
        self.forget(team);
        Ok(Some(archive))
    }

    /// Returns the names of all archives that hold a team, sorted.
    pub(crate) fn archives(&self) -> Result<Vec<ArchiveName>, StoreError> {
        let archive = self.paths.archive();
        let entries = match fs::read_dir(&archive) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(failed("list", &archive)(error)),
        };
        let mut archives = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("list", &archive))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Names with a leading dot belong to keeps of repairs and to archives during removal.
            if !name.starts_with('.') && entry.path().join("team").is_dir() {
                archives.push(ArchiveName(name));
            }
        }
        archives.sort();
        Ok(archives)
    }

    /// Returns the team's newest archive that contains no tasks, if tasks exist under the team's
    /// name.
    pub(crate) fn unfinished_archive(&self, team: &TeamDir) -> Result<Option<PathBuf>, StoreError> {
        let archive = self.paths.archive();
        let is_folder = |path: &Path| Ok::<bool, StoreError>(Stands::at(path)? == Stands::Folder);
        if !is_folder(&self.paths.tasks(team))? || !is_folder(&archive)? {
            return Ok(None);
        }
        let mut newest = None;
        for entry in fs::read_dir(&archive).map_err(failed("list", &archive))? {
            let path = entry.map_err(failed("list", &archive))?.path();
            let is_ours =
                path.file_name().and_then(|n| n.to_str()).is_some_and(|n| is_archive_of(n, team));
            if is_ours
                && is_folder(&path.join("team"))?
                && Stands::at(&path.join("tasks"))? == Stands::Nothing
            {
                newest = newest.max(Some(path));
            }
        }
        Ok(newest)
    }

    /// Creates a new folder in the archive, named after the team and the time.
    fn archive_place(&self, team: &TeamDir) -> Result<PathBuf, StoreError> {
        let archive = self.paths.archive();
        make_dir(&archive)?;
        let time = jiff::Timestamp::now().strftime(super::archive::TIME);
        let short: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
        let place = archive.join(format!("{team}-{time}-{short}"));
        own_mode::create_folder(&place).map_err(failed("create", &place))?;
        self.disk.force_dir(&archive)?;
        Ok(place)
    }

    fn force_journal(&self, team: &TeamDir) -> Result<(), StoreError> {
        let path = self.paths.journal(team);
        match plain::open(&path) {
            Ok(file) => self.disk.force(&file).map_err(failed("force to disk", &path)),
            // Something that is not a plain file is no journal of pitcrew, so nothing is forced to
            // disk. It moves with the team as it is.
            Err(Unopened::NotPlain) => Ok(()),
            Err(Unopened::Failed(error)) if is_absent(&error) => Ok(()),
            Err(error) => Err(error.at("open", &path)),
        }
    }

    /// Prevents every other pitcrew process from creating or removing a team until the result is
    /// dropped.
    pub(super) fn lock_lifecycle(&self) -> Result<Alone, StoreError> {
        make_dir(&self.paths.common())?;
        let path = self.paths.lifecycle();
        let open =
            plain::open_with(OpenOptions::new().write(true).create(true).truncate(false), &path);
        let file = open.map_err(|error| error.at("open", &path))?;
        match file.lock() {
            Ok(()) => Ok(Alone::ByTheSystem(file)),
            Err(error) if has_no_locks(&error) => Ok(Alone::ByAFolder(self.disk.lock(&path)?)),
            Err(error) => Err(failed("lock", &path)(error)),
        }
    }
}

/// The exclusive right to create or remove a team. Dropping it releases the right.
#[derive(Debug)]
pub(super) enum Alone {
    /// A kernel lock on a file, which ends with the process.
    ByTheSystem(#[expect(dead_code, reason = "held for its drop")] File),
    /// A lock folder like those of other clients, for file systems without file locks.
    ByAFolder(#[expect(dead_code, reason = "held for its drop")] Lock),
}

/// Whether the error means that the file system supports no file locks.
fn has_no_locks(error: &io::Error) -> bool {
    Errno::from_io_error(error)
        .is_some_and(|errno| errno == Errno::NOLCK || rename::is_missing(errno))
}

/// Whether an archive's name consists of `team`, a time and a short id.
pub(super) fn is_archive_of(name: &str, team: &TeamDir) -> bool {
    let rest = name.strip_prefix(team.as_str()).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| {
        rest.len() == "20261120T134500Z-12345678".len() && rest.as_bytes().get(8) == Some(&b'T')
    })
}

/// Removes files that are useless in an archive: empty locks, temporary files, leases. A file that
/// cannot be removed does no harm. If the team was a link, the link itself is in the archive, and
/// nothing behind it is touched.
fn drop_damages(archive: &Path) {
    let places = [
        ("team", Place::Team),
        ("team/inboxes", Place::Inboxes),
        ("team/pitcrew", Place::Ours),
        ("tasks", Place::Tasks),
    ];
    for (dir, place) in places.map(|(dir, place)| (archive.join(dir), place)) {
        if !is_real_folder(archive, &dir) {
            continue;
        }
        for path in list(&dir).unwrap_or_default() {
            let name = name_of(&path);
            let is_lease = place == Place::Ours && lease_in(name).is_some();
            let dropped = match (meaning(place, name), Stands::at(&path)) {
                (FileMeaning::Lock, Ok(Stands::Folder)) => fs::remove_dir(&path),
                (FileMeaning::Lock | FileMeaning::Temporary, Ok(Stands::File)) => {
                    fs::remove_file(&path)
                }
                (_, Ok(Stands::File)) if is_lease => fs::remove_file(&path),
                _ => continue,
            };
            tracing::debug!(path = %path.display(), ?dropped, "dropped from the archive");
        }
    }
}

/// Whether a folder and all its parents below `top` are real folders and no links.
fn is_real_folder(top: &Path, folder: &Path) -> bool {
    let is_folder = |path: &&Path| matches!(Stands::at(path), Ok(Stands::Folder));
    folder.ancestors().take_while(|path| *path != top).all(|path| is_folder(&path))
}
