//! The fixed data of one agent, which does not change during the agent's life, and the reports that
//! the agent sends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_agent::transcript::{AnswerFault, Conversation, ToolCall};
use pitcrew_agent::{Mail, Question, Role};
use pitcrew_model::{PriceTable, ToolSpec};
use pitcrew_permission::gate::offers;
use pitcrew_protocol::{AgentName, CallEffect, PermissionMode, Status, ToolTraits};
use pitcrew_team::{Team, Trust};
use pitcrew_tools::{ToolContext, Toolbox};
use tokio::sync::{mpsc, oneshot, watch};

use crate::events::{RunEvent, Spending};
use crate::hooks::{BackgroundHooks, HookEvent, HookKind, HookSession, Hooks};
use crate::prompts::{PlanApprover, Prompt};

/// All data that an agent uses and that does not change during the agent's life.
pub(crate) struct AgentContext {
    pub(crate) name: AgentName,
    pub(crate) role: Role,
    pub(crate) agent_type: Option<String>,
    /// If the agent is a subagent: the tool call that started it.
    pub(crate) parent_call: Option<String>,
    pub(crate) team: Team,
    /// The keys that verify the lead's signatures, if the lead runs in another process. A new lead
    /// may replace that lead and change the keys. `None` if the team handle already knows the keys.
    pub(crate) trust: Option<watch::Receiver<Trust>>,
    pub(crate) tools: Toolbox,
    pub(crate) hooks: Arc<Hooks>,
    /// The hooks of this agent that nothing waits for.
    pub(crate) background_hooks: Arc<BackgroundHooks>,
    pub(crate) context: ToolContext,
    pub(crate) system: System,
    pub(crate) plan_file: PathBuf,
    pub(crate) transcript_file: PathBuf,
    pub(crate) prices: Arc<PriceTable>,
    pub(crate) session_id: String,
    pub(crate) sink: Sink,
    pub(crate) reports: mpsc::Sender<Report>,
}

/// The system prompt, split into parts that several agents share.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    /// The agent's identity, its definition, the instructions of project and user, and its working
    /// folder.
    pub(crate) parts: Vec<Arc<str>>,
    /// The path of the team's task list, for the prompt of delegate mode.
    pub(crate) tasks: Arc<str>,
}

/// A report of an agent to the team's loop.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) agent: AgentName,
    pub(crate) kind: ReportKind,
}

/// The content of a report.
#[derive(Debug)]
pub(crate) enum ReportKind {
    /// The agent's state changed.
    Announced(Announcement),
    /// A model call waits before its first try or before a retry.
    WaitsForModel { reason: String, delay: Duration },
    /// A model call ended.
    Spent(Spending),
    /// Mail that the team's loop must handle.
    Referred(Mail),
    /// A call needs a permission. If the agent is a teammate, the lead has already received the
    /// request by mail. If both the lead and a person answer the request, the earlier answer
    /// counts.
    Asks { call: ToolCall, question: Question, folder: PathBuf },
    /// A teammate's permission request was answered. `refused` contains the reason if the call was
    /// refused.
    Settled { call: String, refused: Option<String> },
    /// The conversation of a subagent that is about to end, so that the subagent can be resumed.
    Remembers(Box<Conversation>),
    /// The agent has used all turns that it is allowed to take.
    UsedUp,
    /// The agent stops for the rest of this run, because its model is unavailable. A later run can
    /// resume the agent.
    Parked { reason: String, retry_after: Option<Duration> },
    /// The agent was cancelled. A later run can resume the agent.
    Dropped,
    /// The agent ended because of a disk error, a system error or an error in pitcrew.
    Broke { reason: String },
    /// The agent ended because it repeated the same call again and again.
    Looped { reason: String, text: Option<String> },
    /// The agent ended with this state.
    Ended { status: Status, reason: Option<String>, text: Option<String> },
}

/// A new state of an agent.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) status: Status,
    /// The reason why the agent is in this state, if the reason is not obvious.
    pub(crate) detail: Option<String>,
    /// What was wrong with the agent's last answer, if anything was wrong.
    pub(crate) fault: Option<AnswerFault>,
    /// A sender that is dropped by the receiver of the report when the new state is in the journal.
    /// If the state must be recorded before the agent's next effect, the agent waits until the
    /// sender is dropped.
    pub(crate) until_noted: Option<oneshot::Sender<()>>,
}

