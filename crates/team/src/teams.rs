//! All teams of one store: creating, finding and listing them.

use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, LEAD_NAME, Limits, Member, TeamConfig, TeamCreateInput,
    TeamCreated, TeamDir, TeamName,
};
use pitcrew_store::{Backend, Event, NewTeam, Paths, RateScope, Slot, StoreError};
use serde::Serialize;

use crate::bounds::{FirstGoal, RunBounds};
use crate::document::new_document;
use crate::entropy::Entropy;
use crate::ours::SpawnRecord;
use crate::places::paths_of;
use crate::{Clock, Team, refusal};

/// If the name of a new team is taken, pitcrew tries the name with a number at its end. This is the
/// highest number that it tries. A store has far fewer teams.
const NUMBERS_TRIED: u32 = 10_000;

/// A rate limit with at least this count is not enforced. Such a high count is not meant as a
/// limit, and the store would need space for each counted call.
const UNCOUNTED: u32 = 1_000_000;

/// The maximum number of team names that an error lists.
const NAMES_LISTED: usize = 100;

/// The handle of all teams in one store. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Teams {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    paths: Paths,
    limits: Limits,
    clock: Arc<dyn Clock>,
    entropy: Entropy,
}

/// The settings of a new team.
#[derive(Clone, Debug)]
pub struct CreateTeam {
    /// The caller's TeamCreate input.
    pub input: TeamCreateInput,
    /// The lead's working folder.
    pub cwd: String,
    /// The lead's model.
    pub model: String,
    /// The lead's session id, a UUID.
    pub session_id: String,
    /// The behavior when the name is taken.
    pub on_taken: OnTaken,
    /// The kind of caller that creates the team.
    pub made_by: MadeBy,
    /// The first run of the team, if a run creates it.
    pub first_run: Option<FirstRun>,
}

/// The part of a team's first run that is stored together with the new team. If the run is killed
/// before its lead has read the goal, the next run still finds the goal and the limits.
#[derive(Clone, Debug)]
pub struct FirstRun {
    /// The goal of the run.
    pub goal: String,
    /// The limits from the run's command line.
    pub bounds: RunBounds,
}

/// The kind of caller that creates a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeBy {
    /// A person who starts a run creates the team. No rate limit applies.
    Run,
    /// An agent or another caller of the API creates the team. A rate limit applies (API reference,
    /// "Limits").
    Caller,
}

/// The behavior when another team has the name of the new team, or the folder that results from the
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTaken {
    /// Return the error `team_already_exists`.
    Refuse,
    /// Use the name `name-2`, `name-3`, and so on.
    Number,
}

