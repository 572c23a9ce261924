//! A team's config as a file, and our own documents beside it.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use pitcrew_protocol::{TeamConfig, TeamDir};
use serde_json::Value;

use super::backend::Files;
use super::disk::{Snapshot, Stamp, failed, is_absent};
use super::reapply::Write;
use super::update::{self, Fault, Plan};
use crate::{DocumentEdit, StoreError, TeamEdit};

impl Files {
    /// The folders that hold a config, sorted.
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
            if team.as_str() == name && self.paths.config(&team).is_file() {
                teams.push(team);
            }
        }
        teams.sort();
        Ok(teams)
    }

    /// Says [`StoreError::NoTeam`] for a folder without a config.
    pub(crate) fn must_exist(&self, team: &TeamDir) -> Result<Stamp, StoreError> {
        let path = self.paths.config(team);
        match fs::symlink_metadata(&path) {
            Ok(_) if is_nameless(team) => Err(StoreError::NoTeam { team: team.clone() }),
            Ok(meta) => Ok(Stamp::of(&meta)),
            Err(error) if is_absent(&error) => Err(StoreError::NoTeam { team: team.clone() }),
            Err(error) => Err(failed("look at", &path)(error)),
        }
    }

    /// Whether clients of the session dialect read the team's files; remembered while the config stays as it is.
    pub(crate) fn is_session(&self, team: &TeamDir) -> Result<bool, StoreError> {
        let stamp = self.must_exist(team)?;
        let known = self.dialects.lock().unwrap_or_else(PoisonError::into_inner).get(team).copied();
        if let Some((then, is_session)) = known
            && then == stamp
        {
            return Ok(is_session);
        }
        let is_session = self.team(team)?.is_session_dialect();
        self.dialects.lock().unwrap_or_else(PoisonError::into_inner).insert(team.clone(), (stamp, is_session));
        Ok(is_session)
    }

    /// A team's config; remembered while its file stays as it is.
    pub(crate) fn team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        match self.read_team(team) {
            Err(StoreError::Corrupt { .. }) if self.refill(team)? => self.read_team(team),
            done => done,
        }
    }

    fn read_team(&self, team: &TeamDir) -> Result<Arc<TeamConfig>, StoreError> {
        let path = self.paths.config(team);
        self.verify_config(team)?;
        let stamp = self.must_exist(team)?;
        if let Some((Some(then), config)) = self.configs.lock().unwrap_or_else(PoisonError::into_inner).get(team)
            && *then == stamp
        {
            return Ok(Arc::clone(config));
        }
        let (settled, config) = update::read(&path, &path, |snapshot| {
            let config = read_config(team, snapshot)?;
            Ok((snapshot.filter(|s| s.is_settled()).map(|s| s.stamp), config))
        })?;
        Ok(self.remember(team, settled, config))
    }

    /// Keeps the config as it was seen last; with a stamp, as what the file of that stamp holds.
    fn remember(&self, team: &TeamDir, settled: Option<Stamp>, config: TeamConfig) -> Arc<TeamConfig> {
        let config = Arc::new(config);
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.insert(team.clone(), (settled, Arc::clone(&config)));
        config
    }

    /// Puts the config that was seen last into a file that stays empty: a client writes in place, and one that ends in the
    /// middle of that leaves nothing. Says whether there was one to put there.
    fn refill(&self, team: &TeamDir) -> Result<bool, StoreError> {
        let seen = self.configs.lock().unwrap_or_else(PoisonError::into_inner).get(team).map(|(_, seen)| seen.clone());
        let Some(seen) = seen else { return Ok(false) };
        let path = self.paths.config(team);
        let updated = update::update(&self.disk, &path, &path, |before| match before {
            Some(snapshot) if snapshot.bytes.is_empty() => Ok(Plan::Write(pretty(seen.as_ref())?, ())),
            Some(_) | None => Ok(Plan::Keep(())),
        })?;
        if updated.written.is_some() {
            tracing::warn!(path = %path.display(), "it was left empty; what it held last is in it again");
        }
        Ok(true)
    }

    pub(crate) fn edit_team(&self, team: &TeamDir, edit: &TeamEdit) -> Result<TeamConfig, StoreError> {
        match self.try_edit(team, edit) {
            Err(StoreError::Corrupt { .. }) if self.refill(team)? => self.try_edit(team, edit),
            done => done,
        }
    }

    fn try_edit(&self, team: &TeamDir, edit: &TeamEdit) -> Result<TeamConfig, StoreError> {
        let path = self.paths.config(team);
        let updated = update::update(&self.disk, &path, &path, |before| {
            let there = read_config(team, before)?;
            let mut config = there.clone();
            self.put_back(&path, before, &mut config);
            edit(&mut config)?;
            if config == there {
                return Ok(Plan::Keep(config));
            }
            Ok(Plan::Write(pretty(&config)?, config))
        })?;
        if updated.written.is_some() {
            self.remember(team, None, updated.value.clone());
            self.recent.note(&path, updated.written, [Write::Config(edit.clone())]);
            self.verify_config(team)?;
        }
        Ok(updated.value)
    }

    /// Makes edits of ours again that a writer without a lock has overwritten.
    pub(crate) fn verify_config(&self, team: &TeamDir) -> Result<(), StoreError> {
        let path = self.paths.config(team);
        if !self.recent.knows(&path) {
            return Ok(());
        }
        let stamp = self.must_exist(team)?;
        if self.recent.suspects(&path, &stamp).is_empty() {
            return Ok(());
        }
        let updated = update::update(&self.disk, &path, &path, |before| {
            let there = read_config(team, before)?;
            let mut config = there.clone();
            self.put_back(&path, before, &mut config);
            if config == there {
                return Ok(Plan::Keep(before.map(|s| s.stamp)));
            }
            tracing::warn!(path = %path.display(), "making an overwritten change again");
            Ok(Plan::Write(pretty(&config)?, None))
        })?;
        if let Some(stamp) = updated.written.or(updated.value) {
            self.recent.settle(&path, stamp);
        }
        Ok(())
    }

    fn put_back(&self, path: &Path, before: Option<&Snapshot>, config: &mut TeamConfig) {
        for write in before.map(|s| self.recent.suspects(path, &s.stamp)).unwrap_or_default() {
            let Write::Config(edit) = write else { continue };
            let mut again = config.clone();
            match edit(&mut again) {
                Ok(()) => *config = again,
                Err(refused) => tracing::debug!(%refused, "an earlier change no longer applies"),
            }
        }
    }

    pub(crate) fn edit_document(
        &self,
        team: &TeamDir,
        name: &'static str,
        mut edit: DocumentEdit,
    ) -> Result<(), StoreError> {
        self.must_exist(team)?;
        let path = self.paths.document(team, name);
        let mut update = || {
            update::update(&self.disk, &path, &path, |before| {
                let there: Option<Value> = match before {
                    None => None,
                    Some(s) => Some(serde_json::from_slice(&s.bytes).map_err(|e| Fault::Torn(e.to_string()))?),
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
            // A team that a reference client made gets our folders with the first thing written into them.
            Err(StoreError::Io { source, .. }) if is_absent(&source) => {
                self.make_ours(team)?;
                update()?;
            }
            done => _ = done?,
        }
        Ok(())
    }

    /// Makes the folders of what is ours of a team; one that a reference client made has none.
    pub(crate) fn make_ours(&self, team: &TeamDir) -> Result<(), StoreError> {
        let ours = self.paths.ours(team);
        for dir in [ours.clone(), ours.join("transcripts"), ours.join("output"), ours.join("read")] {
            match fs::create_dir(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) if is_absent(&error) => return Err(StoreError::NoTeam { team: team.clone() }),
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

/// Whether the folder is that of an empty name, and so the folder of all teams.
pub(crate) fn is_nameless(team: &TeamDir) -> bool {
    team.as_str().is_empty()
}

/// Reads a file of one JSON value, and says where the first fault is.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|e| Fault::Torn(e.to_string()))?;
    // The tolerant reader, which knows where it is, costs more than twice as much.
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    pitcrew_protocol::from_text(text).map_err(|e| Fault::Torn(format!("at {}: {}", e.path, e.source)))
}

/// The bytes of a file: two spaces a level, no line break at the end.
pub(crate) fn pretty<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec_pretty(value).map_err(|e| Fault::Torn(e.to_string()))
}
