//! One team: the handle with all operations, the config and the deletion of the team.

use std::future::Future;
use std::sync::Arc;

use pitcrew_protocol::{ApiError, Limits, Member, TeamConfig, TeamDeleted, TeamDir, TeamName};
use pitcrew_store::{Backend, Event, JournalEntry, JournalSummary, RateScope, StoreError};

use crate::actor::{Actor, Speaker};
use crate::lead_signer::{LeadSigner, Trust};
use crate::life::{Deleted, Life};
use crate::{Teams, named, refusal};

/// The handle of a team that existed when the handle was opened. Cloning is cheap. The clones share
/// one state: whether the team was deleted through one of them.
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

    /// Builds a handle without reading the team's config. The creation time of the team is
    /// therefore unknown.
    pub(crate) fn unknown_yet(teams: Teams, name: TeamName, dir: TeamDir) -> Self {
        Self { teams, name, dir, life: Life::of(None), signer: None, trust: Trust::Founding }
    }

    /// Returns this handle with another key for signing, and with another way to verify the lead's
    /// commands.
    pub(crate) fn by(self, signer: Option<LeadSigner>, trust: Trust) -> Self {
        Self { signer, trust, ..self }
    }

    pub(crate) fn born_ms(&self) -> Option<i64> {
        self.life.born_ms()
    }

    /// The name of the team.
    #[must_use]
    pub fn name(&self) -> &TeamName {
        &self.name
    }

    /// The folder of the team.
    #[must_use]
    pub fn dir(&self) -> &TeamDir {
        &self.dir
    }

    /// The store. Use it directly only in tests, or for functions that only the store has. Use the
    /// methods of the team for everything else.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.teams.backend()
    }

    /// The handle of all teams in the same store.
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

    /// Finds the member that `name` means. Accepted forms are the member's name in any letter case,
    /// `@name` and `name@team`.
    ///
    /// # Errors
    /// `agent_not_found` with the valid names and a similar name, `team_not_found`.
    pub async fn member(&self, name: &str) -> Result<Member, ApiError> {
        let config = self.config().await?;
        named::member(name, &config).cloned().ok_or_else(|| refusal::unknown_agent(&config, name))
    }

    /// Deletes the team. If the team still has teammates, this function changes nothing and returns
    /// `success: false`.
    ///
    /// # Errors
    /// `permission_denied` for every caller except the lead and the user, `team_not_found`.
    pub async fn delete(&self, actor: &Actor) -> Result<TeamDeleted, ApiError> {
        let config = self.config().await?;
        Speaker::of(actor, &config)?.must_lead("delete the team")?;
        self.count_call().await?;
        let left: Vec<String> = config.teammates().map(|m| m.name.to_string()).collect();
        if !left.is_empty() {
            // In the reference client's recordings, this refusal names a function that models do
            // not have. For agents, the refusal therefore also names a tool call that models do
            // have.
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
        // Read the journal before the team is moved into the archive. After the move, the journal
        // is no longer in the team's folder.
        let summary = self.ask(self.backend().journal_summary(&self.dir)).await;
        let archive = self.ask(self.backend().archive_team(&self.dir)).await?;
        // If the journal cannot be read, the model usage counts as zero. A run that continues a
        // team with an unreadable journal does the same.
        let summary = summary
            .map_or_else(|_unread| JournalSummary::default(), |(summary, _position)| summary);
        self.life.end(Deleted { archive, summary, rest: Vec::new() });
        Ok(TeamDeleted::done(config.name.as_str()))
    }

    /// Removes a team that was just created and never used.
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

    /// Awaits a call to the store. If the call fails, converts the error of the store into an API
    /// error.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        // If the team of this handle was deleted, another process may have created a new team with
        // the same name. This handle must not change the new team.
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

    /// Counts one changing call for the rate limit. Calls that only read are not counted, because
    /// the counting itself needs a write.
    pub(crate) async fn count_call(&self) -> Result<(), ApiError> {
        self.teams.count_call().await
    }

    pub(crate) async fn take_slot(&self, scope: RateScope) -> Result<(), ApiError> {
        self.teams.take_slot(scope).await
    }

    /// Writes events into the journal. A failed write does not undo the operation: the entries are
    /// kept, and the next call writes them first ([`Team::is_journal_behind`]). The failure goes to
    /// the log.
    pub async fn note(&self, events: impl IntoIterator<Item = Event>) {
        let at_ms = self.now_ms();
        let entries: Vec<_> =
            events.into_iter().map(|event| JournalEntry { at_ms, event }).collect();
        self.note_entries(entries).await;
    }

    pub(crate) async fn note_entries(&self, entries: Vec<JournalEntry>) {
        if self.life.is_over() {
            return self.life.keep(entries);
        }
        let entries = self.life.with_unwritten(entries);
        if entries.is_empty() {
            return;
        }
        match self.backend().record(&self.dir, &entries).await {
            Ok(_) => self.life.caught_up(),
            Err(error) => {
                tracing::warn!(team = %self.dir, error = &error as &dyn std::error::Error, "cannot write the journal");
                match error {
                    StoreError::NoTeam { .. } => self.life.caught_up(),
                    _ => self.life.keep_unwritten(entries),
                }
            }
        }
    }

    /// Whether the journal lacks entries that the disk refused. Calling [`Team::note`] again, even
    /// without a new event, writes them.
    #[must_use]
    pub fn is_journal_behind(&self) -> bool {
        self.life.is_behind()
    }

    /// Waits until the journal lacks entries that the disk refused.
    pub async fn journal_fell_behind(&self) {
        self.life.fell_behind().await;
    }
}
