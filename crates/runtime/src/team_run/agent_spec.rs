//! Builds an agent: its context, its permission gate and its state machine.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_agent::transcript::{Conversation, OpenCall};
use pitcrew_agent::{Agent, Event, Profile, Role};
use pitcrew_model::Model;
use pitcrew_process::sandbox;
use pitcrew_protocol::{
    AgentName, CallEffect, PermissionMode, ToolTraits, counted, neutralised, tool_name,
};
use pitcrew_team::store::LogName;
use pitcrew_team::{Actor, Team};
use pitcrew_tools::{ReadLog, Shells, Tool, ToolContext, ToolLimits, Toolbox, plain_tools};
use tokio_util::sync::CancellationToken;

use super::lead_tools::{lead_tools, subagent_tool};
use super::run_context::RunContext;
use super::subagents::lost_in_background;
use super::wake::LoopHandle;
use crate::definitions::AgentDefinition;
use crate::driver::{
    AgentContext, AgentSender, Driver, Log, LogError, Start, System, call_name, is_offered, link,
};
use crate::events::AgentStarted;
use crate::supervision::EscapeLog;
use crate::team_tools::{exit_plan_mode, show_plan, team_tools};

/// Maximum number of line numbers shown in a warning.
const LINES_SHOWN: usize = 5;

/// The specification of an agent to start.
pub(crate) struct AgentSpec {
    pub(crate) name: AgentName,
    pub(crate) role: Role,
    pub(crate) definition: Option<AgentDefinition>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) mode: PermissionMode,
    pub(crate) cwd: PathBuf,
    pub(crate) parent_call: Option<String>,
    pub(crate) max_turns: Option<u32>,
    /// The agent's first message. If this is `None`, the agent starts with the mail in its inbox.
    pub(crate) prompt: Option<String>,
    /// If the agent is a subagent that is resumed: its earlier conversation.
    pub(crate) remembers: Option<Conversation>,
    pub(crate) cancel: CancellationToken,
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

/// An agent that is built and ready to start.
pub(crate) struct BuiltAgent {
    pub(crate) driver: Driver,
    pub(crate) start: Start,
    pub(crate) link: AgentSender,
    pub(crate) conversation_turns: u32,
    /// The names of the tools that are offered to the agent's model in its first mode.
    pub(crate) tools: Vec<String>,
    /// The ids of spawn calls that a crash interrupted. The agent makes these calls again.
    pub(crate) open_spawns: Vec<String>,
    /// The teammates whose end is already in the agent's conversation.
    pub(crate) parted: BTreeSet<AgentName>,
    /// A notice for the agent that lists the background subagents that ended with the previous run.
    pub(crate) lost_in_background: Option<String>,
    /// A warning about transcript lines that cannot be read.
    pub(crate) passed_over: Option<String>,
}

/// Returns the warning about a transcript with unreadable lines.
fn passed_over(team: &Team, agent: &AgentName, lines: &[usize]) -> String {
    let path = team.log_file(&LogName::Transcript(agent.clone()));
    let shown: Vec<String> = lines.iter().take(LINES_SHOWN).map(usize::to_string).collect();
    let more = if lines.len() > shown.len() { ", ..." } else { "" };
    format!(
        "{agent} goes on without {} of {} that cannot be read ({}{more}); `pitcrew doctor --repair` repairs that",
        counted(lines.len(), "line"),
        path.display(),
        shown.join(", ")
    )
}

/// Returns a text for an agent about a shutdown request that an earlier run sent when it exited.
/// The text says that the request no longer counts.
fn withdrawn(request: &str) -> String {
    let text = format!(
        "The request to shut down ({request}) is void: the run that made it is over, and the team goes on. Do not answer \
         it. Go on with your work."
    );
    format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&text))
}