/// The sender of events for the user interface. The run continues even if nobody receives the
/// events.
#[derive(Clone, Debug)]
pub(crate) struct Sink(pub(crate) mpsc::Sender<RunEvent>);

impl Sink {
    pub(crate) async fn tell(&self, event: RunEvent) {
        // Sending fails only if nobody receives the events, and then nobody needs them.
        let _closed = self.0.send(event).await;
    }

    /// Sends an event from code that cannot await.
    pub(crate) fn tell_soon(&self, event: RunEvent) {
        let Err(mpsc::error::TrySendError::Full(event)) = self.0.try_send(event) else { return };
        let (sink, runtime) = (self.clone(), tokio::runtime::Handle::try_current());
        match runtime {
            Ok(runtime) => drop(runtime.spawn(async move { sink.tell(event).await })),
            Err(_none) => tracing::warn!("the screen is behind, and an event of it is lost"),
        }
    }
}

/// Returns true if this tool is offered to the model of an agent with this role and this mode.
pub(crate) fn is_offered(role: Role, mode: PermissionMode, tool: &str) -> bool {
    // A lead gets ExitPlanMode only in plan mode. A teammate is allowed to submit a plan at any
    // time.
    let submits_plan = ToolTraits::of(tool).effect == CallEffect::SubmitsPlan;
    let is_out_of_place = role == Role::Lead && submits_plan && mode != PermissionMode::Plan;
    offers(mode, tool) && !is_out_of_place
}

impl AgentContext {
    /// Returns true if the agent's lead runs in another process. That lead reads the journal
    /// entries of this process.
    pub(crate) fn has_lead_elsewhere(&self) -> bool {
        self.trust.is_some()
    }

    /// Returns the system prompt for an agent in this permission mode.
    pub(crate) fn system(&self, mode: PermissionMode) -> Vec<Arc<str>> {
        let mut blocks = self.system.parts.clone();
        let plan_file = self.plan_file.to_string_lossy();
        let addition = match mode {
            PermissionMode::Plan => {
                let approval = match self.role {
                    Role::Lead => PlanApprover::User,
                    Role::Teammate => PlanApprover::Lead,
                    Role::Subagent => PlanApprover::Caller,
                };
                Prompt::PlanMode
                    .render(&[("plan_file", plan_file.as_ref()), ("approval", approval.text())])
            }
            PermissionMode::Delegate => Prompt::Delegate
                .render(&[("team", self.team.name().as_str()), ("tasks", &self.system.tasks)]),
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk
            | PermissionMode::BypassPermissions => return blocks,
        };
        match addition {
            Ok(text) => blocks.push(text.into()),
            Err(error) => tracing::error!(%error, "a prompt does not fit its values"),
        }
        blocks
    }

    /// Returns the tools offered to the model in this permission mode.
    pub(crate) fn tool_specs(&self, mode: PermissionMode) -> Arc<[ToolSpec]> {
        let spec = |tool: &Arc<dyn pitcrew_tools::Tool>| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
        };
        self.tools
            .iter()
            .filter(|tool| is_offered(self.role, mode, tool.name()))
            .map(spec)
            .collect()
    }

    /// Creates an event for the hooks.
    pub(crate) fn hook_event(&self, mode: PermissionMode, kind: HookKind) -> HookEvent {
        let session = HookSession {
            session_id: self.session_id.clone(),
            transcript_path: self.transcript_file.clone(),
            cwd: self.context.cwd.clone(),
            permission_mode: mode,
        };
        HookEvent { session, kind }
    }

    /// Returns the team handle that verifies incoming mail with the currently trusted keys.
    pub(super) fn as_reader(&self) -> Team {
        let trust = self.trust.as_ref().map(|trust| trust.borrow().clone());
        trust.map_or_else(|| self.team.clone(), |trust| self.team.clone().trusting(trust))
    }

    pub(crate) fn report(&self, kind: ReportKind) -> Report {
        Report { agent: self.name.clone(), kind }
    }
}
