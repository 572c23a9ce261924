//! Reads and writes the config file of a team, and the documents that pitcrew itself keeps about
//! the team.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pitcrew_protocol::{InboxFile, Member, TeamConfig, TeamDir};
use serde_json::Value;

use super::backend::Files;
use super::disk::{Snapshot, Stamp, failed, is_absent};
use super::lines;
use super::lost_updates::{self, FieldWrite};
use super::overwritten::LostUpdate;
use super::update::{self, Fault, Plan};
use super::watch::routes;
use super::written_log;
use crate::{DocumentEdit, Overwritten, StoreError, TeamEdit, own_mode};

pub(crate) const CONFIG: &str = "config.json";

/// Most bytes of a team's config. A config of fifty members with long prompts has one megabyte.
const CONFIG_BYTES: usize = 16 * 1024 * 1024;

/// Most members of a team that are read. The settings can raise the limit of fifty for new members.
const MEMBERS_MOST: usize = 10_000;

/// Time after a read for which the read config counts as the newest, if the team is not watched. A
/// client that writes in place leaves the file empty for moments only.
const NEWEST_FOR: Duration = Duration::from_secs(10);

/// A config that was read.
#[derive(Debug)]
pub(crate) struct SeenConfig {
    /// The stamp (metadata) of the file. It is `None` if the file could change again and still have
    /// an equal stamp.
    settled: Option<Stamp>,
    config: Arc<TeamConfig>,
    /// When the file had this content.
    at: Instant,
}

/// Describes which kind of program reads each of a team's inboxes.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Whether the readers are clients of the session dialect. These clients remove the messages
    /// that they have read.
    pub(crate) is_session: bool,
    /// The inboxes of the members that pitcrew runs.
    pub(crate) ours: Vec<InboxFile>,
    /// The inboxes of the members that pitcrew started but that another client runs.
    started: Vec<InboxFile>,
}

impl Readers {
    fn of(config: &TeamConfig) -> Self {
        let of_pitcrew =
            config.members.iter().filter(|member| member.foreign.get("pitcrew").is_some());
        let (ours, started): (Vec<&Member>, Vec<&Member>) =
            of_pitcrew.partition(|member| member.is_run_by_pitcrew());
        let inboxes = |members: Vec<&Member>| {
            members.into_iter().map(|member| member.name.inbox_file()).collect()
        };
        Self {
            is_session: config.is_session_dialect(),
            ours: inboxes(ours),
            started: inboxes(started),
        }
    }

    /// Whether messages to this inbox are also written to a log. This is necessary if the reader of
    /// the inbox removes messages, because the reader can end before its model gets a message.
    pub(crate) fn keeps_sent(&self, inbox: &InboxFile) -> bool {
        self.is_session || self.started.contains(inbox)
    }

    /// Whether a message that is missing from the inbox counts as lost. If this function returns
    /// false, a missing message means that the reader of the inbox removed it.
    pub(crate) fn misses_mail(&self, inbox: &InboxFile) -> bool {
        !self.is_session && self.ours.contains(inbox)
    }
}

/// Longest time without a config before a team counts as gone. Some clients replace a file by
/// removing it first. One such client took 0.6 s until it wrote the new file.
const CONFIG_MISSING: Duration = Duration::from_secs(2);

/// The pause between two checks for the config.
const CONFIG_PAUSE: Duration = Duration::from_millis(10);

