//! The members of a team: spawning, changing and removing them. The crate `runtime` starts and
//! stops the members' processes.

use futures_util::future::join;
use pitcrew_protocol::{
    AgentName, ApiError, BACKEND_IN_PROCESS, Color, ErrorCode, LEAD_NAME, Member, MessageId,
    PermissionMode, Program, TaskId, TeamConfig,
};
use pitcrew_store::{Event, MemberChange, RateScope, UnreadLimit};
use serde::Serialize;

use crate::actor::{Actor, SYSTEM, Speaker, is_reserved, one_form};
use crate::delivery::{OutgoingMessage, is_no_member, is_undeliverable};
use crate::ended::MemberEnd;
use crate::entropy::made_id;
use crate::lead_signer::Trust;
use crate::mode_record::LEAST_FREE;
use crate::ours::SpawnRecord;
use crate::{Team, named, refusal};

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

/// The tasks and messages that a removed member left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberRemoved {
    /// The member's tasks that were not completed. These tasks are pending again and have no owner.
    pub released: Vec<TaskId>,
    /// The member's unread messages. These messages will not be delivered, and the members who sent
    /// them are informed.
    pub dead: Vec<MessageId>,
}

/// A permission mode that was replaced by a stricter mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeLowered {
    /// The mode that was not strict enough. This is the member's current mode, if that mode was not
    /// strict enough. Otherwise it is the mode in which the member was spawned. The approval of a
    /// plan can restore the mode from the spawn.
    pub before: String,
    /// The stricter mode that replaces the old mode.
    pub now: String,
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
        let name = AgentName::new(&spawn.name).map_err(|e| refusal::bad_name(&spawn.name, &e))?;
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

    /// Removes a teammate from the team. The teammate's tasks lose their owner. The teammate's
    /// unread mail will not be delivered, and the senders of this mail are informed.
    ///
    /// # Errors
    /// `permission_denied` for every caller except the lead and the user, and for removing the
    /// lead; `agent_not_found`.
    pub async fn remove_member(
        &self,
        actor: &Actor,
        name: &AgentName,
    ) -> Result<MemberRemoved, ApiError> {
        self.remove_ended(actor, name, MemberEnd::Left).await
    }

    /// Removes a member like [`Team::remove_member`], and records how the member ended. An agent
    /// that later sends a message to this member learns from the error how the member ended.
    ///
    /// # Errors
    /// The errors of [`Team::remove_member`].
    pub async fn remove_ended(
        &self,
        actor: &Actor,
        name: &AgentName,
        end: MemberEnd,
    ) -> Result<MemberRemoved, ApiError> {
        let config = self.config().await?;
        Speaker::of(actor, &config)?.must_lead("remove a member")?;
        let name = named::bare_name(name.as_str(), &config);
        let name = match config.member(name) {
            Some(member) => member.name.clone(),
            None => match self.ended().await?.member(name) {
                Some(ended) if !ended.settled => ended.name.clone(),
                Some(_) | None => return Err(refusal::unknown_agent(&config, name)),
            },
        };
        if name.as_str() == LEAD_NAME {
            return Err(refusal::denied("the lead cannot be removed; delete the team instead"));
        }
        self.count_call().await?;
        // Record the end before any other change. After a crash, `finish_removals` repeats the
        // remaining steps.
        self.note_ended(&name, end).await?;
        self.settle_end(&name).await
    }

    /// Finishes every removal that a crash interrupted.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn finish_removals(&self) -> Result<Vec<(AgentName, MemberRemoved)>, ApiError> {
        let mut finished = Vec::new();
        for ended in self.ended().await?.members {
            if !ended.settled {
                let removed = self.settle_end(&ended.name).await?;
                finished.push((ended.name, removed));
            }
        }
        Ok(finished)
    }

    /// Changes the permission mode of a member. In a team whose lead signs, only the lead's own
    /// handle is able to set every mode. All other handles are able to set only `plan`, the
    /// strictest mode.
    ///
    /// # Errors
    /// `permission_denied` for every caller except the lead and the user, `invalid_request` for an
    /// unknown mode, `agent_not_found`.
    pub async fn set_mode(
        &self,
        actor: &Actor,
        name: &AgentName,
        mode: &str,
    ) -> Result<(), ApiError> {
        Speaker::of(actor, self.config().await?.as_ref())?.must_lead("change a member's mode")?;
        check_mode(mode)?;
        // Every handle is allowed to set the strictest mode. Any other mode needs the lead's
        // signature.
        if mode != LEAST_FREE {
            self.may_command().await?;
        }
        self.record_mode(&self.member(name.as_str()).await?.name, mode).await
    }

    /// Records the mode from a plan approval as the member's own mode. In a team whose lead signs,
    /// only the lead's own handle changes the record, and only if the signed record does not have
    /// this mode yet. All other handles change nothing.
    ///
    /// # Errors
    /// `agent_not_found`, `invalid_request` for an unknown mode.
    pub async fn adopt_mode(&self, name: &AgentName, mode: &str) -> Result<(), ApiError> {
        check_mode(mode)?;
        match (&self.trust, &self.signer) {
            (Trust::Founding, _) => self.record_mode(name, mode).await,
            (Trust::Signed(_), None) => Ok(()),
            (Trust::Signed(_), Some(_)) => {
                let member = self.member(name.as_str()).await?;
                if member.mode.as_deref() == Some(mode) && self.vouches_for_mode(&member) {
                    return Ok(());
                }
                self.record_mode(name, mode).await
            }
        }
    }

    /// Replaces the modes in a member's record by stricter modes. A record has two modes: the
    /// current mode, and the mode from the spawn, in which the member works again after its plan is
    /// approved. If a mode is not strict enough, `lowered` returns the stricter mode. A record
    /// without a valid signature stays unchanged, because members ignore such a record.
    ///
    /// # Errors
    /// `agent_not_found`.
    pub async fn lower_mode(
        &self,
        name: &AgentName,
        lowered: impl Fn(&str) -> Option<&'static str> + Clone + Send + Sync + 'static,
    ) -> Result<Option<ModeLowered>, ApiError> {
        let member = self.member(name.as_str()).await?;
        let Some(change) = self.mode_lowered(&member, lowered.clone()) else { return Ok(None) };
        let signer = self.clone();
        self.edit_member(name, move |member| signer.put_lowered_mode(member, lowered.clone()))
            .await?;
        self.note([changed(name, MemberChange::Mode, Some(&change.now))]).await;
        Ok(Some(change))
    }

    pub(crate) async fn record_mode(&self, name: &AgentName, mode: &str) -> Result<(), ApiError> {
        let (new, signer) = (mode.to_owned(), self.clone());
        self.edit_member(name, move |member| {
            let is_vouched_for = signer.vouches_for_mode(member);
            member.mode = Some(new.clone());
            signer.sign_mode(member, is_vouched_for)
        })
        .await?;
        self.note([changed(name, MemberChange::Mode, Some(mode))]).await;
        Ok(())
    }

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

    /// Removes an ended member from the config, releases its tasks and withdraws its unread mail.
    /// After a crash, the caller can repeat this function. The member leaves the config first.
    /// Otherwise the member could get a new task or message after its tasks and mail were already
    /// handled.
    pub(crate) async fn settle_end(&self, name: &AgentName) -> Result<MemberRemoved, ApiError> {
        let config = self.config().await?;
        // The prompt must be read now, because the next edit removes the member from the config.
        let prompt = config.member(name.as_str()).and_then(|member| member.prompt.clone());
        if config.member(name.as_str()).is_none_or(|member| !SpawnRecord::is_run_by_us(member)) {
            self.note_taken(name).await?;
        }
        let gone = name.clone();
        self.edit_config(move |config| {
            config.members.retain(|m| m.name != gone);
            Ok(())
        })
        .await?;
        let released = self.release_tasks(name).await?;
        self.void_requests(name).await?;
        let unread = self.ask(self.backend().inbox(self.dir(), &name.inbox_file())).await?;
        let unread: Vec<_> =
            unread.into_iter().filter(|stored| !stored.message.is_read()).collect();
        let end = self.end_of(name).await;
        for stored in &unread {
            // If the unread message is the spawn prompt, the lead is not told that this message is
            // dead. The lead learns the result of the launch directly.
            let is_prompt =
                stored.message.from == LEAD_NAME && Some(&stored.message.text) == prompt.as_ref();
            if !is_prompt && pitcrew_protocol::Frame::detect(&stored.message.text).is_none() {
                self.tell_sender(name, &stored.id, &stored.message.from, &is_no_member(name, end))
                    .await?;
            }
        }
        let dead: Vec<MessageId> = unread.into_iter().map(|stored| stored.id).collect();
        if !dead.is_empty() {
            self.bury(name, &dead, name).await?;
        }
        self.note_settled(name).await?;
        self.note([changed(name, MemberChange::Removed, None)]).await;
        Ok(MemberRemoved { released, dead })
    }

    /// If the sender of a dead message is a member, tells the sender that the message is dead.
    pub(crate) async fn tell_sender(
        &self,
        gone: &AgentName,
        id: &MessageId,
        sender: &str,
        why: &str,
    ) -> Result<(), ApiError> {
        let config = self.config().await?;
        let Some(sender) = config.member(sender) else { return Ok(()) };
        let letter = OutgoingMessage {
            // The id of this notice is computed only from the dead message. If the removal is
            // repeated, the notice has the same id, so the sender is informed only once.
            id: made_id(&[self.dir().as_str(), "dead", &id.0]),
            from: SYSTEM.to_owned(),
            color: None,
            to: sender.name.clone(),
            text: format!("Your message {id} to {gone} was not delivered: {why}."),
            summary: Some(format!("Not delivered: {why}")),
            limit: UnreadLimit::None,
        };
        match self.deliver(letter).await {
            Err(error) if !is_undeliverable(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn spawned_by<'a>(config: &'a TeamConfig, call: Option<&str>) -> Option<&'a Member> {
    let call = call?;
    config
        .members
        .iter()
        .find(|m| SpawnRecord::of(m).is_some_and(|record| record.call.as_deref() == Some(call)))
}

/// Builds a member with the fields that the recordings of the reference client have. The new name
/// differs from the names of all members and former members. A member with a former member's name
/// would take over that member's conversation and mail.
fn new_member(
    config: &TeamConfig,
    ended: &[AgentName],
    asked: &AgentName,
    spawn: &SpawnMember,
    record: &SpawnRecord,
    now_ms: i64,
) -> Result<Member, ApiError> {
    let known = || config.members.iter().map(|m| &m.name).chain(ended);
    let name = asked.deduplicated(|name| {
        known().any(|k| k.as_str().to_lowercase() == name.as_str().to_lowercase())
    });
    check_free(config, ended, &name)?;
    let backend = spawn.backend_type.clone().unwrap_or_else(|| BACKEND_IN_PROCESS.to_owned());
    // In the recordings of the reference client, an in-process member has the word `in-process`
    // instead of a pane id.
    let pane = if backend == BACKEND_IN_PROCESS { BACKEND_IN_PROCESS } else { "" };
    Ok(Member {
        agent_id: Some(name.id_in(&config.name)),
        name,
        agent_type: Some(spawn.agent_type.clone()),
        model: Some(spawn.model.clone()),
        prompt: Some(spawn.prompt.clone()),
        color: Some(next_color(config).as_str().to_owned()),
        plan_mode_required: Some(spawn.plan_mode_required),
        joined_at_ms: Some(now_ms),
        tmux_pane_id: Some(pane.to_owned()),
        cwd: Some(spawn.cwd.clone()),
        subscriptions: Some(Vec::new()),
        backend_type: Some(backend),
        worktree_path: spawn.worktree_path.clone(),
        mode: None,
        is_active: None,
        foreign: record.clone().into_foreign()?,
    })
}

/// Refuses `name` if a member or former member has the same name or the same inbox.
pub(crate) fn check_free(
    config: &TeamConfig,
    ended: &[AgentName],
    name: &AgentName,
) -> Result<(), ApiError> {
    let Some(other) =
        config.members.iter().map(|m| &m.name).chain(ended).find(|known| one_form(known, name))
    else {
        return Ok(());
    };
    let message = if other == name {
        format!("Agent '{name}' is, or was, in team '{}'", config.name)
    } else {
        format!("Agent '{name}' would share the inbox '{}' with '{other}'", name.inbox_file())
    };
    Err(ApiError::new(ErrorCode::AgentAlreadyExists, message)
        .with("name", name.as_str())
        .with("existing_agent", other.as_str()))
}

/// Returns the color that follows the color of the newest teammate.
pub(crate) fn next_color(config: &TeamConfig) -> Color {
    let last = config.teammates().filter_map(|m| m.color.as_deref()).last();
    let place = last.and_then(|last| Color::ALL.iter().position(|color| color.as_str() == last));
    Color::of_teammate(place.map_or(0, |place| place + 1))
}

fn check_mode(mode: &str) -> Result<(), ApiError> {
    if PermissionMode::named(mode).is_some() {
        return Ok(());
    }
    let modes = PermissionMode::ALL.map(PermissionMode::as_str);
    let message = format!(
        "there is no permission mode '{}'; there are: {}",
        mode.escape_debug(),
        modes.join(", ")
    );
    Err(refusal::invalid(message).with("mode", mode).with("valid_modes", modes.to_vec()))
}

pub(crate) fn changed(member: &AgentName, state: MemberChange, detail: Option<&str>) -> Event {
    Event::MemberChanged { member: member.clone(), state, detail: detail.map(str::to_owned) }
}
