//! What the lead's own tools ask for: a team, teammates, subagents, and their end.

use std::path::PathBuf;

use pitcrew_protocol::{
    ApiError, BACKEND_IN_PROCESS, ErrorCode, Injected, LEAD_NAME, Member, PermissionMode, Program,
    SpawnInput, Spawned, Status, TeamCreateInput, TeamDeleteInput, TeamDeleted, chain, counted,
    render,
};
use pitcrew_team::{Actor, Enlisted, KnownMode, SpawnMember};
use tokio::sync::oneshot;

use super::agent_handle::AgentHandle;
use super::agent_spec::AgentSpec;
use super::ends::Answers;
use super::remote::Launching;
use super::run_machine::RunInput;
use super::start::TeamCreateState;
use super::subagents::{INHERIT, Sending, SubagentAnswer, launched, no_price, unusable};
use super::team_loop::{AgentKind, RunningAgent, TeamLoop};
use super::wake::{LeadRequest, Request};
use crate::agent::Role;
use crate::definitions::{AgentDefinition, UnknownAgentType};
use crate::events::{AgentStarted, RunEvent};
use crate::gate::DEFAULT_TYPE;
use crate::run::KeptWorktree;
use crate::team_tools::{answer, refusal};
use crate::tools::ToolOutcome;

impl TeamLoop {
    pub(super) async fn requested(&mut self, request: Request) -> Vec<RunInput> {
        let Request { lead_request, answer: reply } = request;
        let mut reply = Some(reply);
        let (outcome, inputs) = match lead_request {
            LeadRequest::TeamCreate(input) => (self.adopt(&input).await, Vec::new()),
            LeadRequest::TeamDelete(input) => (self.delete(&input).await, Vec::new()),
            LeadRequest::Stop { name } => (self.stop_teammate(&name).await, Vec::new()),
            LeadRequest::SendOut(sending) => match self.send_out(*sending, &mut reply).await {
                Ok(()) => return Vec::new(),
                Err(outcome) => (outcome, Vec::new()),
            },
            LeadRequest::Spawn { input, call } => {
                match self.spawn(&input, call, &mut reply).await {
                    Ok((outcome, inputs)) => (outcome, inputs),
                    Err(outcome) => (outcome, Vec::new()),
                }
            }
        };
        if let Some(reply) = reply {
            // The only error is that the call is not waited for any more.
            let _not_waited_for = reply.send(outcome);
        }
        inputs
    }

    /// The run made its team at the start; the lead's first TeamCreate makes it its own, with what it asks for. After it has
    /// deleted that one it makes another.
    async fn adopt(&mut self, input: &TeamCreateInput) -> ToolOutcome {
        let team = &self.run_context.team;
        match self.team_create {
            TeamCreateState::NotYet => match team.taken_over_by_lead(input).await {
                Ok(created) => {
                    self.team_create = TeamCreateState::Yes;
                    answer(&created.into())
                }
                Err(error) => refusal(&error),
            },
            TeamCreateState::Yes => ToolOutcome::failed(format!(
                "Already leading team \"{}\". Use TeamDelete first.",
                team.name()
            )),
            TeamCreateState::Deleted => self.make_another_team(input).await,
        }
    }

    async fn delete(&mut self, input: &TeamDeleteInput) -> ToolOutcome {
        if let Some(asked) = input.team_name.as_deref()
            && self.team_create != TeamCreateState::Deleted
            && !self.run_context.team.is_called(asked).await
        {
            return not_yours(self.run_context.team.name().as_str(), asked);
        }
        if self.team_create != TeamCreateState::Deleted
            && self.machine.mates() == 0
            && let Some(reminded) = self.reminded_at_deletion().await
        {
            return reminded;
        }
        let before = std::mem::replace(&mut self.team_create, TeamCreateState::Deleted);
        let deleted = match before {
            TeamCreateState::Deleted => {
                return answer(&TeamDeleted::nothing().into());
            }
            TeamCreateState::NotYet | TeamCreateState::Yes => {
                self.run_context.team.delete(&Actor::Lead).await
            }
        };
        if deleted.as_ref().is_ok_and(|deleted| deleted.success) {
            self.let_go_of_team();
        } else {
            self.team_create = before;
        }
        match deleted {
            Ok(deleted) if deleted.success => {
                answer(&deleted.keeping(&self.kept_worktrees()).into())
            }
            Ok(deleted) => answer(&deleted.into()),
            Err(error) => refusal(&error),
        }
    }

