//! One team: the handle its operations hang on, its config and its end.

use std::future::Future;
use std::sync::Arc;

use pitcrew_protocol::{ApiError, Limits, Member, TeamConfig, TeamDeleted, TeamDir, TeamName};
use pitcrew_store::{Backend, Event, JournalEntry, JournalSummary, RateScope, StoreError};

use crate::actor::{Actor, Speaker};
use crate::lead_signer::{LeadSigner, Trust};
use crate::life::{Deleted, Life};
use crate::{Teams, named, refusal};

/// A team that exists, or did when it was opened. Cheap to clone; clones share whether it was deleted through one of them, and
/// no other state.
#[derive(Clone, Debug)]
pub struct Team {
    teams: Teams,
    name: TeamName,
    dir: TeamDir,
    pub(crate) life: Life,
    pub(crate) signer: Option<LeadSigner>,
    pub(crate) trust: Trust,
}

impl Team {
    pub(crate) fn new(teams: Teams, dir: TeamDir, config: &TeamConfig) -> Self {
        let life = Life::of(config.created_at_ms);
        Self { life, ..Self::unknown_yet(teams, config.name.clone(), dir) }
    }

    /// A team of which nothing was read.
    pub(crate) fn unknown_yet(teams: Teams, name: TeamName, dir: TeamDir) -> Self {
        Self { teams, name, dir, life: Life::of(None), signer: None, trust: Trust::Founding }
    }

    /// The same team by another standing towards its lead's word.
    pub(crate) fn by(self, signer: Option<LeadSigner>, trust: Trust) -> Self {
        Self { signer, trust, ..self }
    }

    pub(crate) fn born_ms(&self) -> Option<i64> {
        self.life.born_ms()
    }

    /// The name as given.
    #[must_use]
    pub fn name(&self) -> &TeamName {
        &self.name
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &TeamDir {
        &self.dir
    }

    /// The store itself, for tests and for what only a store does; all else asks the team.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.teams.backend()
    }

    /// All teams of the same store.
    #[must_use]
    pub fn teams(&self) -> &Teams {
        &self.teams
    }

    /// Reads the config.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` for a config that cannot be read.
    pub async fn config(&self) -> Result<Arc<TeamConfig>, ApiError> {
        self.ask(self.backend().team(&self.dir)).await
    }

    /// The member that `name` means: its name in any case, `@name` or `name@team`.
    ///
    /// # Errors
    /// `agent_not_found` with the valid names and a near miss, `team_not_found`.
    pub async fn member(&self, name: &str) -> Result<Member, ApiError> {
        let config = self.config().await?;
        named::member(name, &config).cloned().ok_or_else(|| refusal::unknown_agent(&config, name))
    }

    /// Deletes the team; while it has teammates it answers `success: false` and does nothing.
    ///
    /// # Errors
    /// `permission_denied` for everybody but the lead and the user, `team_not_found`.
    pub async fn delete(&self, actor: &Actor) -> Result<TeamDeleted, ApiError> {
        let config = self.config().await?;
        Speaker::of(actor, &config)?.must_lead("delete the team")?;
        self.count_call().await?;
        let left: Vec<String> = config.teammates().map(|m| m.name.to_string()).collect();
        if !left.is_empty() {
            // The recorded words name a function that no model can call; what it can call comes behind them.
            let how = match actor {
                Actor::User | Actor::Outside(_) => "They have to shut down, or be removed, first.",
                Actor::Lead | Actor::Member(_) => {
                    "Use requestShutdown to gracefully terminate teammates first. To do so, send each of them a \
                     SendMessage with the type shutdown_request."
                }
            };
            return Ok(TeamDeleted::refused(config.name.as_str(), &left, how));
        }
        self.note([Event::TeamDeleted { team: config.name.to_string() }]).await;
        let summary = self.ask(self.backend().journal_summary(&self.dir)).await;
        let archive = self.ask(self.backend().archive_team(&self.dir)).await?;
        // A journal that cannot be read says nothing of what the team took, as for a run that goes on with it.
        let summary = summary
            .map_or_else(|_unread| JournalSummary::default(), |(summary, _position)| summary);
        self.life.end(Deleted { archive, summary, turns: Vec::new() });
        Ok(TeamDeleted::done(config.name.as_str()))
    }

    /// Takes back that the team was made: nothing has happened in it.
    ///
    /// # Errors
    /// `team_not_found`, and `internal_error` when the store fails.
    pub async fn discard(&self) -> Result<(), ApiError> {
        self.ask(self.backend().discard_team(&self.dir)).await
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.teams.limits()
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.teams.now_ms()
    }

    /// Awaits the store, its failure in the words of the API.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        let answer = if self.life.is_over() {
            Err(StoreError::NoTeam { team: self.dir.clone() })
        } else {
            call.await
        };
        match answer {
            Ok(value) => Ok(value),
            Err(StoreError::NoTeam { .. }) => Err(self.teams.unknown(self.name.as_str()).await),
            Err(error) => Err(refusal::of_store(error)),
        }
    }

    /// Counts one call that changes something. Calls that only read are free: counting is itself a write.
    pub(crate) async fn count_call(&self) -> Result<(), ApiError> {
        self.teams.count_call().await
    }

    pub(crate) async fn take_slot(&self, scope: RateScope) -> Result<(), ApiError> {
        self.teams.take_slot(scope).await
    }

    /// Writes events into the journal. The journal is evidence and not truth, so a failure to write it does not undo what
    /// happened: it is told to the log.
    pub async fn note(&self, events: impl IntoIterator<Item = Event>) {
        let at_ms = self.now_ms();
        let entries: Vec<_> =
            events.into_iter().map(|event| JournalEntry { at_ms, event }).collect();
        self.note_entries(entries).await;
    }

    pub(crate) async fn note_entries(&self, entries: Vec<JournalEntry>) {
        if entries.is_empty() {
            return;
        }
        if self.life.is_over() {
            return self.life.keep(entries);
        }
        if let Err(error) = self.backend().record(&self.dir, &entries).await {
            tracing::warn!(team = %self.dir, error = &error as &dyn std::error::Error, "cannot write the journal");
        }
    }
}
