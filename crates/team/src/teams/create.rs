//! Creating a team: the free name, the limits and the first config.

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, LEAD_NAME, Member, TeamConfig, TeamCreateInput, TeamCreated,
    TeamName,
};
use pitcrew_store::{Event, NewTeam, RateScope, StoreError};

use super::Teams;
use crate::bounds::{FirstGoal, RunBounds};
use crate::document::new_document;
use crate::ours::SpawnRecord;
use crate::{Team, new_name, refusal};

/// If the name of a new team is taken, pitcrew tries the name with a number at its end. This is the
/// highest number that it tries. A store has far fewer teams.
const NUMBERS_TRIED: u32 = 10_000;

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

impl Teams {
    /// Creates a team with its lead as the only member.
    ///
    /// # Errors
    /// `invalid_request` for a bad name, `team_already_exists`, `rate_limit`.
    pub async fn create(&self, create: CreateTeam) -> Result<(Team, TeamCreated), ApiError> {
        let given = create.input.team_name.as_str();
        let name = new_name::team(given)?;
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