    /// The worktrees of this run that hold something of their own, for the lead.
    fn kept_worktrees(&self) -> Vec<String> {
        let kept = self.kept.iter().map(|KeptWorktree { agent, path, branch, reason }| {
            format!("the worktree of {agent}, {} (branch {branch}): {reason}", path.display())
        });
        kept.collect()
    }

    async fn stop_teammate(&mut self, id: &str) -> ToolOutcome {
        let wanted = self.run_context.team.bare_name(id).await.to_lowercase();
        let found = self.agents.iter().find(|(name, running)| {
            !matches!(running.part, AgentKind::Lead) && name.as_str().to_lowercase() == wanted
        });
        match found {
            Some((name, running)) => {
                running.body.end("the lead stopped it");
                let what = if let AgentKind::SubagentRun(_) = running.part {
                    "subagent"
                } else {
                    "teammate"
                };
                ToolOutcome::done(
                    format!("Stopped {what} {name}."),
                    serde_json::json!({"task_id": id}),
                )
            }
            None => ToolOutcome::refused(format_args!(
                "No command or subagent in the background and no teammate is called {id}"
            )),
        }
    }

    pub(super) async fn spawn(
        &mut self,
        input: &SpawnInput,
        call: String,
        reply: &mut Option<oneshot::Sender<ToolOutcome>>,
    ) -> Result<(ToolOutcome, Vec<RunInput>), ToolOutcome> {
        self.may_spawn()?;
        let team = self.run_context.team.clone();
        if let Some(asked) = input.team_name.as_deref()
            && !team.is_called(asked).await
        {
            return Err(not_yours(team.name().as_str(), asked));
        }
        let spawn = self.record_of(input, call)?;
        match team.enlist(spawn).await.map_err(|error| refusal(&error))? {
            Enlisted::New(member) => {
                let name = member.name.clone();
                let ((), settled) =
                    tokio::join!(team.note_spawned(&name), self.settle_in(input, member, reply));
                settled
            }
            Enlisted::Before(member) => self.settle_in(input, member, reply).await,
        }
    }

    /// Has a member start to work, unless it does.
    async fn settle_in(
        &mut self,
        input: &SpawnInput,
        mut member: Member,
        reply: &mut Option<oneshot::Sender<ToolOutcome>>,
    ) -> Result<(ToolOutcome, Vec<RunInput>), ToolOutcome> {
        let spawned = spawned(&member, self.run_context.team.name().as_str(), input);
        if self.agents.contains_key(&member.name) {
            return Ok((answer(&spawned.into()), Vec::new()));
        }
        if input.isolation.as_deref() == Some("worktree") && member.worktree_path.is_none() {
            self.isolate(&mut member).await?;
        }
        if member.backend_type.as_deref().is_some_and(|backend| backend != BACKEND_IN_PROCESS) {
            return self.spawn_elsewhere(&member, spawned, reply).await;
        }
        let prompt = render(&[Injected {
            from: LEAD_NAME.to_owned(),
            color: None,
            summary: Some(input.description.clone()),
            text: input.prompt.clone(),
        }]);
        let inputs = match self.start_teammate(&member, prompt).await {
            Ok(inputs) => inputs,
            Err(reason) => {
                self.retire(&member.name, Status::Failed, Some(reason.clone()), None).await;
                return Err(ToolOutcome::refused(reason));
            }
        };
        Ok((answer(&spawned.into()), inputs))
    }

