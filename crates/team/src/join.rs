//! Members that join a team by themselves. No lead spawned such a member, and another client may
//! lead the team.

use pitcrew_protocol::{AgentName, ApiError, Member};
use pitcrew_store::{MemberChange, RateScope};

use crate::actor::{is_reserved, one_form};
use crate::ended::MemberEnd;
use crate::members::{MemberRemoved, changed, check_free, next_color};
use crate::ours::SpawnRecord;
use crate::{Team, new_name, refusal};

/// The settings of a member that joins by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinMember {
    /// The wanted name. The join is refused if a member or former member has this name.
    pub name: String,
    /// The name of the agent definition that the member uses.
    pub agent_type: String,
    /// The model that the member uses.
    pub model: String,
    /// The member's working folder.
    pub cwd: String,
    /// The member's color. If it is `None`, the member gets the next color in order.
    pub color: Option<String>,
    /// The id of the pane in which the member runs, if the member runs in a pane.
    pub pane_id: Option<String>,
    /// The kind of the pane's host. If it is `None`, no kind is recorded, so that no lead mistakes
    /// the pane for one of the lead's own panes.
    pub backend_type: Option<String>,
}

impl Team {
    /// Records a member that joins by itself.
    ///
    /// # Errors
    /// `invalid_request` for a bad or reserved name; `agent_already_exists` if a member or former
    /// member has the same name or the same inbox file; `rate_limit`.
    pub async fn join(&self, join: JoinMember) -> Result<Member, ApiError> {
        let name = new_name::agent(&join.name)?;
        if is_reserved(&name) {
            return Err(refusal::invalid(format!("'{name}' is a reserved name"))
                .with("name", name.as_str()));
        }
        let ended: Vec<AgentName> =
            self.ended().await?.members.into_iter().map(|m| m.name).collect();
        check_free(self.config().await?.as_ref(), &ended, &name)?;
        self.count_call().await?;
        self.take_slot(RateScope::Spawns(self.dir().clone())).await?;
        // The token distinguishes this join from other joins with the same name. If the store calls
        // the edit again, the token shows that the member is from this join.
        let token = self.teams().entropy().token()?;
        let record = SpawnRecord { call: Some(token), ..SpawnRecord::default() };
        let (limit, now_ms, wanted) = (self.limits().agents, self.now_ms(), name.clone());
        let config = self
            .edit_config(move |config| {
                // The store calls the edit again after a conflict. The first call may already have
                // added the member.
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

    /// Removes a member from the team at the member's own request. Its tasks become free, and its
    /// unread mail is recorded as not delivered.
    /// This function also works if another program has already removed the member from the config.
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
