//! Operations on archived teams: reading an archive in place, appending the end of a run, moving a
//! team back, and removing an archive permanently.
//!
//! The module `lifecycle` moves teams into the archive.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use pitcrew_protocol::{InboxFile, TeamConfig, TeamDir};
use serde_json::Value;

use super::array::Entries;
use super::backend::Files;
use super::checkpoint::{CHECKPOINT, Checkpoint};
use super::disk::{failed, is_absent, make_dir};
use super::lifecycle::{is_archive_of, is_real_folder};
use super::lines::Force;
use super::look::Stands;
use super::plain::{self, Unopened};
use super::tasks::read_folder;
use super::teams::parse;
use super::update::Fault;
use super::{journal, lines, mail, rename};
use crate::{
    ArchiveName, ArchivedTeam, JournalEntry, JournalSummary, LogName, Past, StoreError,
    StoredMessage,
};

/// Prefix that is put before an archive's folder name while the archive is removed. No archive of a
/// team has a name with this prefix.
const REMOVED: &str = ".removed-";

/// Format of the time in the name of an archive.
pub(super) const TIME: &str = "%Y%m%dT%H%M%SZ";

/// Number of `-` separated parts after the team's name in an archive's name: the time and a short
/// id.
const PARTS_BEHIND: usize = 2;

impl Files {
    pub(crate) fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError> {
        let place = self.paths.archived(archive);
        if !is_whole(&place)? {
            return Ok(None);
        }
        let config = read_config(&place)?;
        let tasks = match Stands::at(&place.join("tasks"))? {
            Stands::Folder => read_folder(&place.join("tasks"))?,
            Stands::Nothing | Stands::File | Stands::Link | Stands::Other => Vec::new(),
        };
        let archived_at_ms = time_of(archive).map(|at_ms| to_the_millisecond(at_ms, &place));
        Ok(Some(ArchivedTeam { name: archive.clone(), config, tasks, archived_at_ms }))
    }

    pub(crate) fn archived_journal(
        &self,
        archive: &ArchiveName,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        Ok(journal::entries(&lines::read(&self.paths.archived_journal(archive))?))
    }

    pub(crate) fn archived_summary(
        &self,
        archive: &ArchiveName,
    ) -> Result<JournalSummary, StoreError> {
        let ours = self.paths.archived_ours(archive);
        let document = ours.join(format!("{CHECKPOINT}.json"));
        let journal = self.paths.archived_journal(archive);
        Ok(Checkpoint::new(&self.disk, journal, document).only_read().summary()?.0)
    }

    pub(crate) fn archived_mail(
        &self,
        archive: &ArchiveName,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let ours = self.paths.archived_ours(archive);
        let read = ours.join("read").join(format!("{inbox}.ndjson"));
        let writes = ours.join("writes").join(format!("inbox.{inbox}.ndjson"));
        let mut mail = mail::past_in(&read, &writes, Past::All)?;
        let path = self.paths.archived(archive).join("team/inboxes").join(format!("{inbox}.json"));
        if let Some(bytes) = plain::read(&path, plain::FILE_MOST)? {
            let entries = Entries::parse(&bytes).map_err(|fault| fault.at(&path))?;
            mail.extend(mail::stored(&entries).into_iter().map(|(_, stored)| stored));
        }
        Ok(mail)
    }

    pub(crate) fn archived_document(
        &self,
        archive: &ArchiveName,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        let path = self.paths.archived_ours(archive).join(format!("{name}.json"));
        let Some(bytes) = plain::read(&path, plain::FILE_MOST)? else { return Ok(None) };
        let torn = |error: serde_json::Error| Fault::Torn(error.to_string()).at(&path);
        serde_json::from_slice(&bytes).map(Some).map_err(torn)
    }

