//! Creates and archives teams. A new team is built in a separate folder, and one rename moves it to
//! its place. Archiving moves the whole team.
//!
//! Folders are renamed as a whole and never emptied file by file. After a crash, a team is either
//! complete or half archived: its folder is in the archive, and its tasks are not. If
//! `archive_team` is called for a half archived team, it searches the archive for the folder with
//! the name of the team, and moves the tasks into that folder.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use pitcrew_protocol::{TeamConfig, TeamDir};
use rustix::io::Errno;
use serde_json::Value;

use super::backend::Files;
use super::disk::{failed, is_absent, make_dir};
use super::flock::Access;
use super::lock::Lock;
use super::look::{Stands, list, name_of};
use super::ours::{FileMeaning, Place, UNBORN, is_unborn, meaning};
use super::paths::lease_in;
use super::plain::{self, Unopened};
use super::rename;
use super::repair::holds_a_team_only;
use super::teams::{is_nameless, pretty};
use crate::{ArchiveName, ArchivedLogs, NewTeam, StoreError, own_mode};

impl Files {
    /// Creates a team with the content of `new`.
    pub(crate) fn create_team(&self, config: &TeamConfig, new: &NewTeam) -> Result<(), StoreError> {
        let team = config.name.dir();
        self.must_be_free(&team)?;
        let teams = self.paths.teams();
        make_dir(&teams)?;
        make_dir(&self.paths.all_tasks())?;
        let alone = self.lock_lifecycle()?;
        self.must_be_free(&team)?;
        if let Alone::ByTheSystem(_) = alone {
            remove_abandoned(&teams);
        }
        let unborn = teams.join(format!("{UNBORN}{}", uuid::Uuid::new_v4().simple()));
        // The team is built in a folder whose name is not a team name. Therefore no reader sees an
        // incomplete team.
        let filled = self.fill(&unborn, config, &new.documents).and_then(|()| match &new.logs {
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

    fn fill(
        &self,
        unborn: &Path,
        config: &TeamConfig,
        documents: &[(&'static str, Value)],
    ) -> Result<(), StoreError> {
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
        for (name, document) in documents {
            let path = ours.join(format!("{name}.json"));
            let text = pretty(document).map_err(|fault| fault.at(&path))?;
            self.disk.create(&path, &text)?;
        }
        for dir in &dirs {
            self.disk.force_dir(dir)?;
        }
        self.disk.crash_point("team filled");
        Ok(())
    }

    /// Moves leftovers of an earlier team out of the team's place. Then moves the complete new team
    /// to that place.
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
            // Other clients do not use pitcrew's lock, so another client may have created the team
            // meanwhile.
            Err(rustix::io::Errno::EXIST) => {
                self.must_be_free(team)?;
                return Err(failed("create", &place)(rustix::io::Errno::EXIST.into()));
            }
            Err(error) => return Err(failed("create", &place)(error.into())),
        }
        self.disk.crash_point("team in place");
        self.disk.force_dir(&self.paths.teams())
    }

    /// Moves leftovers at the paths of this team to the archive. If the team was archived without
    /// its tasks, leftover tasks go into that archive.
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
                // Appends to the journal are not forced to disk at once. The journal is forced now,
                // before the team moves away.
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
    /// the team. Then its archive is removed. After a crash between these two steps, the archive
    /// remains.
    pub(crate) fn discard_team(&self, team: &TeamDir) -> Result<(), StoreError> {
        let archive = self.archive_team(team)?;
        fs::remove_dir_all(&archive).map_err(failed("remove", &archive))
    }

    /// Moves the team's folder and its task folder to the archive, whatever they contain. Returns
    /// the folder in the archive, or `None` if there was nothing to move.
    pub(crate) fn clear_away(&self, team: &TeamDir) -> Result<Option<PathBuf>, StoreError> {
        let places = [(self.paths.team(team), "team"), (self.paths.tasks(team), "tasks")];
        let _alone = self.lock_lifecycle()?;
        let there: Vec<_> =
            places.iter().filter(|(place, _)| fs::symlink_metadata(place).is_ok()).collect();
        if there.is_empty() || is_nameless(team) {
            return Ok(None);
        }
        let archive = match self.unfinished_archive(team)? {
            // Only the task folder is left. It belongs to the team that was archived without its
            // tasks.
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

    /// Returns the names of all archives that contain a team, sorted.
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
            // A name with a leading dot belongs to files that a repair keeps, or to an archive that
            // is being removed.
            if !name.starts_with('.') && entry.path().join("team").is_dir() {
                archives.push(ArchiveName(name));
            }
        }
        archives.sort();
        Ok(archives)
    }

    /// Returns the newest archive of the team that contains no tasks. Returns `None` if there is no
    /// such archive, or if the team has no task folder outside the archive.
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

    /// Creates a folder in the archive for this team. Its name consists of the team, the time and a
    /// short id.
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
            // An entry that is not a plain file is not pitcrew's journal, so it is not forced to
            // disk. It moves to the archive unchanged.
            Err(Unopened::NotPlain) => Ok(()),
            Err(Unopened::Failed(error)) if is_absent(&error) => Ok(()),
            Err(error) => Err(error.at("open", &path)),
        }
    }

    /// Takes the right to create or remove a team. No other pitcrew process creates or removes a
    /// team until the result is dropped.
    pub(super) fn lock_lifecycle(&self) -> Result<Alone, StoreError> {
        make_dir(&self.paths.common())?;
        let path = self.paths.lifecycle();
        let open =
            plain::open_with(OpenOptions::new().write(true).create(true).truncate(false), &path);
        let file = open.map_err(|error| error.at("open", &path))?;
        match self.disk.flock(&file, &path, Access::Exclusive) {
            Ok(()) => Ok(Alone::ByTheSystem(file)),
            Err(StoreError::Io { source, .. }) if has_no_locks(&source) => {
                Ok(Alone::ByAFolder(self.disk.lock(&path)?))
            }
            Err(error) => Err(error),
        }
    }
}

/// Removes what creations of teams left that were killed. The caller holds the kernel's lock for
/// creations, so nobody fills one of these folders now. What cannot be removed stays for
/// `pitcrew doctor`.
fn remove_abandoned(teams: &Path) {
    let Ok(there) = list(teams) else { return };
    for path in there {
        let is_abandoned = is_unborn(name_of(&path))
            && matches!(Stands::at(&path), Ok(Stands::Folder))
            && holds_a_team_only(&path).unwrap_or(false);
        if is_abandoned && let Err(error) = fs::remove_dir_all(&path) {
            tracing::warn!(path = %path.display(), %error, "a folder stays behind");
        }
    }
}

/// The exclusive right to create or remove a team. Dropping it releases the right.
#[derive(Debug)]
pub(super) enum Alone {
    /// A kernel lock on a file. It ends with the process.
    ByTheSystem(#[expect(dead_code, reason = "held for its drop")] File),
    /// A lock folder in the form that other clients use. It is for file systems without file locks.
    ByAFolder(#[expect(dead_code, reason = "held for its drop")] Lock),
}

/// Whether the error means that the file system supports no file locks.
fn has_no_locks(error: &io::Error) -> bool {
    Errno::from_io_error(error)
        .is_some_and(|errno| errno == Errno::NOLCK || rename::is_missing(errno))
}

/// Whether an archive's name consists of the name of `team`, a time and a short id.
pub(super) fn is_archive_of(name: &str, team: &TeamDir) -> bool {
    let rest = name.strip_prefix(team.as_str()).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| {
        rest.len() == "20261120T134500Z-12345678".len() && rest.as_bytes().get(8) == Some(&b'T')
    })
}

/// Removes files from an archive that are useless there: empty locks, temporary files and leases. A
/// file that cannot be removed stays, which does no harm. If the team's folder was a link, the
/// archive contains the link itself, and this function does not change the target of the link.
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

/// Whether `folder` and all its parents below `top` are folders and not links.
pub(super) fn is_real_folder(top: &Path, folder: &Path) -> bool {
    let is_folder = |path: &&Path| matches!(Stands::at(path), Ok(Stands::Folder));
    folder.ancestors().take_while(|path| *path != top).all(|path| is_folder(&path))
}
