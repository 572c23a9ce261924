//! One run of a team as the user interface sees it: the options of the run, the handle that
//! controls the run, and the outcome of the run.
//!
//! Other modules do the work: `team_run` contains the loop of the team, and `driver` contains the
//! loop of one agent. This module does not read the environment, the home folder or the command
//! line. The user interface passes everything in [`RunOptions`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_agent::Role;
use pitcrew_model::{Model, ModelError, PriceTable, Usage, in_dollars};
use pitcrew_permission::settings::Settings;
use pitcrew_process::our_git::RunningGit;
use pitcrew_process::sandbox::Machine;
use pitcrew_protocol::{AgentName, ApiError, PermissionMode};
use pitcrew_team::{RunBounds, SecretText, Teams};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::control_socket::Visitor;
use crate::definitions::AgentFiles;
use crate::events::{RunEvent, duration_ms, lossy_path};
use crate::hosting::Hosting;
use crate::solo;

pub use crate::solo::{Entry, SoloOptions};
use crate::team_run;

mod ask;
mod end;
mod limits;
mod permissions;

pub(crate) use ask::AnswerReceipt;
pub use ask::{Answer, Ask, Asks, Taken};
pub use end::{Limit, OpenWork, RESUMABLE, RunEnd, Shortfall, TaskSummary};
pub use limits::RunLimits;
pub use permissions::{Answers, Granted, RunPermissions};

/// Opens a model by its name. The name comes from a flag, the settings, an agent definition or a
/// spawn request.
///
/// The user interface decides the meaning of a short name such as `opus`. It also shares one `Pace`
/// among all models of a run: if a provider asks one agent to slow down, all agents wait.
pub type OpenModel = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, ModelError> + Send + Sync>;

/// The resources and rules that agents work with. They are the same for a lead with its team and
/// for a member that runs alone.
pub struct AgentOptions {
    /// The lead's working folder, as an absolute path. A member that runs alone uses this folder if
    /// the config names no folder for the member.
    pub cwd: PathBuf,
    /// The root folder (`~/.claude` by default). Plans and the user's agent definitions are stored
    /// below it.
    pub root: PathBuf,
    /// Facts about the machine and its user that the sandbox of commands needs.
    pub machine: Machine,
    /// The user's home folder. It is needed for `~` in rules and for the user's own instructions.
    pub home: Option<PathBuf>,
    /// The session's id. It appears in the input of hooks, in the output stream, and as
    /// `lead_session_id` in the config.
    pub session_id: String,
    /// Opens a model. The runtime calls this function before its first call to that model.
    pub open_model: OpenModel,
    /// The models that can be opened. An agent that spawns others learns these names. Each entry is
    /// the name of a model, or a pattern for the names of one provider.
    pub models: Vec<String>,
    /// The text that the user adds to the system prompt of the lead, or of a member that runs
    /// alone.
    pub append_system_prompt: Option<String>,
    /// The prices of tokens for each model.
    pub prices: PriceTable,
    /// The settings, merged from all sources.
    pub settings: Settings,
    /// The agent definitions of the project. Definitions that the user does not trust are not
    /// included.
    pub project_agents: AgentFiles,
    /// The secret values in the environment of this process. The team records their digests.
    pub secret_texts: Vec<SecretText>,
    /// The permission mode of the lead. Teammates start in the same mode, unless it is `plan` or
    /// `delegate`. A member that runs alone uses this mode if the config names no mode for the
    /// member.
    pub mode: PermissionMode,
    /// Who answers when a call needs permission. If a member runs alone, its request also goes to
    /// the member's lead, and the first answer counts. With [`Asks::Deny`], only the lead answers
    /// such a member.
    pub asks: Asks,
    /// The limits at which the run ends. For a member that runs alone, the limit on the number of
    /// teammates has no effect.
    pub limits: RunLimits,
    /// Time that agents have to end after a shutdown request. After this time they are stopped. A
    /// member that joined the team by itself and has ended waits at most this long until the lead
    /// removes it. After that, the member removes itself.
    pub shutdown_grace: Duration,
}