    pub(crate) fn archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
    ) -> Result<Vec<String>, StoreError> {
        lines::read(&self.paths.archived_ours(archive).join(log.relative_path()))
    }

    pub(crate) fn record_archived(
        &self,
        archive: &ArchiveName,
        entries: &[JournalEntry],
    ) -> Result<(), StoreError> {
        let path = self.paths.archived_journal(archive);
        let lines = entries.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(|error| failed("write", &path)(error.into()))?;
        self.append_archived(archive, &path, &lines, Force::Now)
    }

    pub(crate) fn append_archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        let path = self.paths.archived_ours(archive).join(log.relative_path());
        self.append_archived(archive, &path, lines, Force::of(log))
    }

    fn append_archived(
        &self,
        archive: &ArchiveName,
        path: &Path,
        lines: &[String],
        force: Force,
    ) -> Result<(), StoreError> {
        let place = self.paths.archived(archive);
        // Another process may be about to restore or remove this archive. The lock keeps the
        // archive in its place during the write.
        let _alone = self.lock_lifecycle()?;
        let folder = path.parent().unwrap_or(path);
        // A link inside the archive would lead the write to another folder.
        if !is_whole(&place)? || !is_real_folder(&place, folder) {
            return Err(StoreError::NoTeam { team: TeamDir::of(&archive.0) });
        }
        lines::append(&self.disk, path, lines, force).map(drop)
    }

    /// Moves an archived team back to its place: first the folder with the tasks, then the folder
    /// of the team. After a crash between the two moves, the tasks are in their place and the
    /// team's folder is still in the archive. A second call of this function then completes the
    /// restore. A call of `archive_team` moves the tasks back into the archive instead.
    pub(crate) fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError> {
        let place = self.paths.archived(archive);
        let no_team = || StoreError::NoTeam { team: TeamDir::of(&archive.0) };
        let _alone = self.lock_lifecycle()?;
        if !is_whole(&place)? {
            return Err(no_team());
        }
        let team = read_config(&place)?.name.dir();
        // Somebody may have changed the config inside the archive so that it names another team.
        // Such an archive must not be restored, because it would occupy the place of that other
        // team.
        if !is_archive_of(&archive.0, &team) {
            return Err(no_team());
        }
        self.must_be_free(&team)?;
        let tasks = place.join("tasks");
        let has_tasks = Stands::at(&tasks)? == Stands::Folder;
        self.clear_place(&team, has_tasks)?;
        for folder in [self.paths.teams(), self.paths.all_tasks()] {
            make_dir(&folder)?;
        }
        if has_tasks {
            rename::folder(&tasks, &self.paths.tasks(&team)).map_err(failed("restore", &tasks))?;
            self.disk.crash_point("tasks restored");
            self.disk.force_dir(&self.paths.all_tasks())?;
        }
        let from = place.join("team");
        rename::folder_to_free_place(&from, &self.paths.team(&team))
            .map_err(|e| failed("restore", &from)(e.into()))?;
        self.disk.crash_point("team restored");
        self.disk.force_dir(&self.paths.teams())?;
        // The folder of the archive should be empty now. If it still contains files, pitcrew did
        // not write them. In that case `remove_dir` fails, and the folder and the files stay.
        let emptied = fs::remove_dir(&place);
        tracing::debug!(path = %place.display(), ?emptied, "restored");
        Ok(team)
    }

    /// Copies logs of an archived team to pitcrew's own folder of another team.
    pub(super) fn copy_logs(
        &self,
        archive: &ArchiveName,
        logs: &[LogName],
        ours: &Path,
    ) -> Result<(), StoreError> {
        let place = self.paths.archived(archive);
        if !is_whole(&place)? {
            return Err(StoreError::NoTeam { team: TeamDir::of(&archive.0) });
        }
        for log in logs.iter().map(LogName::relative_path) {
            let (from, to) = (place.join("team/pitcrew").join(&log), ours.join(&log));
            let mut kept = match plain::open(&from) {
                Ok(kept) => kept,
                Err(Unopened::Failed(error)) if is_absent(&error) => continue,
                Err(error) => return Err(error.at("open", &from)),
            };
            let copy = plain::open_with(OpenOptions::new().write(true).create_new(true), &to);
            let mut copy = copy.map_err(|error| error.at("create", &to))?;
            // The log is copied as a stream, because a transcript can be longer than the limit for
            // reading a file into memory.
            io::copy(&mut kept, &mut copy).map_err(failed("write", &to))?;
            self.disk.force(&copy).map_err(failed("force to disk", &to))?;
            self.disk.force_dir(to.parent().unwrap_or(ours))?;
        }
        self.disk.crash_point("logs taken along");
        Ok(())
    }

    /// Removes an archive permanently. Returns whether the archive existed. Also removes what
    /// earlier, interrupted removals have left.
    pub(crate) fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError> {
        let folder = self.paths.archive();
        let place = folder.join(&archive.0);
        let removed = folder.join(format!("{REMOVED}{}", archive.0));
        {
            // The lock is needed because another process may be about to restore the team from this
            // archive.
            let _alone = self.lock_lifecycle()?;
            if !is_whole(&place)? {
                return Ok(false);
            }
            // The folder is renamed before it is removed. Otherwise a crash during the removal
            // would leave a partial archive that still appears in the list of archives.
            fs::rename(&place, &removed).map_err(failed("remove", &place))?;
        }
        self.disk.crash_point("archive out of sight");
        self.disk.force_dir(&folder)?;
        for entry in fs::read_dir(&folder).map_err(failed("list", &folder))? {
            let entry = entry.map_err(failed("list", &folder))?;
            let is_removed =
                entry.file_name().to_str().is_some_and(|name| name.starts_with(REMOVED));
            if is_removed && Stands::at(&entry.path())? == Stands::Folder {
                match fs::remove_dir_all(entry.path()) {
                    // The folder no longer exists, because another process is removing it at the
                    // same time.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done.map_err(failed("remove", &entry.path()))?,
                }
            }
        }
        Ok(true)
    }
}

/// Whether an archive contains a team. Returns false if the archive's folder or the team's folder
/// in it is a link.
fn is_whole(place: &Path) -> Result<bool, StoreError> {
    Ok(Stands::at(place)? == Stands::Folder && Stands::at(&place.join("team"))? == Stands::Folder)
}

fn read_config(place: &Path) -> Result<TeamConfig, StoreError> {
    let path = place.join("team/config.json");
    let Some(bytes) = plain::read(&path, plain::FILE_MOST)? else {
        return Err(StoreError::Corrupt { path, reason: "it is not there".to_owned() });
    };
    parse(&bytes).map_err(|fault| fault.at(&path))
}

/// Returns the time of archiving, in milliseconds. The time in an archive's name (`at_ms`) has only
/// whole seconds. The modification time of the folder is more precise, because the folder is filled
/// right after it gets its name. If the two times differ too much, as in a copied folder, `at_ms`
/// is returned unchanged.
fn to_the_millisecond(at_ms: i64, place: &Path) -> i64 {
    const FILLED_WITHIN_MS: i64 = 2_000;
    let filled = place.metadata().and_then(|folder| folder.modified()).ok();
    let filled = filled.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let filled_ms = filled.and_then(|since| i64::try_from(since.as_millis()).ok());
    filled_ms
        .filter(|filled_ms| (at_ms..at_ms + FILLED_WITHIN_MS).contains(filled_ms))
        .unwrap_or(at_ms)
}

/// Returns the time at which a team was archived, read from the archive's name.
fn time_of(archive: &ArchiveName) -> Option<i64> {
    let time = archive.0.rsplit('-').nth(PARTS_BEHIND - 1)?;
    let time = DateTime::strptime(TIME.trim_end_matches('Z'), time.strip_suffix('Z')?).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}
