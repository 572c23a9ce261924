//! Joining by one's own wish: a member that no lead has spawned, in a team that another client may lead.

use pitcrew_protocol::{AgentName, ApiError, Member};
use pitcrew_store::{MemberChange, RateScope};

use crate::actor::{is_reserved, one_form};
use crate::ended::MemberEnd;
use crate::members::{MemberRemoved, changed, check_free, next_color};
use crate::ours::SpawnRecord;
use crate::{Team, refusal};

/// What a member that joins is recorded with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinMember {
    /// The name it is to have; a taken one is refused.
    pub name: String,
    /// The agent definition it runs.
    pub agent_type: String,
    /// Its model.
    pub model: String,
    /// Its working folder.
    pub cwd: String,
    /// Its color; the next one in turn when absent.
    pub color: Option<String>,
    /// Its pane; none when absent.
    pub pane_id: Option<String>,
    /// What keeps that pane; not said when absent, so that no lead takes it for one of its own.
    pub backend_type: Option<String>,
}

impl Team {
    /// Records a member that joins by its own wish.
    ///
    /// # Errors
    /// `invalid_request` for a bad or reserved name, `agent_already_exists` for one that is, or shares an inbox with, a
    /// member's or one's that ended, `rate_limit`.
    pub async fn join(&self, join: JoinMember) -> Result<Member, ApiError> {
        let name = AgentName::new(&join.name).map_err(|e| refusal::bad_name(&join.name, &e))?;
        if is_reserved(&name) {
            return Err(refusal::invalid(format!("'{name}' is a reserved name"))
                .with("name", name.as_str()));
        }
        let ended: Vec<AgentName> =
            self.ended().await?.members.into_iter().map(|m| m.name).collect();
        check_free(self.config().await?.as_ref(), &ended, &name)?;
        self.count_call().await?;
        self.take_slot(RateScope::Spawns(self.dir().clone())).await?;
        // Tells this joining from another one of the same name, also when the edit is made again.
        let token = self.teams().entropy().token()?;
        let record = SpawnRecord { call: Some(token), ..SpawnRecord::default() };
        let (limit, now_ms, wanted) = (self.limits().agents, self.now_ms(), name.clone());
        let config = self
            .edit_config(move |config| {
                if config.member(wanted.as_str()).and_then(SpawnRecord::of).as_ref()
                    == Some(&record)
                {
                    return Ok(());
                }
                check_free(config, &ended, &wanted)?;
                refusal::check_count("agents", limit, config.members.len())?;
                let color =
                    join.color.clone().unwrap_or_else(|| next_color(config).as_str().to_owned());
                config.members.push(Member {
                    agent_id: Some(wanted.id_in(&config.name)),
                    name: wanted.clone(),
                    agent_type: Some(join.agent_type.clone()),
                    model: Some(join.model.clone()),
                    prompt: None,
                    color: Some(color),
                    plan_mode_required: Some(false),
                    joined_at_ms: Some(now_ms),
                    tmux_pane_id: Some(join.pane_id.clone().unwrap_or_default()),
                    cwd: Some(join.cwd.clone()),
                    subscriptions: Some(Vec::new()),
                    backend_type: join.backend_type.clone(),
                    worktree_path: None,
                    mode: None,
                    is_active: None,
                    foreign: record.clone().into_foreign()?,
                });
                Ok(())
            })
            .await?;
        let member = config.member(name.as_str()).cloned();
        let member =
            member.ok_or_else(|| refusal::internal("the new member did not stay in the config"))?;
        self.note([changed(&member.name, MemberChange::Joined, None)]).await;
        Ok(member)
    }

    /// Takes a member out of the team by its own wish, with all that follows; also one that somebody else has taken out of
    /// the config already.
    ///
    /// # Errors
    /// `permission_denied` for the lead; `internal_error` when the store fails.
    pub async fn leave(&self, name: &AgentName) -> Result<MemberRemoved, ApiError> {
        if one_form(name, &AgentName::lead()) {
            return Err(refusal::denied("the lead cannot leave its team; delete the team instead"));
        }
        self.note_ended(name, MemberEnd::Left).await?;
        self.settle_end(name).await
    }
}
