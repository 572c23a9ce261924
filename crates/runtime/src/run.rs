//! One run of a team, as its face sees it: what it is started with, the handle it is steered by, and how it ended.
//!
//! The work is done elsewhere: the loop of the team is in `crew`, the loop of one agent in `driver`. Nothing here reads
//! the environment, the home folder or the command line; the face hands everything in as [`RunOptions`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_model::{Model, ModelError, ModelSpec, PriceTable, Usage};
use pitcrew_protocol::{AgentName, ApiError, Member, PermissionMode};
use pitcrew_team::{RunBounds, SpawnRecord, Teams};
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::agent::Role;
use crate::definitions::AgentFiles;
use crate::events::RunEvent;
use crate::hosting::Hosting;
use crate::question::{Choice, Digest, PermissionQuestion};
use crate::sandbox::Machine;
use crate::settings::Settings;
use crate::solo;
pub use crate::solo::{Entry, SoloOptions};
use crate::team_run;

mod end;

pub use end::{Limit, OpenWork, RunEnd, Shortfall, TaskSummary};

/// Opens a model by the name that a flag, the settings, a definition or a spawn gave it.
///
/// The face decides what a bare name such as `opus` means, and keeps one `Pace` for all models of a run.
pub type OpenModel = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, ModelError> + Send + Sync>;

/// What agents work with, and how freely: the same for a lead with its team and for a member alone.
pub struct AgentOptions {
    /// The folder that the lead works in, or a member alone when the config says none; absolute.
    pub cwd: PathBuf,
    /// The root: plans are kept below it, and the user's agent definitions.
    pub root: PathBuf,
    /// What the sandbox of commands has to know of the machine and its user.
    pub machine: Machine,
    /// The user's home, for `~` in rules and for the user's instructions.
    pub home: Option<PathBuf>,
    /// The id of the session, in hooks, in the stream and, of a run, as `lead_session_id`.
    pub session_id: String,
    /// How models are opened; asked when the first call of one is made.
    pub open_model: OpenModel,
    /// The models that can be opened, by name or by the form of a vendor's names, for agents that spawn others.
    pub models: Vec<String>,
    /// What the user adds to the system prompt of the lead, or of a member alone.
    pub append_system_prompt: Option<String>,
    /// What tokens cost.
    pub prices: PriceTable,
    /// The merged settings.
    pub settings: Settings,
    /// The project's agent definitions, as far as they count.
    pub project_agents: AgentFiles,
    /// The permission mode of the lead, in which teammates start too, `plan` and `delegate` excepted; of a member alone when
    /// the config says none.
    pub mode: PermissionMode,
    /// Who answers when a call needs a permission; of a member alone besides its lead: the first answer counts, and with
    /// [`Asks::Deny`] its lead's is the only one.
    pub asks: Asks,
    /// Where it ends by itself; the number of teammates is no business of a member alone.
    pub limits: RunLimits,
    /// How long agents have to end when they are asked to, before they are stopped; and a lead to take a member out of the team.
    pub shutdown_grace: Duration,
}

/// What a run is started with.
pub struct RunOptions {
    /// The team room, with its backend, limits and clock.
    pub teams: Teams,
    /// Whether a new team is made or an old one goes on.
    pub begin: Begin,
    /// What its agents work with.
    pub agent_options: AgentOptions,
    /// The model of the lead.
    pub model: String,
    /// The model of every teammate that names none; the lead's when absent.
    pub teammate_model: Option<String>,
    /// Where teammates live, and what runs them.
    pub hosting: Hosting,
    /// The bounds that the command line set, which are kept for the team's next run. They are applied already.
    pub bounds: RunBounds,
}

impl fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Furnishings")
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
            .field("furnishings", &self.agent_options)
            .finish_non_exhaustive()
    }
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// A new team; a taken name gets the next number.
    New {
        /// The team's name.
        team: String,
        /// What it is to do.
        goal: String,
    },
    /// A team that a crash or a stop left behind goes on where it was.
    Resume {
        /// The team's name or folder.
        team: String,
        /// A new instruction for the lead.
        goal: Option<String>,
    },
    /// A team whose lead is dead goes on, with a member in the lead's place.
    TakeOver {
        /// The team's name or folder.
        team: String,
        /// The member whose conversation becomes the lead's; the lead's own goes on when absent.
        member: Option<AgentName>,
        /// A new instruction for the lead.
        goal: Option<String>,
    },
}

impl Begin {
    /// The team's name or folder, as it was given.
    #[must_use]
    pub fn team(&self) -> &str {
        match self {
            Self::New { team, .. } | Self::Resume { team, .. } | Self::TakeOver { team, .. } => {
                team
            }
        }
    }

    /// The instruction for the lead.
    #[must_use]
    pub fn goal(&self) -> Option<&str> {
        match self {
            Self::New { goal, .. } => Some(goal),
            Self::Resume { goal, .. } | Self::TakeOver { goal, .. } => goal.as_deref(),
        }
    }

