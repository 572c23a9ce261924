//! A team's config as a file, and pitcrew's own documents beside it.

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
use super::written_log;
use crate::{DocumentEdit, Overwritten, StoreError, TeamEdit, own_mode};

/// File name of the config.
pub(crate) const CONFIG: &str = "config.json";

/// The programs that read a team's inboxes.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Whether the readers are clients of the session dialect, which remove the messages they read.
    pub(crate) is_session: bool,
    /// The inboxes of the members that pitcrew runs.
    pub(crate) ours: Vec<InboxFile>,
    /// The inboxes of the members that pitcrew started and another client runs.
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

    /// Whether messages to this inbox are also logged. This is needed if the reader of the inbox
    /// removes messages, because that reader may end before its model gets them.
    pub(crate) fn keeps_sent(&self, inbox: &InboxFile) -> bool {
        self.is_session || self.started.contains(inbox)
    }

    /// Whether a message that is missing from the inbox counts as lost. In other inboxes the reader
    /// removed it.
    pub(crate) fn misses_mail(&self, inbox: &InboxFile) -> bool {
        !self.is_session && self.ours.contains(inbox)
    }
}

/// Time for which a config may be missing before its team counts as gone. Some clients replace a
/// file by removing it first. One such client was seen to take 0.6 s until it wrote the new file.
const CONFIG_MISSING: Duration = Duration::from_secs(2);

/// The pause between two checks for the config.
const CONFIG_PAUSE: Duration = Duration::from_millis(10);

