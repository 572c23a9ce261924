//! All teams of one store: finding one of them, and the rate limits of all calls. The modules below
//! create and list teams.

use std::sync::Arc;

use pitcrew_protocol::{ApiError, Limits, TeamDir, TeamName};
use pitcrew_store::{Backend, Paths, RateScope, Slot, StoreError};

use crate::entropy::Entropy;
use crate::places::paths_of;
use crate::seen::Seen;
use crate::{Clock, Team, refusal};

mod create;
mod list;

pub(crate) use create::taken;
pub use create::{CreateTeam, FirstRun, MadeBy, OnTaken};
pub use list::TeamSummary;

/// A rate limit with at least this count is not enforced. Such a high count is not meant as a
/// limit, and the store would need space for each counted call.
const UNCOUNTED: u32 = 1_000_000;

/// The maximum number of team names that an error lists.
const NAMES_LISTED: usize = 100;

/// The handle of all teams in one store. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Teams {
    shared: Arc<Shared>,
    /// What this process saw in teams of other clients. `None` if it remembers nothing.
    seen: Option<Arc<Seen>>,
}

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    paths: Paths,
    limits: Limits,
    clock: Arc<dyn Clock>,
    entropy: Entropy,
}

impl Teams {
    /// Builds the handle of all teams in the store `backend`.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        Self::with(backend, limits, clock, Entropy::System)
    }

    /// Builds the handle of all teams, with ids that are computed from `seed`. Anyone can guess
    /// such ids, so use this handle for simulations only.
    #[must_use]
    pub fn seeded(
        backend: Arc<dyn Backend>,
        limits: Limits,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Self {
        Self::with(backend, limits, clock, Entropy::seeded(seed))
    }

    fn with(
        backend: Arc<dyn Backend>,
        limits: Limits,
        clock: Arc<dyn Clock>,
        entropy: Entropy,
    ) -> Self {
        let paths = paths_of(&*backend);
        Self { shared: Arc::new(Shared { backend, paths, limits, clock, entropy }), seen: None }
    }

    /// Lets [`Team::remember`] remember, for as long as a clone of this handle exists.
    #[must_use]
    pub fn remembering(self) -> Self {
        Self { seen: Some(Arc::default()), ..self }
    }

    pub(crate) fn seen(&self) -> Option<&Seen> {
        self.seen.as_deref()
    }

    /// The store. Use it directly only in tests, or for functions that only the store has. Use the
    /// methods of this handle for everything else.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }

    /// The limits of the teams.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Opens a team by its name, its folder, or the name that its lead asked for.
    ///
    /// # Errors
    /// - `team_not_found` with the existing teams.
    /// - `invalid_request` for a name that the leads of several teams asked for.
    /// - `internal_error` for a config that cannot be read.
    pub async fn open(&self, name: &str) -> Result<Team, ApiError> {
        let mut dir = TeamDir::of(name);
        let mut is_asked_for = false;
        let config = match self.backend().team(&dir).await {
            Err(StoreError::NoTeam { .. }) => {
                // If an archived team has exactly this name, it has priority over a team whose lead
                // only asked for the name.
                let of_archive = self.archived_named(name).await.unwrap_or_default();
                let asked_for =
                    if of_archive.is_some() { None } else { self.asked_for(name).await? };
                let Some(other) = asked_for else { return Err(self.unknown(name).await) };
                (dir, is_asked_for) = (other, true);
                self.backend().team(&dir).await.map_err(refusal::of_store)?
            }
            read => read.map_err(refusal::of_store)?,
        };
        // Different names can give the same folder, for example `a b` and `a-b`. An error is better
        // than opening the wrong team without a warning.
        if !is_asked_for
            && name != dir.as_str()
            && config.name.as_str().to_lowercase() != name.to_lowercase()
        {
            return Err(self.unknown(name).await.with("did_you_mean", config.name.as_str()));
        }
        // Another program may have undone some of pitcrew's changes. Opening a team makes these
        // changes again, and the store reports each of them. If this fails, the team still opens.
        if let Some(files) = self.backend().files()
            && let Err(error) = files.reapply(&dir).await
        {
            tracing::warn!(team = %dir, %error, "cannot see whether our writes were undone");
        }
        Ok(Team::new(self.clone(), dir, &config))
    }

    /// Returns the handle of the team in the folder `dir`, without reading the team. Use this
    /// handle to remove a team whose config cannot be read.
    ///
    /// # Errors
    /// `invalid_request` for a folder that belongs to no valid team name.
    pub fn at(&self, dir: &TeamDir) -> Result<Team, ApiError> {
        let name = TeamName::new(dir.as_str()).map_err(|e| refusal::bad_name(dir.as_str(), &e))?;
        Ok(Team::unknown_yet(self.clone(), name, dir.clone()))
    }

    /// Returns the current time of the teams' clock, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.shared.paths
    }

    pub(crate) fn entropy(&self) -> &Entropy {
        &self.shared.entropy
    }

    pub(crate) async fn count_call(&self) -> Result<(), ApiError> {
        self.take_slot(RateScope::Calls).await
    }

    pub(crate) async fn take_slot(&self, scope: RateScope) -> Result<(), ApiError> {
        let limits = self.limits();
        let (rate, what, setting) = match &scope {
            RateScope::TeamCreation => (limits.team_rate, "teams", "teamRate"),
            RateScope::Spawns(_) => (limits.spawn_rate, "spawns", "spawnRate"),
            RateScope::TaskCreation(_) => (limits.task_rate, "tasks", "taskRate"),
            RateScope::Broadcasts(_) => (limits.broadcast_rate, "broadcasts", "broadcastRate"),
            RateScope::Calls => (limits.call_rate, "calls", "callRate"),
        };
        if rate.count >= UNCOUNTED {
            return Ok(());
        }
        match self.backend().take_slot(&scope, rate, self.now_ms()).await {
            Ok(Slot::Taken) => Ok(()),
            Ok(Slot::Full { retry_after }) => {
                Err(refusal::too_soon(what, setting, rate, retry_after))
            }
            Err(error) => Err(refusal::of_store(error)),
        }
    }

    /// The error for a team that does not exist. It lists the existing teams.
    pub(crate) async fn unknown(&self, given: &str) -> ApiError {
        let mut names = Vec::new();
        for dir in self.backend().teams().await.unwrap_or_default().into_iter().take(NAMES_LISTED) {
            let name = self
                .backend()
                .team(&dir)
                .await
                .map_or_else(|_| dir.to_string(), |c| c.name.to_string());
            // Skip a folder that belongs to no valid team name, because no caller is able to open
            // such a folder.
            names.extend(TeamName::new(&name).is_ok().then_some(name));
        }
        self.with_archived(given, refusal::unknown_team(given, names)).await
    }
}