    /// Whether the team was there before.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        match self {
            Self::New { .. } => false,
            Self::Resume { .. } | Self::TakeOver { .. } => true,
        }
    }
}

/// Who answers when a call needs a permission.
#[derive(Debug, Clone)]
pub enum Asks {
    /// A person, through the face. Dropping an [`Ask`] unanswered, or the channel, denies.
    Person(mpsc::Sender<Ask>),
    /// Nobody: denied, and the model is told why.
    Deny,
    /// Nobody: allowed.
    Allow,
}

/// A permission that a person is asked for.
#[derive(Debug)]
pub struct Ask {
    /// What is shown.
    pub question: PermissionQuestion,
    /// The input of the call as it is, for programs.
    pub input: Value,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Answer>,
}

impl Ask {
    /// Answers the question. Nobody hears it when the agent was stopped in the meantime.
    pub fn reply(self, choice: Choice) {
        let digest = self.question.digest().clone();
        let _nobody_waits = self.answer.send(Answer { digest, choice });
    }
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The digest of the question that was shown; an answer to another question is not taken, and the one that stands is
    /// asked again.
    pub digest: Digest,
    /// The choice.
    pub choice: Choice,
}

/// Where a run ends by itself, in an orderly shutdown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunLimits {
    /// Model calls of any one agent.
    pub max_turns: Option<u32>,
    /// Cost of the whole team.
    pub max_cost_usd: Option<f64>,
    /// Teammates at one time; a spawn beyond it is refused, and the run goes on.
    pub max_teammates: Option<u32>,
}

impl RunLimits {
    /// Whether the limit on the cost could not be kept with this model: nobody knows what it costs, and nothing else ends the
    /// run. A model that is named wrongly is not known to cost anything.
    #[must_use]
    pub fn needs_price_of(&self, model: &str, prices: &PriceTable) -> bool {
        let is_bounded = self.max_cost_usd.is_none() || self.max_turns.is_some();
        let has_cost = || model.parse::<ModelSpec>().is_ok_and(|spec| !spec.is_free());
        !is_bounded && has_cost() && prices.price(model).is_none()
    }

    /// The model calls that a member may make: what it was spawned with, if that is less.
    #[must_use]
    pub fn turns_of(&self, member: &Member) -> Option<u32> {
        let own = SpawnRecord::of(member).and_then(|record| record.max_turns);
        own.into_iter().chain(self.max_turns).min()
    }
}

/// Steers a run and hears of it.
///
/// Dropping it kills the run.
#[derive(Debug)]
pub struct RunHandle {
    /// The team's name.
    pub team: String,
    /// What happens, in order. The channel is bounded: who does not read slows the team down; who drops it hears no more.
    pub events: mpsc::Receiver<RunEvent>,
    pub(crate) stopper: Stopper,
    pub(crate) outcome: oneshot::Receiver<RunOutcome>,
    pub(crate) task: Option<JoinHandle<()>>,
}

/// Where teams are run.
#[derive(Debug, Clone, Copy)]
pub struct Runtime;

impl Runtime {
    /// Starts a run. It goes on by itself, in tasks of this process, until its outcome.
    ///
    /// # Errors
    /// When the team, the model or the settings cannot be used, another process runs the team, or a hook refuses the goal.
    pub async fn start(options: RunOptions) -> Result<RunHandle, RunError> {
        team_run::start(options).await
    }

    /// Starts one member of a team in this process, alone: where it is led from is another process. It goes on by itself
    /// until its outcome.
    ///
    /// # Errors
    /// When there is no such team or member, another process runs the member, or the settings cannot be used.
    pub async fn join(options: SoloOptions) -> Result<RunHandle, RunError> {
        solo::start(options).await
    }
}

impl RunHandle {
    /// Returns the switch that ends the run, to be kept where signals arrive.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Cuts off the turn of the lead, or of the one agent this is: what runs is dropped, and the agent is idle until it is
    /// told something. One that is in no turn is left as it is.
    pub fn interrupt(&self) {
        self.stopper.interrupt.notify_one();
    }

    /// Waits for the end, passing over the events that nobody read.
    pub async fn outcome(mut self) -> RunOutcome {
        while self.events.recv().await.is_some() {}
        if let Some(task) = self.task.take() {
            // A panic in it shows as a missing outcome.
            let _panicked = task.await;
        }
        (&mut self.outcome).await.unwrap_or_else(|_| RunOutcome {
            team: self.team.clone(),
            end: RunEnd::Broken { reason: "the team's loop ended without an outcome".to_owned() },
            agents: Vec::new(),
            totals: Totals::default(),
            tasks: Vec::new(),
            open: OpenWork::default(),
            kept: Vec::new(),
            team_deleted: false,
        })
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        self.stopper.kill();
    }
}

