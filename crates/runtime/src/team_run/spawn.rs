//! Spawns a teammate, from the tool call to the running agent. This module decides the teammate's
//! specification and where it runs. It then creates the teammate's config entry and git worktree,
//! and starts the teammate with a [`SpawnBackend`]. The backends are in `in_process` and
//! `pane_backend`.

use std::path::PathBuf;

use pitcrew_panes::Panes;
use pitcrew_permission::gate::DEFAULT_TYPE;
use pitcrew_protocol::{
    ApiError, BACKEND_IN_PROCESS, ErrorCode, Injected, LEAD_NAME, Member, PermissionMode, Program,
    SpawnInput, Spawned, Status, chain, counted, render,
};
use pitcrew_team::{Enlisted, KnownMode, SpawnMember};
use pitcrew_tools::ToolOutcome;
use tokio::sync::oneshot;

use super::agents::{AgentKind, RunningAgent};
use super::run_machine::RunInput;
use super::spawn_backend::{MemberStart, SpawnBackend, SpawnCall, StartedMember};
use super::start::TeamCreateState;
use super::subagents::{INHERIT, no_price, unusable};
use super::team_loop::TeamLoop;
use crate::definitions::{AgentDefinition, UnknownAgentType};
use crate::events::{AgentStarted, RunEvent};
use crate::hosting::TeammatePlace;
use crate::team_tools::{answer, refusal};

/// Where a new teammate runs, and which program runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// The name of the pane backend. `None` if the teammate runs in this process.
    pub(super) backend: Option<String>,
    pub(super) program: Program,
}

/// The error text if a run under `--sandbox` refuses another client as a teammate.
pub(super) const UNBOUNDED_CLIENT: &str = "this run holds commands to a sandbox, and another client runs its own outside of it; the user \
                                allows that with sandbox.allowOtherClients";

