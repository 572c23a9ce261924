//! Members: how they join, change and leave. Starting and stopping what they run is `runtime`'s.

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

/// What a new teammate is recorded with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnMember {
    /// The name it is to have; when that is taken it gets the next number.
    pub name: String,
    /// The agent definition it runs.
    pub agent_type: String,
    /// Its model.
    pub model: String,
    /// What it is to do.
    pub prompt: String,
    /// Whether it must have a plan approved first.
    pub plan_mode_required: bool,
    /// Its working folder.
    pub cwd: String,
    /// The permission mode it starts in.
    pub mode: Option<String>,
    /// What runs it; `in-process` when absent.
    pub backend_type: Option<String>,
    /// What program that is.
    pub program: Program,
    /// The model calls it may make, beside what its run says.
    pub max_turns: Option<u32>,
    /// Its git worktree, when it has one of its own.
    pub worktree_path: Option<String>,
    /// The call that spawns it; a second spawn by the same call answers with the first one's member.
    pub call: Option<String>,
}

/// What the end of a member left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberRemoved {
    /// Its tasks that were not completed; they are pending again, without owner.
    pub released: Vec<TaskId>,
    /// Its unread messages; they are dead, and the members who sent them are told.
    pub dead: Vec<MessageId>,
}

/// A mode that a member loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeLowered {
    /// The mode that it had, or would have had after its plan.
    pub before: String,
    /// The mode in its place.
    pub now: String,
}

/// A member that is in the config.
#[derive(Clone, Debug, PartialEq)]
pub enum Enlisted {
    /// It was put there now, and the journal does not know of it yet: see [`Team::note_spawned`].
    New(Member),
    /// An earlier try of the same call put it there.
    Before(Member),
}

impl Team {
    /// Records a new teammate.
    ///
    /// # Errors
    /// `invalid_request` for a bad name, `agent_already_exists` for a name that shares an inbox with another, `rate_limit`.
    pub async fn spawn(&self, spawn: SpawnMember) -> Result<Member, ApiError> {
        match self.enlist(spawn).await? {
            Enlisted::New(member) => {
                self.note_spawned(&member.name).await;
                Ok(member)
            }
            Enlisted::Before(member) => Ok(member),
        }
    }

    /// Notes in the journal that a teammate was recorded.
    pub async fn note_spawned(&self, name: &AgentName) {
        self.note([changed(name, MemberChange::Spawned, None)]).await;
    }

    /// Records a new teammate, but not in the journal: whoever starts it at once notes that beside its start.
    ///
    /// # Errors
    /// As [`Team::spawn`].
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
        let member = spawned_by(&config, Some(&token)).cloned();
        member
            .map(Enlisted::New)
            .ok_or_else(|| refusal::internal("the new member did not stay in the config"))
    }

    /// Takes a teammate out of the team: its tasks go back to the pool, its unread mail is dead and the senders are told.
    ///
    /// # Errors
    /// `permission_denied` for everybody but the lead and the user, and for the lead itself; `agent_not_found`.
    pub async fn remove_member(
        &self,
        actor: &Actor,
        name: &AgentName,
    ) -> Result<MemberRemoved, ApiError> {
        self.remove_ended(actor, name, MemberEnd::Left).await
    }

    /// The same for a member whose end is known: whoever writes to it learns of that end.
    ///
    /// # Errors
    /// As [`Team::remove_member`].
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
        self.note_ended(&name, end).await?;
        self.settle_end(&name).await
    }

    /// Finishes every removal that a crash cut off.
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

    /// Changes the permission mode of a member. Where the lead signs, only its own handle can make a member freer: any
    /// other may set `plan` and nothing else.
    ///
    /// # Errors
    /// `permission_denied` for everybody but the lead and the user, `invalid_request` for an unknown mode, `agent_not_found`.
    pub async fn set_mode(
        &self,
        actor: &Actor,
        name: &AgentName,
        mode: &str,
    ) -> Result<(), ApiError> {
        Speaker::of(actor, self.config().await?.as_ref())?.must_lead("change a member's mode")?;
        check_mode(mode)?;
        if mode != LEAST_FREE {
            self.may_command().await?;
        }
        self.record_mode(&self.member(name.as_str()).await?.name, mode).await
    }

    /// Makes the mode in an approval of the lead's the member's own. Where the lead signs, it has recorded that itself.
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

    /// Puts a less free mode in the place of those that a member's record says: the one it works in, and the one it was
    /// spawned in, which the approval of its plan would bring back. `lowered` names the other mode of a mode that is too free.
    /// A record that nobody vouches for stays as it is: it frees nobody.
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

    /// Records the git worktree of a member, or that it has none any more.
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

    /// Records whether a member is in a turn.
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

    /// Records where a member runs: its pane, and what keeps that pane.
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

    /// Records whether a pane is out of sight.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn set_hidden(&self, pane_id: &str, is_hidden: bool) -> Result<(), ApiError> {
        let pane = pane_id.to_owned();
        self.edit_config(move |config| {
            let mut hidden = config.hidden_pane_ids.take().unwrap_or_default();
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

    /// Does all that follows from a member's end, in an order in which it can be done again: out of the config first, so
    /// that nobody gives it a task or a message that is not seen here.
    pub(crate) async fn settle_end(&self, name: &AgentName) -> Result<MemberRemoved, ApiError> {
        let config = self.config().await?;
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
            // A prompt that was never taken is no message to its lead, which hears of the launch itself.
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

    /// Tells the sender of a dead message, if it is a member, that it was not delivered.
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

/// The member as the recordings have it. Its name was nobody's before: not a member's now, and not one's that ended, whose
/// conversation and mail it would take over.
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

/// Refuses a name that is, or shares an inbox with, a member's or one's that ended.
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

/// The color after the youngest teammate's.
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
    let message = format!("there is no permission mode '{mode}'; there are: {}", modes.join(", "));
    Err(refusal::invalid(message).with("mode", mode).with("valid_modes", modes.to_vec()))
}

pub(crate) fn changed(member: &AgentName, state: MemberChange, detail: Option<&str>) -> Event {
    Event::MemberChanged { member: member.clone(), state, detail: detail.map(str::to_owned) }
}