    /// What the new teammate is recorded with.
    fn record_of(&mut self, input: &SpawnInput, call: String) -> Result<SpawnMember, ToolOutcome> {
        let definition = self.definition(input)?;
        let mode = self.mode_of(input, &definition)?;
        let model = self.model_of(input, &definition);
        let placement = self.placement(input, &definition)?;
        // What model another program knows is for that program to say.
        if placement.program == Program::Pitcrew {
            self.has_price(&model)?;
            let openable = self.run_context.openable.clone();
            self.run_context.model(&model).map_err(|error| unusable(&model, &error, &openable))?;
        }
        let after_plan = self.mode_after_plan(mode, &definition)?;
        if placement.program == Program::Claude
            && [mode, after_plan].contains(&PermissionMode::Delegate)
        {
            return Err(ToolOutcome::refused(
                "claude has no permission mode \"delegate\" (its later versions end at once); a teammate of pitcrew has",
            ));
        }
        Ok(SpawnMember {
            name: input.name.clone().unwrap_or_default(),
            agent_type: definition.name.clone(),
            model,
            prompt: input.prompt.clone(),
            plan_mode_required: mode == PermissionMode::Plan,
            cwd: self.run_context.cwd.to_string_lossy().into_owned(),
            mode: Some(after_plan.as_str().to_owned()),
            backend_type: placement.backend,
            program: placement.program,
            max_turns: input.max_turns,
            worktree_path: None,
            call: Some(call),
        })
    }

    /// Has the teammate started in a pane; whoever minds it answers the call.
    async fn spawn_elsewhere(
        &mut self,
        member: &Member,
        spawned: Spawned,
        reply: &mut Option<oneshot::Sender<ToolOutcome>>,
    ) -> Result<(ToolOutcome, Vec<RunInput>), ToolOutcome> {
        let answered = answer(&spawned.clone().into());
        let Some(panes) = self.panes_of(member) else {
            let reason = "the kind of panes it was to live in is not part of this run";
            self.retire(&member.name, Status::Failed, Some(reason.to_owned()), None).await;
            return Err(ToolOutcome::refused(reason));
        };
        let left = match self.is_resumed {
            true => Some(self.left_of(member, panes.as_ref()).await),
            false => None,
        };
        let launching =
            Launching { left, call: reply.take().map(|reply| (Box::new(spawned), reply)) };
        Ok((answered, self.start_elsewhere(member, panes, launching).await))
    }