impl TeamLoop {
    /// Spawns a teammate. `by` is the name of the lead or of the user, for the journal.
    pub(super) async fn spawn(
        &mut self,
        input: &SpawnInput,
        by: &str,
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
                let noted = team.note_spawned(&name, by);
                let ((), settled) = tokio::join!(noted, self.settle_in(input, member, reply));
                settled
            }
            Enlisted::Before(member) => self.settle_in(input, member, reply).await,
        }
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

    /// Returns the record for a new teammate, which is stored in the config.
    fn record_of(&mut self, input: &SpawnInput, call: String) -> Result<SpawnMember, ToolOutcome> {
        let definition = self.definition(input)?;
        let mode = self.mode_of(input, &definition)?;
        let model = self.model_of(input, &definition);
        let placement = self.placement(input, &definition)?;
        // Check the price only if pitcrew runs the teammate, because another client decides itself
        // which models it knows.
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

    fn definition(&self, input: &SpawnInput) -> Result<AgentDefinition, ToolOutcome> {
        let name = input.subagent_type.as_deref().unwrap_or(DEFAULT_TYPE);
        self.run_context.definitions.get(name).cloned().map_err(|error| unknown_type(name, &error))
    }

    /// Returns the permission mode of a new agent. The mode in the call comes first, then the mode
    /// in the definition, then the run's mode. An agent does not inherit the modes `plan` and
    /// `delegate` from the run.
    fn mode_of(
        &self,
        input: &SpawnInput,
        definition: &AgentDefinition,
    ) -> Result<PermissionMode, ToolOutcome> {
        if let Some(asked) = &input.mode {
            let mode: Option<PermissionMode> = serde_json::from_value(asked.clone().into()).ok();
            let mode = mode.ok_or_else(|| unknown_mode(asked))?;
            return self.no_freer(mode);
        }
        if let Some(mode) = definition.permission_mode {
            return self.no_freer(mode);
        }
        Ok(self.run_context.mode.handed_down())
    }

    /// Returns the permission mode that an agent gets after its plan is approved. The spawn record
    /// stores this mode.
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

    /// Refuses a mode that the lead is not allowed to grant. Only the user can let an agent bypass
    /// permissions.
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

    /// If the run has a cost limit, refuses a model whose price is unknown.
    fn has_price(&self, model: &str) -> Result<(), ToolOutcome> {
        if !self.limits.needs_price_of(model, &self.run_context.prices) {
            return Ok(());
        }
        Err(no_price(model))
    }

    /// Decides where a new teammate runs. The place in the call comes first, then the place in the
    /// definition, then the run's default.
    pub(super) fn placement(
        &self,
        input: &SpawnInput,
        definition: &AgentDefinition,
    ) -> Result<Placement, ToolOutcome> {
        let program = match input.program.as_deref() {
            Some(name) => Some(Program::named(name).ok_or_else(|| {
                let known = Program::ALL.map(Program::as_str).join(", ");
                ToolOutcome::refused(format_args!(
                    "There is no program \"{name}\"; there are: {known}"
                ))
            })?),
            None => definition.program,
        };
        let panes = self.backends.hosting.panes.as_deref().map(Panes::backend_type);
        let asked = match input.backend.as_deref() {
            Some(BACKEND_IN_PROCESS) => Some(TeammatePlace::InProcess),
            Some(name) if panes == Some(name) => Some(TeammatePlace::Pane),
            Some(name) => {
                let known =
                    [BACKEND_IN_PROCESS].into_iter().chain(panes).collect::<Vec<_>>().join(", ");
                let said =
                    format!("There is no backend \"{name}\" in this run; there are: {known}");
                return Err(ToolOutcome::refused(said));
            }
            // Claude Code cannot run in this process. If the call names no place, the client gets a
            // pane.
            None if program == Some(Program::Claude) => Some(TeammatePlace::Pane),
            None => None,
        };
        match (asked.unwrap_or(self.backends.hosting.default), panes) {
            (TeammatePlace::InProcess, _) if program == Some(Program::Claude) => {
                Err(ToolOutcome::refused("claude cannot run in this process, only in a pane"))
            }
            (TeammatePlace::InProcess, _) => {
                Ok(Placement { backend: None, program: Program::Pitcrew })
            }
            (TeammatePlace::Pane, Some(panes)) => {
                let program = program.unwrap_or(self.backends.hosting.program);
                if !self.may_run(program) {
                    return Err(ToolOutcome::refused(UNBOUNDED_CLIENT));
                }
                Ok(Placement { backend: Some(panes.to_owned()), program })
            }
            (TeammatePlace::Pane, None) => Err(ToolOutcome::refused(
                "It would run in a pane, and this run has none; the user gives it panes with --teammate-mode",
            )),
        }
    }

    /// Returns true if teammates are allowed to use this program. Another client is a risk, because
    /// pitcrew's sandbox does not restrict its commands.
    pub(super) fn may_run(&self, program: Program) -> bool {
        match program {
            Program::Pitcrew => true,
            Program::Claude => self.run_context.allows_clients,
        }
    }

    /// Starts the agent of a member, unless the agent is already running.
    async fn settle_in(
        &mut self,
        input: &SpawnInput,
        mut member: Member,
        reply: &mut Option<oneshot::Sender<ToolOutcome>>,
    ) -> Result<(ToolOutcome, Vec<RunInput>), ToolOutcome> {
        let spawned = spawned(&member, self.run_context.team.name().as_str(), input);
        if self.agents.is_running(&member.name) {
            return Ok((answer(&spawned.into()), Vec::new()));
        }
        if input.isolation.as_deref() == Some("worktree") && member.worktree_path.is_none() {
            self.isolate(&mut member).await?;
        }
        let prompt = render(&[Injected {
            from: LEAD_NAME.to_owned(),
            color: None,
            summary: Some(input.description.clone()),
            text: input.prompt.clone(),
        }]);
        let answered = answer(&spawned.clone().into());
        let spawned = Box::new(spawned);
        let mut call = reply.take().map(|reply| SpawnCall { spawned, reply });
        let started = match self.backends.of(&member) {
            Some(backend) => self.start_member(&member, backend.as_ref(), prompt, &mut call).await,
            None => Err("the kind of panes it was to live in is not part of this run".to_owned()),
        };
        *reply = call.map(|call| call.reply);
        match started {
            Ok(inputs) => Ok((answered, inputs)),
            Err(reason) => {
                self.retire(&member.name, Status::Failed, Some(reason.clone()), None).await;
                Err(ToolOutcome::refused(reason))
            }
        }
    }

    async fn isolate(&mut self, member: &mut Member) -> Result<(), ToolOutcome> {
        let team = self.run_context.team.clone();
        let made =
            self.worktrees().create(team.dir().as_str(), member.name.inbox_file().as_str()).await;
        let worktree = match made {
            Ok(worktree) => worktree,
            Err(error) => {
                let reason =
                    format!("a worktree for {} cannot be created: {}", member.name, chain(&error));
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

    /// Starts a member's agent in a backend, or continues an agent that already runs there. The
    /// error is the reason why nothing was started.
    pub(super) async fn start_member(
        &mut self,
        member: &Member,
        backend: &dyn SpawnBackend,
        prompt: String,
        call: &mut Option<SpawnCall>,
    ) -> Result<Vec<RunInput>, String> {
        let left = match self.is_resumed {
            true => self.left_of(member, backend).await,
            false => None,
        };
        let program = backend.program_of(member);
        let model = backend.model_of(&mut self.run_context, member)?;
        let known_mode = self.known_mode_of(member, program).await;
        let mode = PermissionMode::named(known_mode.mode()).unwrap_or_default();
        let worktree = member.worktree_path.as_ref().map(PathBuf::from);
        let home = member.cwd.as_ref().map_or_else(|| self.run_context.cwd.clone(), PathBuf::from);
        let cwd = worktree.clone().unwrap_or(home);
        self.announce_start(AgentStarted {
            agent: member.name.clone(),
            parent_call: None,
            agent_type: member.agent_type.clone(),
            model: model.clone(),
            color: member.color.clone(),
            cwd: cwd.clone(),
            mode,
        })
        .await;
        let start = MemberStart {
            run_context: &mut self.run_context,
            loop_handle: &self.loop_handle,
            member,
            model,
            mode,
            cwd,
            prompt,
            limits: self.limits,
            grace: self.grace,
            left,
            call,
        };
        let StartedMember { handle, turns, passed_over } = backend.start(start).await?;
        if let Some(text) = passed_over {
            self.warn(text).await;
        }
        if program == Program::Claude {
            self.agents.account(&member.name).not_counted_yet();
        }
        let before = self.agents.before(&member.name).map_or(0, |before| before.turns);
        let running = RunningAgent {
            known_mode: Some(known_mode),
            member: Some(member.clone()),
            turns: turns.unwrap_or(before),
            ..RunningAgent::new(&member.name, handle, AgentKind::Teammate { worktree })
        };
        self.agents.start(&member.name, running);
        Ok(vec![RunInput::Joined(member.name.clone())])
    }

    /// Returns the permission mode in which a member works. If another client runs the member, the
    /// client's own mode counts.
    async fn known_mode_of(&mut self, member: &Member, program: Program) -> KnownMode {
        if program == Program::Claude {
            return KnownMode::of_another_client(member);
        }
        let (known_mode, refused) = KnownMode::of(&self.run_context.team, member);
        if let Some(refused) = refused {
            self.refuse_mode(&member.name, &refused).await;
        }
        known_mode
    }

    pub(super) async fn announce_start(&mut self, starting: AgentStarted) {
        let account = self.agents.account(&starting.agent);
        account.open(starting.agent_type.clone(), &starting.model);
        self.run_context.sink.tell(RunEvent::AgentStarted(starting)).await;
    }
}

/// Returns the tool result that refuses a call because the call names another team.
pub(super) fn not_yours(team: &str, asked: &str) -> ToolOutcome {
    let error = ApiError::new(
        ErrorCode::TeamNotFound,
        format!("You lead the team \"{team}\", not \"{asked}\""),
    );
    refusal(&error.with("team_name", asked).with("available_teams", vec![team]))
}

/// Returns the tool result that refuses an unknown agent type.
pub(super) fn unknown_type(name: &str, error: &UnknownAgentType) -> ToolOutcome {
    let error = ApiError::new(ErrorCode::InvalidRequest, error.to_string());
    refusal(&error.with("field", "subagent_type").with("got", name))
}

/// Returns the tool result that refuses an unknown permission mode.
pub(super) fn unknown_mode(asked: &str) -> ToolOutcome {
    let modes = PermissionMode::ALL.map(PermissionMode::as_str);
    let message = format!("There is no permission mode {asked:?}; there are: {}", modes.join(", "));
    let error = ApiError::new(ErrorCode::InvalidRequest, message);
    refusal(&error.with("field", "mode").with("valid_modes", modes))
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
