//! Spawning a member: the checks and limits of a spawn call, and its entry in config and journal.

use futures_util::future::join;
use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, Member, Program};
use pitcrew_store::{MemberChange, RateScope};

use super::changed;
use super::modes::check_mode;
use super::new_member::{new_member, spawned_by};
use crate::actor::{is_reserved, one_form};
use crate::ours::SpawnRecord;
use crate::{Team, new_name, refusal};

/// The settings of a new teammate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnMember {
    /// The wanted name. If the name is already used, the member gets this name with a number at the
    /// end.
    pub name: String,
    /// The name of the agent definition that the teammate uses.
    pub agent_type: String,
    /// The model that the teammate uses.
    pub model: String,
    /// The teammate's first assignment, as a prompt.
    pub prompt: String,
    /// Whether the teammate must have an approved plan before it is allowed to change anything.
    pub plan_mode_required: bool,
    /// The teammate's working folder.
    pub cwd: String,
    /// The permission mode in which the teammate starts.
    pub mode: Option<String>,
    /// The kind of place where the teammate runs, as in the config field `backendType`. If it is
    /// `None`, the place is `in-process`.
    pub backend_type: Option<String>,
    /// The program that runs the teammate.
    pub program: Program,
    /// The maximum number of the teammate's model calls. If the run also limits the model calls of
    /// a member, the smaller number counts.
    pub max_turns: Option<u32>,
    /// The path of the teammate's own git worktree, if the teammate has a worktree.
    pub worktree_path: Option<String>,
    /// The id of the tool call that spawns the teammate. A second spawn with the same id returns
    /// the member that the first spawn added.
    pub call: Option<String>,
}

/// The member that a spawn call recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Enlisted {
    /// The call has just added the member. The journal does not record the new member yet; see
    /// [`Team::note_spawned`].
    New(Member),
    /// An earlier attempt of the same call had already added the member.
    Before(Member),
}

impl Team {
    /// Adds a new teammate to the config and the journal.
    ///
    /// # Errors
    /// `invalid_request` for a bad name, `agent_already_exists` for a name that would share an
    /// inbox with another name, `rate_limit` if a limit is reached.
    pub async fn spawn(&self, spawn: SpawnMember) -> Result<Member, ApiError> {
        match self.enlist(spawn).await? {
            Enlisted::New(member) => {
                self.note_spawned(&member.name, LEAD_NAME).await;
                Ok(member)
            }
            Enlisted::Before(member) => Ok(member),
        }
    }

    /// Records in the journal that a teammate was spawned. `by` is the name of the agent or user that
    /// spawned the teammate.
    pub async fn note_spawned(&self, name: &AgentName, by: &str) {
        self.note([changed(name, MemberChange::Spawned, Some(by))]).await;
    }

    /// Adds a new teammate to the config, but not to the journal. This is for a caller that starts
    /// the teammate at once and records the spawn and the start together.
    ///
    /// # Errors
    /// The errors of [`Team::spawn`].
    pub async fn enlist(&self, spawn: SpawnMember) -> Result<Enlisted, ApiError> {
        let name = new_name::agent(&spawn.name)?;
        if is_reserved(&name) && !one_form(&name, &AgentName::lead()) {
            return Err(refusal::invalid(format!("'{name}' is a reserved name"))
                .with("name", name.as_str()));
        }
        if let Some(mode) = &spawn.mode {
            check_mode(mode)?;
        }
        let (config, ended) = join(self.config(), self.ended_members()).await;
        let (config, ended) = (config?, ended?);
        // A repeated call must not count against the limits again.
        if let Some(there) = spawned_by(&config, spawn.call.as_deref()) {
            return Ok(Enlisted::Before(there.clone()));
        }
        self.count_call().await?;
        refusal::check_count("agents", self.limits().agents, config.members.len())?;
        self.take_slot(RateScope::Spawns(self.dir().clone())).await?;
        let call = match &spawn.call {
            Some(call) => call.clone(),
            None => self.teams().entropy().token()?,
        };
        let (limit, now_ms, token) = (self.limits().agents, self.now_ms(), call.clone());
        let record = SpawnRecord {
            call: Some(call),
            mode: spawn.mode.clone(),
            program: spawn.program,
            max_turns: spawn.max_turns,
        };
        let signer = self.clone();
        let config = self
            .edit_config(move |config| {
                if spawned_by(config, record.call.as_deref()).is_none() {
                    refusal::check_count("agents", limit, config.members.len())?;
                    let mut member = new_member(config, &ended, &name, &spawn, &record, now_ms)?;
                    signer.sign_mode(&mut member, true)?;
                    config.members.push(member);
                }
                Ok(())
            })
            .await?;
        // The member's name may have got a number. Find the new member by the id of its call, not
        // by its name.
        let member = spawned_by(&config, Some(&token)).cloned();
        member
            .map(Enlisted::New)
            .ok_or_else(|| refusal::internal("the new member did not stay in the config"))
    }
}