impl Files {
    /// Returns the folders that contain a config, sorted. The list also contains links at the path
    /// of a team's folder, and folders with something else than a file as config. Opening one of
    /// these as a team returns an error that names it.
    pub(crate) fn teams(&self) -> Result<Vec<TeamDir>, StoreError> {
        let dir = self.paths.teams();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(failed("list", &dir)(error)),
        };
        let mut teams = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed("list", &dir))?.file_name();
            let Some(name) = name.to_str() else { continue };
            let team = TeamDir::of(name);
            // A link is not followed, so whether its target contains a config is not checked.
            let is_link = fs::symlink_metadata(dir.join(name)).is_ok_and(|meta| meta.is_symlink());
            let has_config = || fs::symlink_metadata(self.paths.config(&team)).is_ok();
            if team.as_str() == name && (is_link || has_config()) {
                teams.push(team);
            }
        }
        teams.sort();
        Ok(teams)
    }

    /// Returns the stamp (metadata) of the config file, or [`StoreError::NoTeam`] if the folder has
    /// no config. Waits for a while if the config was there before, because a client may be
    /// replacing it.
    pub(crate) fn must_exist(&self, team: &TeamDir) -> Result<Stamp, StoreError> {
        match self.must_have_config(team) {
            Err(StoreError::NoTeam { .. }) if self.config_comes_back(team) => {
                self.must_have_config(team)
            }
            done => done,
        }
    }

    /// Waits for a missing config to come back. It waits only if the config existed at the last
    /// read and if the team's folder still exists. Returns whether the config exists now. If it
    /// does not, the team is gone, and later calls do not wait.
    fn config_comes_back(&self, team: &TeamDir) -> bool {
        let is_known =
            || self.configs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(team);
        let started = Instant::now();
        while is_known() && self.paths.team(team).is_dir() {
            if self.has_config(team) {
                return true;
            }
            // The team counts as gone from now on. The cached config is removed, so that later
            // calls do not wait again.
            if started.elapsed() >= CONFIG_MISSING {
                self.configs.lock().unwrap_or_else(PoisonError::into_inner).remove(team);
            }
            thread::sleep(CONFIG_PAUSE);
        }
        self.has_config(team)
    }

    /// Returns the stamp (metadata) of the config file, or [`StoreError::NoTeam`] if the folder has
    /// no config. Other content of the folder does not matter.
    pub(crate) fn must_have_config(&self, team: &TeamDir) -> Result<Stamp, StoreError> {
        let path = self.paths.config(team);
        match fs::symlink_metadata(&path) {
            // For an empty team name, the folder is `teams/` itself. A config in this folder
            // belongs to no team.
            Ok(_) if is_nameless(team) => Err(StoreError::NoTeam { team: team.clone() }),
            Ok(meta) => Ok(Stamp::of(&meta)),
            Err(error) if is_absent(&error) => Err(StoreError::NoTeam { team: team.clone() }),
            Err(error) => Err(failed("look at", &path)(error)),
        }
    }

    /// Returns the readers of the team's inboxes. The result is cached until the config changes.
    pub(crate) fn readers(&self, team: &TeamDir) -> Result<Arc<Readers>, StoreError> {
        let stamp = self.must_exist(team)?;
        let known = self.readers.lock().unwrap_or_else(PoisonError::into_inner).get(team).cloned();
        if let Some((then, readers)) = known
            && then == stamp
        {
            return Ok(readers);
        }
        let readers = Arc::new(Readers::of(self.team(team)?.as_ref()));
        let mut known = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(team.clone(), (stamp, Arc::clone(&readers)));
        Ok(readers)
    }

    /// Returns a team's config. The config is cached until its file changes.
    pub(crate) fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        match self.read_team(team) {
            Err(StoreError::Corrupt { .. }) if self.refill(team)? => self.read_team(team),
            // Another program removed the config while `read_team` ran.
            Err(StoreError::NoTeam { .. }) if self.config_comes_back(team) => self.read_team(team),
            done => done,
        }
    }

    fn read_team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        let path = self.paths.config(team);
        self.verify_config(team)?;
        let stamp = self.must_exist(team)?;
        if let Some(seen) =
            self.configs.lock().unwrap_or_else(PoisonError::into_inner).get_mut(team)
            && seen.settled == Some(stamp)
        {
            seen.at = Instant::now();
            return Ok(Arc::clone(&seen.config));
        }
        let (settled, config) = update::read(&path, self.lock_to_read(&path), |snapshot| {
            let config = read_config(team, snapshot)?;
            Ok((snapshot.filter(|s| s.is_settled()).map(|s| s.stamp), config))
        })?;
        Ok(self.remember(team, settled, config))
    }

    /// Caches the config. `settled` is the stamp (metadata) of its file. It is `None` if the file
    /// could change again and still have an equal stamp.
    fn remember(
        &self,
        team: &TeamDir,
        settled: Option<Stamp>,
        config: TeamConfig,
    ) -> Arc<TeamConfig> {
        let config = Arc::new(config);
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = SeenConfig { settled, config: Arc::clone(&config), at: Instant::now() };
        configs.insert(team.clone(), seen);
        config
    }

    /// Repairs a config that another client left damaged when it wrote in place. Without a repair,
    /// no client is able to use the team. Returns whether the config is valid afterwards.
    ///
    /// Two kinds of damage can be repaired. If two clients wrote at once, the end of the longer
    /// text follows the shorter text, and this end is removed. If a write stopped in the middle,
    /// the file is empty, and the config of the last read is written again.
    ///
    /// A store that only reads repairs nothing. A config that was read some time ago is not written
    /// again either, because it may lack later changes of other processes.
    pub(super) fn refill(&self, team: &TeamDir) -> Result<bool, StoreError> {
        if !self.puts_back.at_once() {
            return Ok(false);
        }
        let seen = self.newest_config(team);
        let path = self.paths.config(team);
        let updated = update::update(&self.disk, &path, &path, |before| {
            let Some(snapshot) = before else { return Ok(Plan::Keep(false)) };
            if parse::<TeamConfig>(&snapshot.bytes).is_ok() {
                return Ok(Plan::Keep(true));
            }
            let whole = without_end_of_a_longer(&snapshot.bytes)
                .filter(|whole| parse::<TeamConfig>(whole).is_ok());
            Ok(match (whole, &seen) {
                (Some(whole), _) => Plan::Write(whole.to_owned(), true),
                (None, Some(seen)) if snapshot.bytes.is_empty() => {
                    Plan::Write(pretty(seen.as_ref())?, true)
                }
                (None, Some(_) | None) => Plan::Keep(false),
            })
        })?;
        if updated.written.is_some() {
            tracing::warn!(path = %path.display(), "another program left it incomplete; its content is restored");
        }
        Ok(updated.value)
    }

    /// Returns the config of the last read if the file has not changed since, as far as is known:
    /// the read was just now, or the team is watched.
    fn newest_config(&self, team: &TeamDir) -> Option<Arc<TeamConfig>> {
        let is_watched = routes(&self.watchers.routes).knows(team);
        let configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = configs.get(team)?;
        (is_watched || seen.at.elapsed() < NEWEST_FOR).then(|| Arc::clone(&seen.config))
    }

    /// Reads the config of a watched team after a change, so that the cached config is the newest.
    pub(super) fn see_config(&self, team: &TeamDir) {
        if let Err(error) = self.read_team(team) {
            tracing::debug!(%team, %error, "the changed config cannot be read");
        }
    }

    pub(crate) fn edit_team(
        &self,
        team: &TeamDir,
        edit: &TeamEdit,
    ) -> Result<TeamConfig, StoreError> {
        match self.try_edit(team, edit) {
            Err(StoreError::Corrupt { .. }) if self.refill(team)? => self.try_edit(team, edit),
            Err(StoreError::NoTeam { .. }) if self.config_comes_back(team) => {
                self.try_edit(team, edit)
            }
            done => done,
        }
    }

    fn try_edit(&self, team: &TeamDir, edit: &TeamEdit) -> Result<TeamConfig, StoreError> {
        let (path, log) = (self.paths.config(team), self.paths.config_writes(team));
        self.verify_config(team)?;
        let mut since = 0;
        let updated = update::update(&self.disk, &path, &path, |before| {
            since = lines::length(&log);
            let read = read_config(team, before)?;
            let (there, told) = self.with_ours(&path, &log, before, &read)?;
            let mut config = there.clone();
            edit(&mut config)?;
            if config == read {
                return Ok(Plan::Keep((config, Vec::new(), None)));
            }
            let fields = lost_updates::changes(&value_of(&there)?, &value_of(&config)?);
            Ok(Plan::Write(pretty(&config)?, (config, fields, told)))
        })?;
        let (config, fields, told) = updated.value;
        if let Some(stamp) = updated.written {
            // The config is cached without a stamp. Another program may overwrite the file at once,
            // so the next reader must read the file.
            self.remember(team, None, config.clone());
            let write = FieldWrite { stamp: Some(stamp), fields, ..FieldWrite::doubt(CONFIG) };
            written_log::note_fields(&self.disk, &log, since, &[write]);
            self.tell_overwritten(team, told);
            self.verify_config(team)?;
        }
        Ok(config)
    }

    /// Returns the config with all overwritten changes of pitcrew restored, and a report of these
    /// changes.
    fn with_ours(
        &self,
        path: &Path,
        log: &Path,
        before: Option<&Snapshot>,
        read: &TeamConfig,
    ) -> Result<(TeamConfig, Option<Overwritten>), Fault> {
        let Some(snapshot) = before.filter(|_| self.puts_back.at_once()) else {
            return Ok((read.clone(), None));
        };
        let damage = self.damage(path, log, true, snapshot)?;
        let told = damage.told(CONFIG.to_owned());
        match damage {
            LostUpdate::None | LostUpdate::BackAgain => Ok((read.clone(), None)),
            LostUpdate::Undone(repaired, _) => Ok((
                serde_json::from_value(repaired).map_err(|e| Fault::Torn(e.to_string()))?,
                told,
            )),
        }
    }

    /// Restores changes of the config that a writer without a lock has overwritten.
    pub(crate) fn verify_config(&self, team: &TeamDir) -> Result<Option<Overwritten>, StoreError> {
        let (path, log) = (self.paths.config(team), self.paths.config_writes(team));
        let stamp = self.must_exist(team)?;
        if !self.puts_back.at_once() {
            return Ok(None);
        }
        let holds_all = |writes: &[FieldWrite]| {
            writes.last().is_none_or(|last| last.stamp == Some(stamp))
                || self.logs.is_checked(&path, &stamp, writes.len() as u64)
        };
        if self.logs.with_writes(&self.disk, &log, holds_all)? {
            return Ok(None);
        }
        self.mend_fields::<TeamConfig>(team, &path, (&path, &log), CONFIG.to_owned())
    }

    pub(crate) fn document(
        &self,
        team: &TeamDir,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        self.must_exist(team)?;
        let path = self.paths.document(team, name);
        update::read(&path, self.lock_to_read(&path), |snapshot| {
            snapshot.map(|s| parse::<Value>(&s.bytes)).transpose()
        })
    }

    pub(crate) fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        mut edit: DocumentEdit,
    ) -> Result<(), StoreError> {
        self.must_exist(team)?;
        let path = self.paths.document(team, name);
        if self.lock_to_read(&path).is_none() {
            // A store that only reads must take no lock. Without this check, the update would take
            // a lock if the document is damaged. Therefore the document is checked first, and a
            // damaged document is an error.
            update::read(&path, None, |snapshot| {
                snapshot.map_or(Ok(()), |s| parse::<Value>(&s.bytes).map(|_| ()))
            })?;
        }
        let mut update = || {
            update::update(&self.disk, &path, &path, |before| {
                let there: Option<Value> = match before {
                    None => None,
                    Some(s) => Some(
                        serde_json::from_slice(&s.bytes).map_err(|e| Fault::Torn(e.to_string()))?,
                    ),
                };
                let mut document = there.clone();
                edit(&mut document)?;
                Ok(match document {
                    document if document == there => Plan::Keep(()),
                    Some(document) => Plan::Write(pretty(&document)?, ()),
                    None => Plan::Remove(()),
                })
            })
        };
        match update() {
            // A reference client created this team, so pitcrew's folders are missing. They are
            // created with the first document.
            Err(StoreError::Io { source, .. }) if is_absent(&source) => {
                self.make_ours(team)?;
                update()?;
            }
            done => _ = done?,
        }
        Ok(())
    }

    /// Creates pitcrew's own folders of a team. They are missing if a reference client created the
    /// team.
    pub(crate) fn make_ours(&self, team: &TeamDir) -> Result<(), StoreError> {
        let ours = self.paths.ours(team);
        for dir in [ours.clone(), ours.join("transcripts"), ours.join("output"), ours.join("read")]
        {
            match own_mode::create_folder(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) if is_absent(&error) => {
                    return Err(StoreError::NoTeam { team: team.clone() });
                }
                Err(error) => return Err(failed("create", &dir)(error)),
            }
        }
        Ok(())
    }
}