impl Files {
    /// Returns the folders that hold a config, and links at the path of a folder, sorted. Opening
    /// such a link as a team returns an error that names the link.
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
            // A link is not followed, not even to look for a config.
            let is_link = fs::symlink_metadata(dir.join(name)).is_ok_and(|meta| meta.is_symlink());
            if team.as_str() == name && (is_link || self.paths.config(&team).is_file()) {
                teams.push(team);
            }
        }
        teams.sort();
        Ok(teams)
    }

    /// Returns [`StoreError::NoTeam`] for a folder without a config. Waits if a client may be
    /// replacing the config by removing it first.
    pub(crate) fn must_exist(&self, team: &TeamDir) -> Result<Stamp, StoreError> {
        match self.must_have_config(team) {
            Err(StoreError::NoTeam { .. }) if self.config_comes_back(team) => {
                self.must_have_config(team)
            }
            done => done,
        }
    }

    /// Waits for the config of a team that had one at the last read and still has its folder.
    /// Returns whether the config is back. If not, the team is gone, and later calls do not wait
    /// again.
    fn config_comes_back(&self, team: &TeamDir) -> bool {
        let is_known =
            || self.configs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(team);
        let started = Instant::now();
        while is_known() && self.paths.team(team).is_dir() {
            if self.has_config(team) {
                return true;
            }
            // The team counts as gone now. Without its cached config, later calls do not wait
            // again.
            if started.elapsed() >= CONFIG_MISSING {
                self.configs.lock().unwrap_or_else(PoisonError::into_inner).remove(team);
            }
            thread::sleep(CONFIG_PAUSE);
        }
        self.has_config(team)
    }

    /// Returns [`StoreError::NoTeam`] for a folder without a config, whatever else it contains.
    pub(crate) fn must_have_config(&self, team: &TeamDir) -> Result<Stamp, StoreError> {
        let path = self.paths.config(team);
        match fs::symlink_metadata(&path) {
            // The folder of an empty name is `teams/` itself, so a config in it belongs to no team.
            Ok(_) if is_nameless(team) => Err(StoreError::NoTeam { team: team.clone() }),
            Ok(meta) => Ok(Stamp::of(&meta)),
            Err(error) if is_absent(&error) => Err(StoreError::NoTeam { team: team.clone() }),
            Err(error) => Err(failed("look at", &path)(error)),
        }
    }

    /// Returns the readers of the team's inboxes. Cached until the config changes.
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

    /// Returns a team's config. Cached until its file changes.
    pub(crate) fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        match self.read_team(team) {
            Err(StoreError::Corrupt { .. }) if self.refill(team)? => self.read_team(team),
            // The config was removed between the check and the read.
            Err(StoreError::NoTeam { .. }) if self.config_comes_back(team) => self.read_team(team),
            done => done,
        }
    }

    fn read_team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        let path = self.paths.config(team);
        self.verify_config(team)?;
        let stamp = self.must_exist(team)?;
        if let Some((Some(then), config)) =
            self.configs.lock().unwrap_or_else(PoisonError::into_inner).get(team)
            && *then == stamp
        {
            return Ok(Arc::clone(config));
        }
        let (settled, config) = update::read(&path, self.lock_to_read(&path), |snapshot| {
            let config = read_config(team, snapshot)?;
            Ok((snapshot.filter(|s| s.is_settled()).map(|s| s.stamp), config))
        })?;
        Ok(self.remember(team, settled, config))
    }

    /// Caches the config as last seen. `settled` is the stamp of its file if an equal stamp proves
    /// equal content.
    fn remember(
        &self,
        team: &TeamDir,
        settled: Option<Stamp>,
        config: TeamConfig,
    ) -> Arc<TeamConfig> {
        let config = Arc::new(config);
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.insert(team.clone(), (settled, Arc::clone(&config)));
        config
    }

    /// Repairs a config that a client's write in place left damaged, because a damaged config keeps
    /// every client from its team. If two clients wrote at once, the shorter text is followed by
    /// the end of the longer one, and that end is cut off. If a write ended in the middle, the file
    /// is empty, and the last seen config is written. Returns whether the config is valid
    /// afterwards.
    pub(super) fn refill(&self, team: &TeamDir) -> Result<bool, StoreError> {
        let seen = self
            .configs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(team)
            .map(|(_, seen)| seen.clone());
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
            tracing::warn!(path = %path.display(), "another program left it torn; what it held is in it again");
        }
        Ok(updated.value)
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
            // Without a stamp: another program may overwrite the file at once, so the next reader
            // must read it.
            self.remember(team, None, config.clone());
            let write = FieldWrite { stamp: Some(stamp), fields, ..FieldWrite::doubt(CONFIG) };
            written_log::note_fields(&self.disk, &log, since, &[write]);
            self.tell_overwritten(team, told);
            self.verify_config(team)?;
        }
        Ok(config)
    }

    /// Returns the config with all overwritten changes restored, and a report of these changes.
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
            // A store that only reads must take no lock, but editing a damaged document would take
            // one. So a damaged document is reported first.
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
            // A team that a reference client created gets pitcrew's folders with the first
            // document.
            Err(StoreError::Io { source, .. }) if is_absent(&source) => {
                self.make_ours(team)?;
                update()?;
            }
            done => _ = done?,
        }
        Ok(())
    }

    /// Creates pitcrew's own folders of a team. A team that a reference client created has none.
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
    parse(&snapshot.bytes)
}

/// Whether the team name is empty. Its folder would be the folder of all teams.
pub(crate) fn is_nameless(team: &TeamDir) -> bool {
    team.as_str().is_empty()
}

/// Returns the bytes without the rest of a longer text that a shorter one overwrote. The rest is
/// recognized because both texts end alike.
pub(super) fn without_end_of_a_longer(bytes: &[u8]) -> Option<&[u8]> {
    let mut values =
        serde_json::Deserializer::from_slice(bytes).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    let (whole, rest) = bytes.split_at_checked(values.byte_offset())?;
    (!rest.is_empty() && whole.ends_with(rest)).then_some(whole)
}

/// Parses a file with one JSON value. The error contains the position of the first fault.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|e| Fault::Torn(e.to_string()))?;
    // The tolerant reader knows the position of a fault, but takes more than twice as long. So it
    // runs only after a fault.
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    pitcrew_protocol::from_text(text)
        .map_err(|e| Fault::Torn(format!("at {}: {}", e.path, e.source)))
}

/// Converts a config or task to a JSON value, for comparison.
pub(crate) fn value_of<T: serde::Serialize>(value: &T) -> Result<Value, Fault> {
    serde_json::to_value(value).map_err(|e| Fault::Torn(e.to_string()))
}

/// Formats a file as recorded: two spaces per level, no line break at the end.
pub(crate) fn pretty<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec_pretty(value).map_err(|e| Fault::Torn(e.to_string()))
}
