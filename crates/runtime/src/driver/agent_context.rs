//! What one agent works with, and how it reports.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_model::{Model, PriceTable, ToolSpec};
use pitcrew_protocol::{AgentName, CallEffect, PermissionMode, Status, ToolTraits};
use pitcrew_team::{Team, Trust};
use tokio::sync::{mpsc, oneshot, watch};

use crate::agent::{Mail, Question, Role};
use crate::events::{RunEvent, Spending};
use crate::gate::offers;
use crate::hooks::{HookEvent, HookKind, HookSession, Hooks};
use crate::prompts::{PlanApprover, Prompt};
use crate::tools::{ToolContext, Toolbox};
use crate::transcript::{AnswerFault, Conversation, ToolCall};

/// Everything an agent works with that does not change while it lives.
pub(crate) struct AgentContext {
    pub(crate) name: AgentName,
    pub(crate) role: Role,
    pub(crate) agent_type: Option<String>,
    /// The call a subagent works for.
    pub(crate) parent_call: Option<String>,
    pub(crate) team: Team,
    /// By what it knows its lead's word, where the lead's process is another one and may be followed by the next; absent
    /// where the handle on the team knows it.
    pub(crate) trust: Option<watch::Receiver<Trust>>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Toolbox,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) context: ToolContext,
    pub(crate) system: System,
    pub(crate) plan_file: PathBuf,
    pub(crate) transcript_file: PathBuf,
    pub(crate) prices: Arc<PriceTable>,
    pub(crate) session_id: String,
    pub(crate) sink: Sink,
    pub(crate) reports: mpsc::Sender<Report>,
}

/// The system prompt, in parts that agents share.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    /// Who the agent is, its definition, the instructions of project and user, and where it works.
    pub(crate) parts: Vec<Arc<str>>,
    /// Where the team's tasks are kept, for delegate mode.
    pub(crate) tasks: Arc<str>,
}

/// Something the crew is told by an agent.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) agent: AgentName,
    pub(crate) kind: ReportKind,
}

/// What it is told.
#[derive(Debug)]
pub(crate) enum ReportKind {
    /// The agent's state changed.
    Announced(Announcement),
    /// A model call waits before it is made, or made again.
    WaitsForModel { reason: String, delay: Duration },
    /// A model call ended.
    Spent(Spending),
    /// Mail that the crew acts on.
    Referred(Mail),
    /// Somebody has to decide on a call. A teammate's lead is asked by mail already, and the first answer counts.
    Asks { call: ToolCall, question: Question, folder: PathBuf },
    /// A teammate's question has its answer, with the reason of a refusal.
    Settled { call: String, refused: Option<String> },
    /// What a subagent that ends now knows, for whoever goes on with it.
    Remembers(Box<Conversation>),
    /// The agent has used all its turns.
    UsedUp,
    /// The agent does nothing more in this run, as its model is unavailable; it can be resumed.
    Parked { reason: String, retry_after: Option<Duration> },
    /// The agent was dropped where it stood; it can be resumed.
    Dropped,
    /// The agent is no more, since something under it failed: the disk, the system, or pitcrew itself.
    Broke { reason: String },
    /// The agent is no more, since it made the same call again and again.
    Looped { reason: String, text: Option<String> },
    /// The agent is no more.
    Ended { status: Status, reason: Option<String>, text: Option<String> },
}

/// A new state of an agent.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) status: Status,
    /// Why, where that is not plain.
    pub(crate) detail: Option<String>,
    /// What is wrong with the agent's last answer.
    pub(crate) fault: Option<AnswerFault>,
    /// Held until the state is on record; the agent waits for that where it must be known before its next deed.
    pub(crate) until_noted: Option<oneshot::Sender<()>>,
}

/// Where events for the face go. A face that hung up is no reason to stop.
#[derive(Clone, Debug)]
pub(crate) struct Sink(pub(crate) mpsc::Sender<RunEvent>);

impl Sink {
    pub(crate) async fn tell(&self, event: RunEvent) {
        // The only error is that nobody listens.
        let _closed = self.0.send(event).await;
    }

    /// Tells from where nothing can wait.
    pub(crate) fn tell_soon(&self, event: RunEvent) {
        let Err(mpsc::error::TrySendError::Full(event)) = self.0.try_send(event) else { return };
        let (sink, runtime) = (self.clone(), tokio::runtime::Handle::try_current());
        match runtime {
            Ok(runtime) => drop(runtime.spawn(async move { sink.tell(event).await })),
            Err(_none) => tracing::warn!("the screen is behind, and an event of it is lost"),
        }
    }
}

/// Whether an agent's model is offered one of its tools in a mode.
pub(crate) fn is_offered(role: Role, mode: PermissionMode, tool: &str) -> bool {
    // A lead is in plan mode or not; a teammate may hand in a plan unasked.
    let submits_plan = ToolTraits::of(tool).effect == CallEffect::SubmitsPlan;
    let is_out_of_place = role == Role::Lead && submits_plan && mode != PermissionMode::Plan;
    offers(mode, tool) && !is_out_of_place
}

impl AgentContext {
    /// Whether the agent's lead reads in the journal what this process notes there.
    pub(crate) fn has_lead_elsewhere(&self) -> bool {
        self.trust.is_some()
    }

    /// The system prompt for a mode.
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

    /// The tools as the model is told of them in a mode.
    pub(crate) fn tool_specs(&self, mode: PermissionMode) -> Arc<[ToolSpec]> {
        let spec = |tool: &Arc<dyn crate::tools::Tool>| ToolSpec {
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

    /// An event for the hooks.
    pub(crate) fn hook_event(&self, mode: PermissionMode, kind: HookKind) -> HookEvent {
        let session = HookSession {
            session_id: self.session_id.clone(),
            transcript_path: self.transcript_file.clone(),
            cwd: self.context.cwd.clone(),
            permission_mode: mode,
        };
        HookEvent { session, kind }
    }

    /// The team, as its mail is read.
    pub(super) fn as_reader(&self) -> Team {
        let trust = self.trust.as_ref().map(|trust| trust.borrow().clone());
        trust.map_or_else(|| self.team.clone(), |trust| self.team.clone().trusting(trust))
    }

    pub(crate) fn report(&self, kind: ReportKind) -> Report {
        Report { agent: self.name.clone(), kind }
    }
}