fn read_config(team: &TeamDir, snapshot: Option<&Snapshot>) -> Result<TeamConfig, Fault> {
    let there = snapshot.filter(|_| !is_nameless(team));
    let snapshot = there.ok_or_else(|| StoreError::NoTeam { team: team.clone() })?;
    parse_config(&snapshot.bytes)
}

/// Parses the config of a team.
///
/// # Errors
/// [`Fault::TooMuch`] if the config is beyond [`CONFIG_BYTES`] or [`MEMBERS_MOST`], and
/// [`Fault::Torn`] if it is no config.
pub(crate) fn parse_config(bytes: &[u8]) -> Result<TeamConfig, Fault> {
    if bytes.len() > CONFIG_BYTES {
        let reason = format!("it is {} bytes long; at most {CONFIG_BYTES} are read", bytes.len());
        return Err(Fault::TooMuch(reason));
    }
    let config: TeamConfig = parse(bytes)?;
    let members = config.members.len();
    if members > MEMBERS_MOST {
        let reason = format!("it has {members} members; at most {MEMBERS_MOST} are read");
        return Err(Fault::TooMuch(reason));
    }
    Ok(config)
}

/// Whether the team name is empty. The folder of such a team would be the folder of all teams.
pub(crate) fn is_nameless(team: &TeamDir) -> bool {
    team.as_str().is_empty()
}

