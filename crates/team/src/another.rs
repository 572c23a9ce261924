//! Creates a new team in place of a team that the lead deleted. The new team has the same name and
//! keeps the lead's conversation.

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, TeamCreateInput, TeamCreated};
use pitcrew_store::{ArchivedLogs, Event, LeaseName, LogName, NewTeam, StoreError};

use crate::asked::note_asked_name;
use crate::lead::Keys;
use crate::lead_signer::Trust;
use crate::teams::taken;
use crate::{CreateTeam, MadeBy, OnTaken, Team, new_name, refusal};

/// The settings of a new team that replaces a deleted team.
#[derive(Clone, Debug)]
pub struct AnotherTeam {
    /// The lead's TeamCreate input. The new team keeps the name of the deleted team. The name in
    /// this input becomes a second name, which all tools and commands accept too.
    pub input: TeamCreateInput,
    /// The lead's working folder.
    pub cwd: String,
    /// The lead's model.
    pub model: String,
    /// The lead's session id, a UUID.
    pub session_id: String,
    /// The lead's permission mode, if this mode differs from the mode that the run gave the lead.
    pub mode: Option<String>,
}

impl Team {
    /// Whether the team was deleted through this handle or a clone of the handle, and no new team
    /// has replaced the team yet.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.life.is_over()
    }

    /// Creates a new team to replace the team that was deleted through this handle. The new team
    /// has the lead as its only member and keeps the lead's conversation. From now on, this handle
    /// and its clones refer to the new team.
    ///
    /// # Errors
    /// - `invalid_request` for a bad name, or if the team was not deleted.
    /// - `team_already_exists` if another process has taken the name since the deletion.
    /// - `rate_limit` if the limit of calls or teams is reached.
    /// - `internal_error` if the store fails, or if it no longer has the archive of the deleted
    ///   team.
    pub async fn make_another(&self, another: AnotherTeam) -> Result<TeamCreated, ApiError> {
        let given = another.input.team_name.as_str();
        let asked = new_name::team(given)?;
        let Some(deleted) = self.life.deleted() else {
            return Err(refusal::invalid(format!("the team '{}' is there", self.name())));
        };
        let AnotherTeam { input, cwd, model, session_id, mode } = another;
        let (on_taken, made_by) = (OnTaken::Refuse, MadeBy::Caller);
        let create =
            CreateTeam { input, cwd, model, session_id, on_taken, made_by, first_run: None };
        self.count_call().await?;
        self.teams().may_make_one(MadeBy::Caller).await?;
        let mut config = self.teams().new_config(&create, self.name().clone())?;
        // The creation time is part of every signature. The new team gets a later creation time
        // than the deleted team, so signatures from the deleted team are not valid in the new team.
        let born_ms =
            self.now_ms().max(self.born_ms().map_or(i64::MIN, |before| before.saturating_add(1)));
        config.created_at_ms = Some(born_ms);
        note_asked_name(&mut config, &asked)?;
        self.life.begin_again(born_ms);
        let logs = ArchivedLogs {
            archive: deleted.archive.clone(),
            logs: vec![LogName::Transcript(AgentName::lead()), LogName::Output(AgentName::lead())],
        };
        let new = NewTeam { logs: Some(logs), documents: Vec::new() };
        let made = async {
            if let Some(lead) = config.member_mut(LEAD_NAME).filter(|_| mode.is_some()) {
                lead.mode = mode;
                self.sign_mode(lead, true)?;
            }
            match self.backend().create_team(&config, &new).await {
                Ok(()) => Ok(()),
                Err(StoreError::TeamTaken { name, .. }) => {
                    Err(taken_since(taken(self.name(), &name)))
                }
                Err(StoreError::NoTeam { .. }) => {
                    let archive = &deleted.archive;
                    Err(refusal::internal(format!(
                        "the lead's conversation is gone with the archive {archive}"
                    )))
                }
                Err(error) => Err(refusal::of_store(error)),
            }
        };
        if let Err(error) = made.await {
            self.life.end_again();
            return Err(error);
        }
        // The cost of the deleted team still counts towards the limit of the run, so the new
        // journal starts with that cost.
        let spent = deleted.summary.members.iter().filter(|(_, member)| !member.spent.is_empty());
        let spent = spent.map(|(name, member)| (name.clone(), member.spent.clone())).collect();
        let earlier = Event::EarlierTeams { ran_ms: deleted.summary.ran_ms(), spent };
        self.note([Event::TeamCreated { team: config.name.to_string() }, earlier]).await;
        // The model calls after the deletion cost money too.
        let mut turns = deleted.rest;
        turns.retain(|entry| matches!(entry.event, Event::TurnEnded(_)));
        self.note_entries(turns).await;
        Ok(self.created())
    }

    /// Discards the new team that this handle created. This is for a new team that no run is able
    /// to lead. If another process holds the lease of the new team's run, the team stays.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn give_up_another(&self) -> Result<(), ApiError> {
        // Another process may already lead the new team. In that case this process must not discard
        // the team.
        let led = self.ask(self.backend().lease_holder(self.dir(), &LeaseName::Run)).await;
        let discarded = match led {
            Ok(None) => self.discard().await,
            led => led.map(drop),
        };
        self.life.end_again();
        discarded
    }

    /// Records the public key of this handle's lead as the only lead key of the team. Does nothing
    /// if the lead does not sign. The caller must hold the lease of the team's run.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn keep_lead_key(&self) -> Result<(), ApiError> {
        let Trust::Signed(keys) = &self.trust else { return Ok(()) };
        let own = *keys.now();
        self.edit_document(move |kept: &mut Keys| {
            *kept = Keys::of(own);
            Ok(())
        })
        .await
    }

    pub(crate) fn created(&self) -> TeamCreated {
        TeamCreated {
            team_name: self.name().to_string(),
            team_file_path: self.file().display().to_string(),
            lead_agent_id: AgentName::lead().id_in(self.name()).to_string(),
        }
    }
}

/// The error when another process has taken the name of the deleted team since the deletion.
fn taken_since(error: ApiError) -> ApiError {
    let message = format!(
        "{}: this run keeps its teams under that name, and somebody has taken it since",
        error.message
    );
    ApiError { message, ..error }
}
