//! Moves finished teams into the archive, finds archived teams, restores them and deletes them
//! permanently.

use std::collections::BTreeSet;

use pitcrew_protocol::{ApiError, ErrorCode, TeamDir};
use pitcrew_store::{ArchiveName, ArchivedTeam, Event, StoreError};

use crate::asked::asked_name;
use crate::clock::wire_time;
use crate::{Team, Teams, refusal};

/// One archived team in a list.
#[derive(Clone, Debug)]
pub struct ArchiveEntry {
    /// The name of the archive.
    pub name: ArchiveName,
    /// The archived team, or the reason why the team cannot be read.
    pub team: Result<ArchivedTeam, ApiError>,
}

impl Teams {
    /// Lists all archived teams, sorted by archive name.
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

    /// Finds the archived team called `given`. If there is an archive with the name `given`,
    /// returns the team in this archive. Otherwise, returns the newest archived team whose team
    /// name or folder name is `given`. If there is no such team, returns the newest archived team
    /// whose lead asked for the name `given`.
    ///
    /// # Errors
    /// `invalid_request` when the leads of several teams asked for the name `given`,
    /// `internal_error` when the archive cannot be read.
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

    /// Finds the archived team called `given` by its archive name, its team name or its folder
    /// name.
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
        // The name of an archive consists of the team's folder name, the creation time, and a
        // random id. The newest archives are therefore at the end of the sorted list. The time has
        // no fractions of a second, so archives of the same second are compared by
        // `archived_at_ms`.
        let second = |archive: &ArchiveName| {
            archive.to_string().rsplit_once('-').map(|(named, _id)| named.to_owned())
        };
        let mut newest: Option<ArchivedTeam> = None;
        for archive in archives.iter().rev().filter(is_of_team) {
            if newest.as_ref().is_some_and(|newest| second(&newest.name) != second(archive)) {
                break;
            }
            // Skip an archive that cannot be read, because another archive may match the name.
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

    /// Opens the team called `given`. If there is no such team, restores the archived team with
    /// that name and opens it. The boolean is true if the team came from the archive.
    ///
    /// # Errors
    /// `team_not_found`; `team_already_exists` when an existing team has the name of the archived
    /// team.
    pub async fn open_or_restore(&self, given: &str) -> Result<(Team, bool), ApiError> {
        let missing = match self.open(given).await {
            Ok(team) => return Ok((team, false)),
            Err(error) if error.code == ErrorCode::TeamNotFound => error,
            Err(error) => return Err(error),
        };
        let Some(archived) = self.find_archived(given).await? else {
            return self.brought_back(given).await?.ok_or(missing);
        };
        // Another process may restore or create the team at the same moment. In that case, open the
        // team of the other process instead of failing.
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

    /// Opens the team called `name`, if another process restored or created it after this process
    /// found no such team. The boolean is always false, because this process did not restore the
    /// team.
    async fn brought_back(&self, name: &str) -> Result<Option<(Team, bool)>, ApiError> {
        match self.open(name).await {
            Ok(team) => Ok(Some((team, false))),
            Err(error) if error.code == ErrorCode::TeamNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes an archived team permanently. Returns true if the archived team existed.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn remove_archived(&self, archive: &ArchiveName) -> Result<bool, ApiError> {
        self.backend().remove_archive(archive).await.map_err(refusal::of_store)
    }

    /// If the team is in the archive, adds this fact to the "team not found" error. If an archived
    /// team that `given` may mean cannot be read, adds the reason.
    pub(crate) async fn with_archived(&self, given: &str, error: ApiError) -> ApiError {
        let archived = match self.find_archived(given).await {
            Ok(Some(archived)) => archived,
            Ok(None) => return self.with_unread_archive(given, error).await,
            Err(_) => return error,
        };
        let since = archived
            .archived_at_ms
            .map(|at| format!(" since {}", wire_time(at)))
            .unwrap_or_default();
        let message = format!("Team '{given}' is in the archive{since}");
        ApiError { message, ..error }.with("archive", archived.name.to_string())
    }

    /// Adds the reason why the newest archived team with the folder name of `given` cannot be read.
    async fn with_unread_archive(&self, given: &str, error: ApiError) -> ApiError {
        let dir = TeamDir::of(given);
        let Ok(archives) = self.backend().archives().await else { return error };
        for archive in archives.iter().rev().filter(|archive| is_of(archive, &dir)) {
            if let Err(unread) = self.backend().archived_team(archive).await {
                let unread = refusal::of_store(unread);
                let ApiError { code, message, mut details } = error;
                let message = format!(
                    "{message}; in the archive, {archive} cannot be read: {}",
                    unread.message
                );
                // The details name the file, and a face makes its hint from them.
                details.extend(unread.details);
                return ApiError { code, message, details };
            }
        }
        error
    }
}

/// Whether an archive is one of a team with this folder name. The name of an archive ends with a
/// time and an id.
fn is_of(archive: &ArchiveName, dir: &TeamDir) -> bool {
    archive.to_string().rsplitn(3, '-').nth(2) == Some(dir.as_str())
}

impl Team {
    /// Moves a finished team into the archive unchanged, so that its name is free again. Returns
    /// the name of the archive. If the team still has teammates, returns `None` and leaves the team
    /// in place.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn archive(&self) -> Result<Option<String>, ApiError> {
        let config = self.config().await?;
        if config.teammates().next().is_some() {
            return Ok(None);
        }
        // Write the event before the move. The event tells why the team ended, and it must be the
        // last line of the archived journal.
        self.note([Event::TeamArchived { team: config.name.to_string() }]).await;
        let archive = self.ask(self.backend().archive_team(self.dir())).await?;
        Ok(Some(archive.to_string()))
    }
}
