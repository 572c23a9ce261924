//! The members of a team: the fields of their records. The modules below spawn and remove members,
//! and change their modes. The crate `runtime` starts and stops the members' processes.

use pitcrew_protocol::{AgentName, ApiError, Member};
use pitcrew_store::{Event, MemberChange};

use crate::actor::{Actor, Speaker};
use crate::{Team, refusal};

mod modes;
mod new_member;
mod removal;
mod spawn;

pub use modes::ModeLowered;
pub(crate) use new_member::{check_free, next_color};
pub use removal::MemberRemoved;
pub use spawn::{Enlisted, SpawnMember};

impl Team {
    /// Records the model of a member. A later run starts the member with this model.
    ///
    /// # Errors
    /// `permission_denied` for every caller except the lead and the user, `agent_not_found`.
    pub async fn set_model(
        &self,
        actor: &Actor,
        name: &AgentName,
        model: &str,
    ) -> Result<(), ApiError> {
        Speaker::of(actor, self.config().await?.as_ref())?.must_lead("change a member's model")?;
        let model = model.to_owned();
        self.edit_member(name, move |member| {
            member.model = Some(model.clone());
            Ok(())
        })
        .await
    }

    /// Records the path of a member's git worktree. If `path` is `None`, records that the member no
    /// longer has a worktree.
    ///
    /// # Errors
    /// `agent_not_found`.
    pub async fn set_worktree(&self, name: &AgentName, path: Option<&str>) -> Result<(), ApiError> {
        let path = path.map(str::to_owned);
        self.edit_member(name, move |member| {
            member.worktree_path.clone_from(&path);
            Ok(())
        })
        .await
    }

    /// Records whether a member is in a turn now.
    ///
    /// # Errors
    /// `agent_not_found`.
    pub async fn set_active(&self, name: &AgentName, is_active: bool) -> Result<(), ApiError> {
        self.edit_member(name, move |member| {
            member.is_active = Some(is_active);
            Ok(())
        })
        .await
    }

    /// Records the place where a member runs: its pane, and the kind of the pane's host.
    ///
    /// # Errors
    /// `agent_not_found`.
    pub async fn set_place(
        &self,
        name: &AgentName,
        pane_id: &str,
        backend_type: &str,
    ) -> Result<(), ApiError> {
        let (pane, backend) = (pane_id.to_owned(), backend_type.to_owned());
        self.edit_member(name, move |member| {
            member.tmux_pane_id = Some(pane.clone());
            member.backend_type = Some(backend.clone());
            Ok(())
        })
        .await
    }

    /// Records whether a pane is hidden.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn set_hidden(&self, pane_id: &str, is_hidden: bool) -> Result<(), ApiError> {
        let pane = pane_id.to_owned();
        self.edit_config(move |config| {
            let mut hidden = config.hidden_pane_ids.take().unwrap_or_default();
            // The list must not contain a pane id twice, even if a caller hides the same pane
            // twice.
            hidden.retain(|there| *there != pane);
            if is_hidden {
                hidden.push(pane.clone());
            }
            config.hidden_pane_ids = (!hidden.is_empty()).then_some(hidden);
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn edit_member(
        &self,
        name: &AgentName,
        edit: impl Fn(&mut Member) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Result<(), ApiError> {
        let name = name.clone();
        self.edit_config(move |config| {
            let Some(member) = config.member_mut(name.as_str()) else {
                return Err(refusal::unknown_agent(config, name.as_str()));
            };
            edit(member)
        })
        .await?;
        Ok(())
    }
}

pub(crate) fn changed(member: &AgentName, state: MemberChange, detail: Option<&str>) -> Event {
    Event::MemberChanged { member: member.clone(), state, detail: detail.map(str::to_owned) }
}