impl RunContext {
    /// Builds an agent. If the agent has an earlier conversation, it continues with that
    /// conversation.
    ///
    /// # Errors
    /// When the agent's transcript cannot be read.
    pub(crate) async fn spec(
        &mut self,
        mut spec: AgentSpec,
        loop_handle: &LoopHandle,
    ) -> Result<BuiltAgent, LogError> {
        let (log, conversation, unread) = match spec.role {
            Role::Lead | Role::Teammate => Log::open(&self.team, &spec.name).await?,
            Role::Subagent => (
                Log::unkept(&self.team, &spec.name),
                spec.remembers.take().unwrap_or_default(),
                Vec::new(),
            ),
        };
        let passed_over =
            (!unread.is_empty()).then(|| passed_over(&self.team, &spec.name, &unread));
        let is_new = spec.role == Role::Subagent || conversation == Conversation::default();
        let conversation_turns = conversation.turns();
        let is_spawn =
            |open: &&OpenCall| ToolTraits::of(&open.call.tool).effect == CallEffect::StartsAgent;
        let spawns = conversation.open_calls().iter().filter(is_spawn);
        let open_spawns = spawns.map(|open| call_name(&spec.name, &open.call)).collect();
        let parted = conversation.parted().clone();
        let lost_in_background = lost_in_background(&conversation).filter(|_| !is_new);
        let tools = self.tools_of(&spec, loop_handle);
        let profile = Profile {
            name: spec.name.clone(),
            role: spec.role,
            max_turns: spec.max_turns,
            tools: tools.iter().map(|tool| (tool.name(), tool.traits())).collect(),
            context: self.context_of(spec.model.as_ref()),
        };
        let tool_names = tools.iter().map(|tool| tool.name());
        let tool_names = tool_names
            .filter(|tool| is_offered(spec.role, spec.mode, tool))
            .map(str::to_owned)
            .collect();
        let start = spec.prompt.clone().filter(|_| is_new).map_or(Start::Resumed, Start::New);
        let (link, wire) = link(spec.cancel.clone());
        if let Some(request) = conversation.shutdown()
            && self
                .team
                .requests()
                .await
                .unwrap_or_default()
                .get(request)
                .is_some_and(|request| request.is_void)
        {
            link.tell(Event::ShutdownWithdrawn { text: withdrawn(request) });
        }
        let agent = Agent::new(profile, spec.mode, conversation);
        let model = spec.model.clone();
        let agent_context = self.agent_context(spec, tools);
        let driver = Driver::new(agent, model, agent_context, self.gate.clone(), log, wire);
        let tools = tool_names;
        Ok(BuiltAgent {
            driver,
            start,
            link,
            conversation_turns,
            tools,
            open_spawns,
            parted,
            lost_in_background,
            passed_over,
        })
    }

    fn agent_context(&mut self, spec: AgentSpec, tools: Toolbox) -> AgentContext {
        let parts = self.system(&spec.name, spec.role, spec.definition.as_ref(), &spec.cwd);
        AgentContext {
            role: spec.role,
            agent_type: spec.definition.map(|definition| definition.name),
            parent_call: spec.parent_call,
            team: self.team.clone(),
            trust: self.trust.clone(),
            tools,
            hooks: self.hooks.clone(),
            background_hooks: match spec.role {
                Role::Lead => self.lead_background_hooks.clone(),
                Role::Teammate | Role::Subagent => Arc::default(),
            },
            context: ToolContext {
                cwd: spec.cwd,
                env: self.env.clone(),
                call: String::new(),
                judged: None,
                // Do not pass the agent's own cancellation token. When the agent is cancelled, its
                // calls are dropped and return nothing. With that token, a call would return an
                // answer, and the model would believe that answer.
                cancel: CancellationToken::new(),
                gate: self.gate.clone(),
                sandbox: self.sandbox.clone(),
                mode: spec.mode,
                profile: sandbox::Profile::Free,
                may_unconfine: self.may_unconfine,
                reads: ReadLog::new(self.locks.clone()),
                shells: Shells::recorded(
                    self.shells_folder(&spec.name),
                    EscapeLog::new(self.team.clone(), spec.name.clone()).into_log(),
                ),
                limits: ToolLimits::default(),
            },
            system: System {
                parts,
                tasks: self
                    .root
                    .join("tasks")
                    .join(self.team.dir().as_str())
                    .to_string_lossy()
                    .into(),
            },
            plan_file: self.plan_file(&spec.name),
            transcript_file: self.team.log_file(&LogName::Transcript(spec.name.clone())),
            prices: self.prices.clone(),
            session_id: self.session_id.clone(),
            sink: self.sink.clone(),
            reports: self.reports.clone(),
            name: spec.name,
        }
    }

    fn tools_of(&self, spec: &AgentSpec, loop_handle: &LoopHandle) -> Toolbox {
        let (mut tools, mut plain): (Vec<Arc<dyn Tool>>, Vec<_>) = (Vec::new(), plain_tools());
        match spec.role {
            Role::Lead => {
                if self.has_team_tools {
                    tools.extend(lead_tools(loop_handle, &self.openable));
                    tools.extend(team_tools(&self.team, &Actor::Lead, self.sockets.as_ref()));
                } else {
                    let of_subagents = |tool: &Arc<dyn Tool>| {
                        matches!(tool.name(), tool_name::TASK | tool_name::TASK_STOP)
                    };
                    tools.extend(
                        lead_tools(loop_handle, &self.openable).into_iter().filter(of_subagents),
                    );
                }
                tools.push(show_plan(self.plan_file(&spec.name)));
            }
            Role::Teammate => {
                plain.push(subagent_tool(
                    loop_handle,
                    &spec.name,
                    self.trust.is_some(),
                    &self.openable,
                ));
                tools.extend(team_tools(
                    &self.team,
                    &Actor::Member(spec.name.clone()),
                    self.sockets.as_ref(),
                ));
                tools.push(exit_plan_mode(&self.team, &spec.name, self.plan_file(&spec.name)));
            }
            Role::Subagent => {}
        }
        let team_tools = tools.len();
        tools.extend(plain);
        let is_allowed = |(at, tool): &(usize, Arc<dyn Tool>)| {
            *at < team_tools
                || spec
                    .definition
                    .as_ref()
                    .is_none_or(|definition| definition.has_tool(tool.name()))
        };
        Toolbox::new(tools.into_iter().enumerate().filter(is_allowed).map(|(_, tool)| tool))
    }
}
