//! Teams that came to their end: put into the archive, found there, taken out again, and removed for good.

use std::collections::BTreeSet;

use pitcrew_protocol::{ApiError, ErrorCode, TeamDir};
use pitcrew_store::{ArchiveName, ArchivedTeam, Event, StoreError};

use crate::asked::asked_name;
use crate::clock::wire_time;
use crate::{Team, Teams, refusal};

/// A team of the archive in a list.
#[derive(Clone, Debug)]
pub struct ArchiveEntry {
    /// The archive.
    pub name: ArchiveName,
    /// What it holds, or why that cannot be read.
    pub team: Result<ArchivedTeam, ApiError>,
}

impl Teams {
    /// All teams of the archive, by the names of their archives.
    ///
    /// # Errors
    /// `internal_error` when the archive cannot be listed.
    pub async fn archived(&self) -> Result<Vec<ArchiveEntry>, ApiError> {
        let mut entries = Vec::new();
        for name in self.backend().archives().await.map_err(refusal::of_store)? {
            match self.backend().archived_team(&name).await {
                Ok(Some(team)) => entries.push(ArchiveEntry { name, team: Ok(team) }),
                Ok(None) => {}
                Err(error) => {
                    entries.push(ArchiveEntry { name, team: Err(refusal::of_store(error)) })
                }
            }
        }
        Ok(entries)
    }

    /// The team of the archive called `given`: by the archive's name, else the newest one of that team's name or folder, else the
    /// newest one of the team whose lead asked for that name.
    ///
    /// # Errors
    /// `invalid_request` when the leads of several teams asked for it, `internal_error` when the archive cannot be read.
    pub async fn find_archived(&self, given: &str) -> Result<Option<ArchivedTeam>, ApiError> {
        match self.archived_named(given).await? {
            Some(team) => Ok(Some(team)),
            None => self.archived_asked_for(given).await,
        }
    }

    async fn archived_asked_for(&self, given: &str) -> Result<Option<ArchivedTeam>, ApiError> {
        let dir = TeamDir::of(given);
        let archived = self.archived().await?.into_iter().filter_map(|entry| entry.team.ok());
        let asked: Vec<ArchivedTeam> = archived
            .filter(|team| asked_name(&team.config).is_some_and(|asked| asked.dir() == dir))
            .collect();
        let names: BTreeSet<String> =
            asked.iter().map(|team| team.config.name.to_string()).collect();
        if names.len() > 1 {
            return Err(refusal::asked_by_several(given, &names));
        }
        Ok(asked.into_iter().max_by_key(|team| team.archived_at_ms))
    }

    /// The team of the archive called `given` by its own name, its folder's or the archive's.
    ///
    /// # Errors
    /// `internal_error` when the archive cannot be read.
    pub(crate) async fn archived_named(
        &self,
        given: &str,
    ) -> Result<Option<ArchivedTeam>, ApiError> {
        let archives = self.backend().archives().await.map_err(refusal::of_store)?;
        if let Some(archive) = archives.iter().find(|archive| archive.to_string() == given) {
            return self.backend().archived_team(archive).await.map_err(refusal::of_store);
        }
        let dir = TeamDir::of(given);
        let is_of_team =
            |archive: &&ArchiveName| archive.to_string().starts_with(&format!("{dir}-"));
        // The time stands in the name, to the second: the newest is among the last.
        let second = |archive: &ArchiveName| {
            archive.to_string().rsplit_once('-').map(|(named, _id)| named.to_owned())
        };
        let mut newest: Option<ArchivedTeam> = None;
        for archive in archives.iter().rev().filter(is_of_team) {
            if newest.as_ref().is_some_and(|newest| second(&newest.name) != second(archive)) {
                break;
            }
            // One that cannot be read is no reason not to find another.
            let Ok(Some(team)) = self.backend().archived_team(archive).await else { continue };
            let name = &team.config.name;
            let is_named =
                given == dir.as_str() || name.as_str().to_lowercase() == given.to_lowercase();
            let is_newer =
                newest.as_ref().is_none_or(|newest| newest.archived_at_ms < team.archived_at_ms);
            if name.dir() == dir && is_named && is_newer {
                newest = Some(team);
            }
        }
        Ok(newest)
    }

    /// Opens the team called `given`; when there is none, the one of the archive that goes by that name or id, which is moved
    /// back to its place. Says whether it was.
    ///
    /// # Errors
    /// `team_not_found`; `team_already_exists` when a team has the name of the archived one.
    pub async fn open_or_restore(&self, given: &str) -> Result<(Team, bool), ApiError> {
        let missing = match self.open(given).await {
            Ok(team) => return Ok((team, false)),
            Err(error) if error.code == ErrorCode::TeamNotFound => error,
            Err(error) => return Err(error),
        };
        let Some(archived) = self.find_archived(given).await? else {
            return self.brought_back(given).await?.ok_or(missing);
        };
        let refused = match self.backend().restore_team(&archived.name).await {
            Ok(dir) => return Ok((self.open(dir.as_str()).await?, true)),
            Err(StoreError::NoTeam { .. }) => missing,
            Err(error @ StoreError::TeamTaken { .. }) if archived.name.to_string() != given => {
                refusal::of_store(error)
            }
            Err(error) => return Err(refusal::of_store(error)),
        };
        self.brought_back(archived.config.name.as_str()).await?.ok_or(refused)
    }

    /// The team of that name when another process has brought it back, or made it, since it was looked for.
    async fn brought_back(&self, name: &str) -> Result<Option<(Team, bool)>, ApiError> {
        match self.open(name).await {
            Ok(team) => Ok(Some((team, false))),
            Err(error) if error.code == ErrorCode::TeamNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a team of the archive for good; says whether it was there.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn remove_archived(&self, archive: &ArchiveName) -> Result<bool, ApiError> {
        self.backend().remove_archive(archive).await.map_err(refusal::of_store)
    }

    /// What an error for a team that is not there says of the archive.
    pub(crate) async fn with_archived(&self, given: &str, error: ApiError) -> ApiError {
        let Ok(Some(archived)) = self.find_archived(given).await else { return error };
        let since = archived
            .archived_at_ms
            .map(|at| format!(" since {}", wire_time(at)))
            .unwrap_or_default();
        let message = format!("Team '{given}' is in the archive{since}");
        ApiError { message, ..error }.with("archive", archived.name.to_string())
    }
}

impl Team {
    /// Puts a team whose work is done into the archive, as it is; its name is free then. Answers with the archive's name, or
    /// with nothing when the team still has teammates: then it stays.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn archive(&self) -> Result<Option<String>, ApiError> {
        let config = self.config().await?;
        if config.teammates().next().is_some() {
            return Ok(None);
        }
        self.note([Event::TeamArchived { team: config.name.to_string() }]).await;
        let archive = self.ask(self.backend().archive_team(self.dir())).await?;
        Ok(Some(archive.to_string()))
    }
}