    fn may_spawn(&self) -> Result<(), ToolOutcome> {
        if let Some(end_reason) = self.machine.end_reason() {
            return Err(ToolOutcome::refused(format_args!(
                "Nobody can be spawned any more: {}",
                end_reason.in_words()
            )));
        }
        if !self.run_context.has_team_tools {
            return Err(ToolOutcome::refused(
                "Teams are switched off here, so there are no teammates; without a name it is a subagent",
            ));
        }
        if self.team_create == TeamCreateState::Deleted {
            return Err(ToolOutcome::refused("The team is deleted; TeamCreate makes another"));
        }
        match self.limits.max_teammates {
            Some(most) if self.machine.mates() >= usize::try_from(most).unwrap_or(usize::MAX) => {
                Err(ToolOutcome::refused(format_args!(
                    "The team has {}, as many as this run may have; shut one down first",
                    counted(most, "teammate")
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn definition(&self, input: &SpawnInput) -> Result<AgentDefinition, ToolOutcome> {
        let name = input.subagent_type.as_deref().unwrap_or(DEFAULT_TYPE);
        self.run_context.definitions.get(name).cloned().map_err(|error| unknown_type(name, &error))
    }

    /// The mode a new agent starts in: as asked, as its definition says, or the run's; planning and delegating are not
    /// handed down.
    fn mode_of(
        &self,
        input: &SpawnInput,
        definition: &AgentDefinition,
    ) -> Result<PermissionMode, ToolOutcome> {
        if let Some(asked) = &input.mode {
            let mode = PermissionMode::named(asked).ok_or_else(|| unknown_mode(asked))?;
            return self.no_freer(mode);
        }
        if let Some(mode) = definition.permission_mode {
            return self.no_freer(mode);
        }
        Ok(self.run_context.mode.handed_down())
    }

    /// The mode an agent goes on in when its plan is approved; the record of its spawn holds it.
    fn mode_after_plan(
        &self,
        mode: PermissionMode,
        definition: &AgentDefinition,
    ) -> Result<PermissionMode, ToolOutcome> {
        if mode != PermissionMode::Plan {
            return Ok(mode);
        }
        let defined = definition.permission_mode.filter(|mode| *mode != PermissionMode::Plan);
        defined.map_or_else(|| Ok(self.run_context.mode.handed_down()), |mode| self.no_freer(mode))
    }

    /// A lead cannot give away more than it was given: everything without asking is the user's to say.
    fn no_freer(&self, mode: PermissionMode) -> Result<PermissionMode, ToolOutcome> {
        if mode == PermissionMode::BypassPermissions
            && self.run_context.mode != PermissionMode::BypassPermissions
        {
            return Err(ToolOutcome::refused("Only the user can let an agent bypass permissions"));
        }
        Ok(mode)
    }

    fn model_of(&self, input: &SpawnInput, definition: &AgentDefinition) -> String {
        let named =
            input.model.as_ref().or(definition.model.as_ref()).filter(|name| *name != INHERIT);
        named.unwrap_or(&self.run_context.teammate_model).clone()
    }

    /// Refuses a model whose cost nobody knows in a run that ends at a cost.
    fn has_price(&self, model: &str) -> Result<(), ToolOutcome> {
        if !self.limits.needs_price_of(model, &self.run_context.prices) {
            return Ok(());
        }
        Err(no_price(model))
    }

    async fn isolate(&mut self, member: &mut Member) -> Result<(), ToolOutcome> {
        let team = self.run_context.team.clone();
        let made =
            self.worktrees().create(team.dir().as_str(), member.name.inbox_file().as_str()).await;
        let worktree = match made {
            Ok(worktree) => worktree,
            Err(error) => {
                let reason =
                    format!("a worktree for {} cannot be made: {}", member.name, chain(&error));
                self.retire(&member.name, Status::Failed, Some(reason.clone()), None).await;
                return Err(ToolOutcome::refused(reason));
            }
        };
        let path = worktree.path.to_string_lossy().into_owned();
        member.worktree_path = Some(path.clone());
        if let Err(error) = team.set_worktree(&member.name, Some(&path)).await {
            self.retire(&member.name, Status::Failed, Some(chain(&error)), Some(&worktree.path))
                .await;
            return Err(refusal(&error));
        }
        Ok(())
    }

    /// Starts a member's agent, or lets it go on from its transcript.
    pub(super) async fn start_teammate(
        &mut self,
        member: &Member,
        prompt: String,
    ) -> Result<Vec<RunInput>, String> {
        let agent_type = member.agent_type.as_deref().unwrap_or(DEFAULT_TYPE);
        let definition = self.run_context.definitions.get(agent_type).cloned().ok();
        let model_name =
            member.model.clone().unwrap_or_else(|| self.run_context.teammate_model.clone());
        let model = self.run_context.model(&model_name).map_err(|error| chain(&error))?;
        let (known_mode, refused) = KnownMode::of(&self.run_context.team, member);
        if let Some(refused) = refused {
            self.refuse_mode(&member.name, &refused).await;
        }
        let worktree = member.worktree_path.as_ref().map(PathBuf::from);
        let home = member.cwd.as_ref().map_or_else(|| self.run_context.cwd.clone(), PathBuf::from);
        let spec = AgentSpec {
            name: member.name.clone(),
            role: Role::Teammate,
            definition,
            model,
            mode: PermissionMode::named(known_mode.mode()).unwrap_or_default(),
            cwd: worktree.clone().unwrap_or(home),
            parent_call: None,
            max_turns: self.limits.turns_of(member),
            prompt: Some(prompt),
            remembers: None,
            cancel: self.here.token(),
        };
        self.announce_start(spec.announcement(
            member.agent_type.clone(),
            member.color.clone(),
            &model_name,
        ))
        .await;
        let built =
            self.run_context.spec(spec, &self.loop_handle).await.map_err(|error| chain(&error))?;
        if let Some(text) = built.passed_over {
            self.warn(text).await;
        }
        let running = RunningAgent {
            body: AgentHandle::Here(built.link),
            inbox: member.name.inbox_file(),
            part: AgentKind::Teammate { worktree },
            known_mode: Some(known_mode),
            member: Some(member.clone()),
            turns: built.conversation_turns,
            answers: Answers::Yes,
        };
        self.agents.insert(member.name.clone(), running);
        self.here.start(&member.name, built.driver, built.start);
        Ok(vec![RunInput::Joined(member.name.clone())])
    }

    /// Sends out a subagent. Its end answers the call, unless the caller goes on meanwhile.
    async fn send_out(
        &mut self,
        mut sending: Sending,
        reply: &mut Option<oneshot::Sender<ToolOutcome>>,
    ) -> Result<(), ToolOutcome> {
        let caller = self.agents.get(&sending.caller).and_then(|running| running.member.as_ref());
        sending.callers_model = caller.and_then(|member| member.model.clone());
        let input = sending.input.clone();
        let (cancel, usage_totals) = (self.here.token(), &self.usage_totals);
        let subagent = self.run_context.subagent(
            sending,
            &mut self.subagents,
            &self.limits,
            |id| usage_totals.knows(id),
            cancel,
        )?;
        self.announce_start(subagent.announcement()).await;
        let (built, sent) = subagent.built(&mut self.run_context, &self.loop_handle).await?;
        let Some(reply) = reply.take() else { return Ok(()) };
        let name = sent.name.clone();
        let answer = if input.run_in_background == Some(true) {
            // The only error is that the call is not waited for any more.
            let _not_waited_for = reply.send(launched(&name, &input));
            SubagentAnswer::Notice
        } else {
            SubagentAnswer::Call(reply)
        };
        let running = RunningAgent {
            body: AgentHandle::Here(built.link),
            inbox: name.inbox_file(),
            part: AgentKind::SubagentRun(Box::new(sent.answering(answer))),
            known_mode: None,
            member: None,
            turns: 0,
            answers: Answers::Yes,
        };
        self.agents.insert(name.clone(), running);
        self.here.start(&name, built.driver, built.start);
        Ok(())
    }

    pub(super) async fn announce_start(&mut self, starting: AgentStarted) {
        self.usage_totals.open(&starting.agent, starting.agent_type.clone(), &starting.model);
        self.run_context.sink.tell(RunEvent::AgentStarted(starting)).await;
    }
}

impl AgentSpec {
    pub(super) fn announcement(
        &self,
        agent_type: Option<String>,
        color: Option<String>,
        model: &str,
    ) -> AgentStarted {
        AgentStarted {
            agent: self.name.clone(),
            parent_call: self.parent_call.clone(),
            agent_type,
            model: model.to_owned(),
            color,
            cwd: self.cwd.clone(),
            mode: self.mode,
        }
    }
}

/// The refusal of another team's name.
fn not_yours(team: &str, asked: &str) -> ToolOutcome {
    let error = ApiError::new(
        ErrorCode::TeamNotFound,
        format!("You lead the team \"{team}\", not \"{asked}\""),
    );
    refusal(&error.with("team_name", asked).with("available_teams", vec![team]))
}

/// The refusal of an agent type that is not defined.
pub(super) fn unknown_type(name: &str, error: &UnknownAgentType) -> ToolOutcome {
    let error = ApiError::new(ErrorCode::InvalidRequest, error.to_string());
    refusal(&error.with("field", "subagent_type").with("got", name))
}

/// The refusal of a permission mode that there is not.
pub(super) fn unknown_mode(asked: &str) -> ToolOutcome {
    let error =
        ApiError::new(ErrorCode::InvalidRequest, format!("There is no permission mode {asked}"));
    refusal(
        &error
            .with("field", "mode")
            .with("valid_modes", PermissionMode::ALL.map(PermissionMode::as_str)),
    )
}

fn spawned(member: &Member, team: &str, input: &SpawnInput) -> Spawned {
    let id = member.agent_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let place = member.tmux_pane_id.clone().unwrap_or_default();
    Spawned {
        status: Spawned::STATUS.to_owned(),
        prompt: input.prompt.clone(),
        teammate_id: id.clone(),
        agent_id: id,
        agent_type: member.agent_type.clone().unwrap_or_default(),
        model: member.model.clone().unwrap_or_default(),
        name: member.name.to_string(),
        color: member.color.clone().unwrap_or_default(),
        tmux_session_name: place.clone(),
        tmux_window_name: place.clone(),
        tmux_pane_id: place,
        team_name: team.to_owned(),
        is_splitpane: false,
        plan_mode_required: member.plan_mode_required.unwrap_or(false),
    }
}