/// How a run ended, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The team's name.
    pub team: String,
    /// How it ended.
    pub end: RunEnd,
    /// The lead or the member that ran alone first, then every agent there ever was, subagents and those of earlier runs of
    /// the team included.
    pub agents: Vec<AgentSummary>,
    /// What all runs of the team took together; of a member that ran alone what it took.
    pub totals: Totals,
    /// The tasks of the team as the run left them; of a team that its lead deleted as they were then.
    pub tasks: Vec<TaskSummary>,
    /// What is open, however the run ended.
    pub open: OpenWork,
    /// Worktrees that were kept because they hold something.
    pub kept: Vec<KeptWorktree>,
    /// Whether the team is gone from disk, by its lead or by something else; otherwise it can be resumed.
    pub team_deleted: bool,
}

impl RunOutcome {
    /// Sums up the cost of all agents, in US dollars.
    #[must_use]
    pub fn cost_usd(&self) -> f64 {
        self.agents.iter().map(|agent| agent.cost_usd).sum()
    }

    /// Sums up the tokens of all agents.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.agents.iter().map(|agent| agent.usage).sum()
    }
}

/// What the runs of a team took, this one included.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// How long they ran.
    pub ran: Duration,
    /// How long models took, those that worked side by side added up.
    pub model_time: Duration,
    /// Tokens and cost by model.
    pub models: BTreeMap<String, ModelTotal>,
}

/// Tokens one answer may have; the largest that every current model takes.
pub const MAX_OUTPUT_TOKENS: u32 = 16_000;

/// What calls of one model took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelTotal {
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars, as far as it is known.
    pub cost_usd: f64,
    /// Whether a call had no price: it is in no sum of costs.
    pub is_unpriced: bool,
    /// How many tokens a conversation with it may hold.
    pub context_window: u64,
}

impl Totals {
    /// Models without a price.
    pub fn unpriced(&self) -> impl Iterator<Item = &str> {
        self.models.iter().filter(|(_, total)| total.is_unpriced).map(|(model, _)| model.as_str())
    }
}

/// What one agent did, in all runs of its team.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSummary {
    /// Its name.
    pub name: AgentName,
    /// Its part.
    pub role: Role,
    /// Its type.
    pub agent_type: Option<String>,
    /// The model it ran on.
    pub model: String,
    /// How it stands at the end.
    pub state: pitcrew_protocol::Status,
    /// Why it ended, where that is not plain.
    pub reason: Option<String>,
    /// Model calls.
    pub turns: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars; 0 for a model without a price.
    pub cost_usd: f64,
    /// Whether its model calls are known: not those of another client that keeps no conversation.
    pub is_counted: bool,
}

/// A worktree that outlived its teammate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWorktree {
    /// Whose it was.
    pub agent: AgentName,
    /// Where it is.
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
    /// Why it was kept.
    pub reason: String,
}

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The team could not be made or opened.
    #[error(transparent)]
    Team(#[from] ApiError),
    /// The model could not be opened.
    #[error("cannot open the model {name:?}")]
    Model {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: ModelError,
    },
    /// Another process runs the team.
    #[error("the team {team:?} is run by process {pid}")]
    Held {
        /// The team.
        team: String,
        /// The process.
        pid: u32,
    },
    /// Another process runs the member.
    #[error("the member {agent} is run by process {pid}")]
    MemberHeld {
        /// The member.
        agent: AgentName,
        /// The process.
        pid: u32,
    },
    /// The team's files could not be read or written.
    #[error("cannot open the team {team:?}")]
    Store {
        /// The team.
        team: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Commands were to run unasked in a sandbox, which this machine does not hold.
    #[error("commands cannot be held to a sandbox here: {reason}")]
    Unbounded {
        /// Why, in a sentence.
        reason: String,
    },
    /// The team has cost what the run may cost before it goes on.
    #[error("the team has cost ${cost_usd:.2} already, and may cost ${most_usd:.2}")]
    Spent {
        /// What all its runs cost.
        cost_usd: f64,
        /// The limit.
        most_usd: f64,
    },
    /// A hook refused the goal.
    #[error("a hook refused the goal: {reason}")]
    Refused {
        /// What it said.
        reason: String,
    },
    /// An agent definition, a hook or a rule in the settings is not usable.
    #[error("the settings cannot be used")]
    Settings {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Ends a run: the first call asks, the second does not. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    stop: tokio_util::sync::CancellationToken,
    kill: tokio_util::sync::CancellationToken,
    interrupt: Arc<Notify>,
}

impl Stopper {
    /// Asks every agent to shut down, and stops those that do not within the grace.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Cancels everything the run owns, at once.
    pub fn kill(&self) {
        self.kill.cancel();
    }

    /// Completes when a stop was asked for.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Completes each time that the turn is to be cut off.
    pub(crate) async fn interrupted(&self) {
        self.interrupt.notified().await;
    }

    /// Completes when the run is to be killed.
    pub(crate) async fn killed(&self) {
        self.kill.cancelled().await;
    }
}