/// The options of a run.
pub struct RunOptions {
    /// The storage of all teams, with its backend, limits and clock.
    pub teams: Teams,
    /// Whether the run creates a new team or continues an existing one.
    pub begin: Begin,
    /// The resources and rules that the agents of the run work with.
    pub agent_options: AgentOptions,
    /// The model of the lead.
    pub model: String,
    /// The model of every teammate whose spawn request names no model. `None` means the lead's
    /// model.
    pub teammate_model: Option<String>,
    /// Where teammates run, and which program runs each teammate.
    pub hosting: Hosting,
    /// The limits set on the command line. They already apply to this run. They are also stored, so
    /// that they apply to the team's next run.
    pub bounds: RunBounds,
}

impl fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentOptions")
            .field("cwd", &self.cwd)
            .field("root", &self.root)
            .field("mode", &self.mode)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("begin", &self.begin)
            .field("model", &self.model)
            .field("agent_options", &self.agent_options)
            .finish_non_exhaustive()
    }
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Begin {
    /// The run creates a new team. If a team with this name exists, a number is added to the name.
    New {
        /// The team's name.
        team: String,
        /// The task for the team.
        goal: String,
    },
    /// The run continues a team that a crash or a stop has interrupted.
    Resume {
        /// The team's name or folder.
        team: String,
        /// A new instruction for the lead.
        goal: Option<String>,
    },
    /// The run continues a team whose lead is dead. This process becomes the lead. The new lead
    /// continues either its predecessor's conversation or the conversation of a member.
    TakeOver {
        /// The team's name or folder.
        team: String,
        /// The member whose conversation becomes the lead's conversation. `None` means that the
        /// conversation of the former lead continues.
        member: Option<AgentName>,
        /// A new instruction for the lead.
        goal: Option<String>,
    },
}

impl Begin {
    /// Returns the team's name or folder, in the form in which the user gave it.
    #[must_use]
    pub fn team(&self) -> &str {
        match self {
            Self::New { team, .. } | Self::Resume { team, .. } | Self::TakeOver { team, .. } => {
                team
            }
        }
    }

    /// Returns the instruction for the lead.
    #[must_use]
    pub fn goal(&self) -> Option<&str> {
        match self {
            Self::New { goal, .. } => Some(goal),
            Self::Resume { goal, .. } | Self::TakeOver { goal, .. } => goal.as_deref(),
        }
    }

    /// Returns true if the team existed before this run.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        match self {
            Self::New { .. } => false,
            Self::Resume { .. } | Self::TakeOver { .. } => true,
        }
    }
}

/// The handle of a run. It controls the run and receives the run's events.
///
/// Dropping the handle kills the run.
#[derive(Debug)]
pub struct RunHandle {
    /// The team's name.
    pub team: String,
    /// The events in order. The channel is bounded, so a slow reader slows the team down. After
    /// this receiver is dropped, events are discarded.
    pub events: mpsc::Receiver<RunEvent>,
    /// Requests of the user's other processes that the host of the run carries out. If this
    /// receiver is closed, the run refuses these requests.
    pub visitors: mpsc::Receiver<Visitor>,
    pub(crate) stopper: Stopper,
    pub(crate) outcome: oneshot::Receiver<RunOutcome>,
    pub(crate) task: Option<JoinHandle<()>>,
}

/// Starts runs of teams and of single members.
#[derive(Debug, Clone, Copy)]
pub struct Runtime;

impl Runtime {
    /// Starts a run. The run continues in tasks of this process until it has an outcome.
    ///
    /// # Errors
    /// If the team, the model or the settings cannot be used, if another process runs the team, or
    /// if a hook refuses the goal.
    pub async fn start(options: RunOptions) -> Result<RunHandle, RunError> {
        team_run::start(options).await
    }

    /// Starts one member of a team alone in this process. The member's lead is in another process.
    /// The member runs until it has an outcome.
    ///
    /// # Errors
    /// If the team or the member does not exist, if another process runs the member, or if the
    /// settings cannot be used.
    pub async fn join(options: SoloOptions) -> Result<RunHandle, RunError> {
        solo::start(options).await
    }
}