/// Returns the first JSON value of the file without the bytes that follow it, if these bytes are
/// left from an earlier text. Returns `None` otherwise.
///
/// If a shorter text overwrites a longer text in place, the last bytes of the longer text stay in
/// the file after the shorter text. These bytes are recognized because the shorter text ends with
/// the same bytes.
pub(super) fn without_end_of_a_longer(bytes: &[u8]) -> Option<&[u8]> {
    let mut values =
        serde_json::Deserializer::from_slice(bytes).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    let (whole, rest) = bytes.split_at_checked(values.byte_offset())?;
    (!rest.is_empty() && whole.ends_with(rest)).then_some(whole)
}

/// Parses a file with one JSON value. The error names the position of the first fault.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|e| Fault::Torn(e.to_string()))?;
    // `serde_json` is the first parser. `from_text` is the second parser. It knows the position of
    // a fault, but takes more than twice as long. Therefore it runs only if the first parser fails.
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    pitcrew_protocol::from_text(text)
        .map_err(|e| Fault::Torn(format!("at {}: {}", e.path, e.source)))
}

/// Converts a config or a task to a JSON value that can be compared.
pub(crate) fn value_of<T: serde::Serialize>(value: &T) -> Result<Value, Fault> {
    serde_json::to_value(value).map_err(|e| Fault::Torn(e.to_string()))
}

/// Formats a file like the reference client: two spaces per level, no line break at the end.
pub(crate) fn pretty<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec_pretty(value).map_err(|e| Fault::Torn(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileBackend, FileOptions};

    #[test]
    fn a_config_that_was_read_long_ago_is_not_written_over_an_empty_one() {
        let root = tempfile::tempdir().unwrap();
        let files = FileBackend::open(root.path(), FileOptions::default());
        let (team, files) = (TeamDir::of("probe"), files.files());
        let path = files.paths.config(&team);
        let whole = r#"{"name": "probe", "members": []}"#;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (age, is_restored) in [(Duration::ZERO, true), (NEWEST_FOR, false)] {
            fs::write(&path, whole).unwrap();
            files.team(&team).unwrap();
            let mut configs = files.configs.lock().unwrap();
            let seen = configs.get_mut(&team).unwrap();
            seen.at = seen.at.checked_sub(age).unwrap();
            drop(configs);
            fs::write(&path, "").unwrap();
            assert_eq!(files.team(&team).is_ok(), is_restored, "{age:?}");
            assert_eq!(fs::read_to_string(&path).unwrap().is_empty(), !is_restored, "{age:?}");
        }
    }
}