/// One team in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TeamSummary {
    /// The team's name. If the config cannot be read, this is the name of the folder.
    pub name: String,
    /// The team's folder.
    pub folder: TeamDir,
    /// The team's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The creation time, in milliseconds since 1970.
    #[serde(rename = "createdAt", skip_serializing_if = "Option::is_none")]
    pub created_at_ms: Option<i64>,
    /// The names of the members. The lead is first.
    pub members: Vec<AgentName>,
    /// The path of the config file.
    pub team_file_path: PathBuf,
    /// The reason why the config cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
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
        Self { shared: Arc::new(Shared { backend, paths, limits, clock, entropy }) }
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

    /// Creates a team with its lead as the only member.
    ///
    /// # Errors
    /// `invalid_request` for a bad name, `team_already_exists`, `rate_limit`.
    pub async fn create(&self, create: CreateTeam) -> Result<(Team, TeamCreated), ApiError> {
        let given = create.input.team_name.as_str();
        let name = TeamName::new(given).map_err(|e| refusal::bad_name(given, &e))?;
        self.count_call().await?;
        if create.on_taken == OnTaken::Refuse {
            self.refuse_taken(&name).await?;
        }
        self.may_make_one(create.made_by).await?;
        let config = self.make(&create, name).await?;
        let team = Team::new(self.clone(), config.name.dir(), &config);
        team.note([Event::TeamCreated { team: config.name.to_string() }]).await;
        let created = team.created();
        Ok((team, created))
    }

    /// Checks that one more team is allowed. If an API caller creates the team, counts the creation
    /// for the rate limit.
    pub(crate) async fn may_make_one(&self, made_by: MadeBy) -> Result<(), ApiError> {
        let there = self.backend().teams().await.map_err(refusal::of_store)?.len();
        refusal::check_count("teams", self.limits().teams, there)?;
        match made_by {
            MadeBy::Run => Ok(()),
            MadeBy::Caller => self.take_slot(RateScope::TeamCreation).await,
        }
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

    /// Lists all teams, sorted by folder. If a team's config cannot be read, the entry of the team
    /// contains the reason.
    ///
    /// # Errors
    /// `internal_error` when the store cannot be read.
    pub async fn list(&self) -> Result<Vec<TeamSummary>, ApiError> {
        let mut summaries = Vec::new();
        for dir in self.backend().teams().await.map_err(refusal::of_store)? {
            match self.backend().team(&dir).await {
                Ok(config) if config.name.dir() != dir => {
                    summaries.push(self.misplaced(dir, &config))
                }
                Ok(config) => summaries.push(self.summary(dir, &config)),
                Err(StoreError::NoTeam { .. }) => {}
                Err(error) => summaries.push(self.unreadable(dir, error)),
            }
        }
        Ok(summaries)
    }

    fn summary(&self, dir: TeamDir, config: &TeamConfig) -> TeamSummary {
        TeamSummary {
            name: config.name.to_string(),
            team_file_path: self.paths().config(&dir),
            folder: dir,
            description: config.description.clone(),
            created_at_ms: config.created_at_ms,
            members: config.members.iter().map(|m| m.name.clone()).collect(),
            problem: None,
        }
    }

    /// The list entry for a folder that contains the config of another team. No command is able to
    /// open this folder under the name in that config.
    fn misplaced(&self, dir: TeamDir, config: &TeamConfig) -> TeamSummary {
        let path = self.paths().config(&dir);
        let reason = format!(
            "it is the config of another team, whose folder is {:?}",
            config.name.dir().as_str()
        );
        self.unreadable(dir, StoreError::Corrupt { path, reason })
    }

    fn unreadable(&self, dir: TeamDir, error: StoreError) -> TeamSummary {
        TeamSummary {
            name: dir.to_string(),
            team_file_path: self.paths().config(&dir),
            folder: dir,
            description: None,
            created_at_ms: None,
            members: Vec::new(),
            problem: Some(refusal::of_store(error).message),
        }
    }

    pub(crate) async fn refuse_taken(&self, name: &TeamName) -> Result<(), ApiError> {
        match self.backend().team(&name.dir()).await {
            Ok(config) => Err(taken(name, config.name.as_str())),
            Err(StoreError::NoTeam { .. }) => Ok(()),
            Err(error) => Err(refusal::of_store(error)),
        }
    }

    async fn make(&self, create: &CreateTeam, name: TeamName) -> Result<TeamConfig, ApiError> {
        let mut config = self.new_config(create, name.clone())?;
        let documents = match &create.first_run {
            Some(FirstRun { goal, bounds }) => {
                vec![new_document(&FirstGoal { goal: goal.clone() })?, new_document(bounds)?]
            }
            None => Vec::new(),
        };
        let new = NewTeam { logs: None, documents };
        let mut number = 1;
        loop {
            match self.backend().create_team(&config, &new).await {
                Ok(()) => return Ok(config),
                Err(StoreError::TeamTaken { name: other, .. }) => {
                    if create.on_taken == OnTaken::Refuse || number >= NUMBERS_TRIED {
                        return Err(taken(&name, &other));
                    }
                }
                Err(error) => return Err(refusal::of_store(error)),
            }
            number += 1;
            // Another process may have taken the numbered name too. Only the attempt to create the
            // team shows whether a name is free.
            let numbered = format!("{name}-{number}");
            config = self.new_config(
                create,
                TeamName::new(&numbered).map_err(|e| refusal::bad_name(&numbered, &e))?,
            )?;
        }
    }

    pub(crate) fn new_config(
        &self,
        create: &CreateTeam,
        name: TeamName,
    ) -> Result<TeamConfig, ApiError> {
        let now_ms = self.now_ms();
        let lead = Member {
            agent_id: Some(AgentName::lead().id_in(&name)),
            name: AgentName::lead(),
            agent_type: Some(
                create.input.agent_type.clone().unwrap_or_else(|| LEAD_NAME.to_owned()),
            ),
            model: Some(create.model.clone()),
            prompt: None,
            color: None,
            plan_mode_required: None,
            joined_at_ms: Some(now_ms),
            tmux_pane_id: Some(String::new()),
            cwd: Some(create.cwd.clone()),
            subscriptions: Some(Vec::new()),
            backend_type: None,
            worktree_path: None,
            mode: None,
            is_active: None,
            foreign: SpawnRecord::default().into_foreign()?,
        };
        Ok(TeamConfig {
            name: name.clone(),
            description: create.input.description.clone(),
            created_at_ms: Some(now_ms),
            lead_agent_id: Some(AgentName::lead().id_in(&name)),
            lead_session_id: Some(create.session_id.clone()),
            lead_process: None,
            members: vec![lead],
            hidden_pane_ids: None,
            foreign: pitcrew_protocol::Foreign::default(),
        })
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

pub(crate) fn taken(name: &TeamName, other: &str) -> ApiError {
    let message = if name.as_str() == other {
        format!("Team '{name}' already exists")
    } else {
        format!("Team '{name}' would share the folder '{}' with team '{other}'", name.dir())
    };
    ApiError::new(ErrorCode::TeamAlreadyExists, message)
        .with("team_name", name.as_str())
        .with("existing_team", other)
}