impl RunHandle {
    /// Returns the [`Stopper`] of this run. A signal handler, for example, can end the run with it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Interrupts the current turn of the lead, or of the member that runs alone. The running work
    /// is dropped, and the agent is idle until its next input. If the agent is not in a turn, this
    /// has no effect.
    pub fn interrupt(&self) {
        self.stopper.interrupt();
    }

    /// Waits for the end of the run and discards all events that were not read.
    pub async fn outcome(mut self) -> RunOutcome {
        // Read and discard all events. Otherwise the bounded channel would be full, and the team's
        // loop would wait forever.
        self.visitors.close();
        while self.events.recv().await.is_some() {}
        if let Some(task) = self.task.take() {
            // Ignore a panic of the task here. After a panic there is no outcome, and the code
            // below handles that case.
            let _panicked = task.await;
        }
        (&mut self.outcome).await.unwrap_or_else(|_| RunOutcome::broken(&self.team))
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        self.stopper.kill();
    }
}

/// How a run ended, and its statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The team's name.
    pub team: String,
    /// How the run ended.
    pub end: RunEnd,
    /// All agents that the team ever had, including subagents and agents of earlier runs. The lead,
    /// or the member that ran alone, comes first.
    pub agents: Vec<AgentSummary>,
    /// The totals of all runs of the team. If a member ran alone, these are the totals of this
    /// member.
    pub totals: Totals,
    /// The team's tasks at the end of the run. If the lead deleted the team, these are the tasks at
    /// the time of the deletion.
    pub tasks: Vec<TaskSummary>,
    /// The work that is still open. This field is set for every kind of end.
    pub open: OpenWork,
    /// The git worktrees that were kept because they contain work.
    pub kept: Vec<KeptWorktree>,
    /// Whether the team was deleted from disk, by its lead or by another process. If it was not
    /// deleted, the team can be resumed.
    pub team_deleted: bool,
}

impl RunOutcome {
    /// Returns the outcome of a run whose loop ended without an outcome, by a panic.
    #[must_use]
    pub fn broken(team: &str) -> Self {
        Self {
            team: team.to_owned(),
            end: RunEnd::Broken { reason: "the team's loop ended without an outcome".to_owned() },
            agents: Vec::new(),
            totals: Totals::default(),
            tasks: Vec::new(),
            open: OpenWork::default(),
            kept: Vec::new(),
            team_deleted: false,
        }
    }

    /// Returns the total cost of all agents in US dollars.
    #[must_use]
    pub fn cost_usd(&self) -> f64 {
        self.agents.iter().map(|agent| agent.cost_usd).sum()
    }

    /// Returns the total number of tokens of all agents.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.agents.iter().map(|agent| agent.usage).sum()
    }
}

/// The totals of all runs of a team, including the current run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The total time of the runs.
    #[serde(rename = "ran_ms", with = "duration_ms")]
    pub ran: Duration,
    /// The total time of model calls. If two calls ran in parallel, both times count.
    #[serde(rename = "model_time_ms", with = "duration_ms")]
    pub model_time: Duration,
    /// Tokens and cost for each model.
    pub models: BTreeMap<String, ModelTotal>,
}

/// Maximum number of tokens in one answer of a model. It is the largest value that every current
/// model accepts.
pub const MAX_OUTPUT_TOKENS: u32 = 16_000;

/// The totals of all calls of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelTotal {
    /// The tokens that these calls used.
    pub usage: Usage,
    /// Cost in US dollars of those calls whose price is known.
    pub cost_usd: f64,
    /// Whether the price of some call was unknown. Such a call is missing from all cost totals.
    pub is_unpriced: bool,
    /// Maximum number of tokens in a conversation with the model.
    pub context_window: u64,
}

impl Totals {
    /// Returns the names of the models that have no known price.
    pub fn unpriced(&self) -> impl Iterator<Item = &str> {
        self.models.iter().filter(|(_, total)| total.is_unpriced).map(|(model, _)| model.as_str())
    }
}

/// The work of one agent in all runs of its team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSummary {
    /// The agent's name.
    pub name: AgentName,
    /// The agent's role.
    pub role: Role,
    /// The agent's type.
    pub agent_type: Option<String>,
    /// The agent's model.
    pub model: String,
    /// The agent's state at the end.
    pub state: pitcrew_protocol::Status,
    /// The reason that was given for the agent's last state. `None` if no reason was given.
    pub reason: Option<String>,
    /// Number of the agent's model calls.
    pub turns: u32,
    /// Number of the agent's tool calls.
    pub tool_calls: u32,
    /// The tokens that the agent used.
    pub usage: Usage,
    /// Cost in US dollars. 0 for a model without a known price.
    pub cost_usd: f64,
    /// Whether the agent's model calls are known. They are not known if another client runs the
    /// agent and stores no conversation.
    pub is_counted: bool,
}

/// A git worktree that was kept after its teammate ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWorktree {
    /// The teammate that used the worktree.
    pub agent: AgentName,
    /// The path of the worktree.
    #[serde(serialize_with = "lossy_path")]
    pub path: PathBuf,
    /// The git branch of the worktree.
    pub branch: String,
    /// Why the worktree was kept.
    pub reason: String,
}

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The team could not be created or opened.
    #[error(transparent)]
    Team(#[from] ApiError),
    /// The model could not be opened.
    #[error("cannot open the model {name:?}")]
    Model {
        /// The name of the model.
        name: String,
        /// The reason why the model could not be opened.
        #[source]
        source: ModelError,
    },
    /// Another process runs the team.
    #[error("the team {team:?} is run by process {pid}")]
    Held {
        /// The team's name.
        team: String,
        /// The id of the process that runs the team.
        pid: u32,
    },
    /// Another process runs the member.
    #[error("the member {agent} is run by process {pid}")]
    MemberHeld {
        /// The name of the member.
        agent: AgentName,
        /// The id of the process that runs the member.
        pid: u32,
    },
    /// The team's files could not be read or written.
    #[error("cannot open the team {team:?}")]
    Store {
        /// The team's name.
        team: String,
        /// The error of the storage.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The settings demand that commands run in a sandbox without a permission request, but this
    /// machine does not support the sandbox.
    #[error("the sandbox for commands does not work here: {reason}")]
    Unbounded {
        /// The reason why the sandbox does not work, in one sentence.
        reason: String,
    },
    /// The cost of the team's earlier runs has already reached the cost limit of this run.
    #[error("the team has already cost {}, and its limit is {}", in_dollars(*cost_usd), in_dollars(*most_usd))]
    Spent {
        /// The cost of all earlier runs in US dollars.
        cost_usd: f64,
        /// The cost limit in US dollars.
        most_usd: f64,
    },
    /// A hook refused the goal.
    #[error("a hook refused the goal: {reason}")]
    Refused {
        /// The reason for the refusal.
        reason: String,
    },
    /// An agent definition, a hook or a rule in the settings is invalid.
    #[error("the settings cannot be used")]
    Settings {
        /// The reason why the settings are invalid.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Stops a run. [`Self::stop`] asks the agents to end, and [`Self::kill`] ends them at once.
/// Cloning a `Stopper` is cheap.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    stop: tokio_util::sync::CancellationToken,
    kill: tokio_util::sync::CancellationToken,
    interrupt: Arc<Notify>,
    git: RunningGit,
}

impl Stopper {
    /// Asks every agent to shut down. After the grace period, stops the agents that are still
    /// running. Ends the git command for which the run waits.
    pub fn stop(&self) {
        self.stop.cancel();
        self.git.end();
    }

    /// Cancels all work of the run at once.
    pub fn kill(&self) {
        self.kill.cancel();
        self.git.end();
    }

    /// Returns the git commands of the run.
    pub(crate) fn git(&self) -> RunningGit {
        self.git.clone()
    }

    /// Interrupts the current turn of the lead, or of the member that runs alone. The running work
    /// is dropped, and the agent is idle until its next input. If the agent is not in a turn, this
    /// has no effect.
    pub fn interrupt(&self) {
        self.interrupt.notify_one();
    }

    /// Completes when a stop is requested.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Waits until the user interrupts the current turn. Call this function again to wait for the
    /// next interrupt.
    pub(crate) async fn interrupted(&self) {
        self.interrupt.notified().await;
    }

    /// Completes when somebody kills the run.
    pub(crate) async fn killed(&self) {
        self.kill.cancelled().await;
    }
}
