//! Two traits that hide where an agent runs. A [`SpawnBackend`] starts members of the team, and an
//! [`AgentHandle`] controls one agent.
//!
//! There are two backends: tasks of this process (`in_process`), and processes in panes
//! (`pane_backend`). The team's loop does not need to know which of the two runs an agent. The only
//! exception is [`AgentHandle::is_elsewhere`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_agent::{ContextBound, Event};
use pitcrew_model::Model;
use pitcrew_protocol::{Member, PermissionMode, Program, Spawned};
use pitcrew_team::Team;
use pitcrew_tools::ToolOutcome;
use tokio::sync::oneshot;

use super::left::Left;
use super::run_context::RunContext;
use super::wake::LoopHandle;
use crate::run::RunLimits;

/// Starts members of a team.
///
/// The loop learns about a started member through reports. An agent in this process sends a
/// `Report`. For an agent in another process, its supervisor sends a `RemoteReport`. The end of a
/// member is reported exactly once, whatever the cause is, even if the cause is a bug in pitcrew.
/// When the loop receives the end of a process, the process, its commands and its pane are already
/// gone.
#[async_trait]
pub(super) trait SpawnBackend: Send + Sync {
    /// Returns the program that runs the member if this backend starts the member.
    fn program_of(&self, member: &Member) -> Program;

    /// Returns the name of the model that the member will use in this backend. Starts nothing.
    ///
    /// # Errors
    /// The reason as text, if the member cannot be started here because of its model.
    fn model_of(&self, run_context: &mut RunContext, member: &Member) -> Result<String, String>;

    /// Returns the process and the panes of the member that an earlier run left behind, and leaves
    /// them unchanged. Returns `None` if the members of this backend always end together with the
    /// run.
    async fn left_of(&self, team: &Team, member: &Member) -> Option<Left>;

    /// Starts the member, continues its earlier conversation, or supervises its process from an
    /// earlier run. Does not wait until the agent is ready. If the agent never becomes ready, this
    /// is reported like any other end.
    ///
    /// # Errors
    /// The reason as text, if nothing was started. In that case, the caller must answer the spawn
    /// call.
    async fn start(&self, start: MemberStart<'_>) -> Result<StartedMember, String>;
}

/// A member to start, with the data for its start.
pub(super) struct MemberStart<'a> {
    pub(super) run_context: &'a mut RunContext,
    pub(super) loop_handle: &'a LoopHandle,
    pub(super) member: &'a Member,
    /// The model name that [`SpawnBackend::model_of`] returned.
    pub(super) model: String,
    pub(super) mode: PermissionMode,
    /// The folder in which the member works: its git worktree if it has one, otherwise the folder
    /// of the run.
    pub(super) cwd: PathBuf,
    /// The first message, in the form in which it enters a conversation. It is not used for an
    /// agent that reads its inbox itself, because such an agent finds the prompt in its inbox.
    pub(super) prompt: String,
    pub(super) limits: RunLimits,
    /// Time that the member has to end after it approved its shutdown.
    pub(super) grace: Duration,
    /// The value that [`SpawnBackend::left_of`] returned. `None` if there was no earlier run.
    pub(super) left: Option<Left>,
    /// The spawn call that waits for the start. If starting takes time, the backend takes the call
    /// out of this option, and answers it when the agent is ready or has failed. If the backend
    /// leaves the call here, the loop answers it.
    pub(super) call: &'a mut Option<SpawnCall>,
}

/// A call that spawns a member.
pub(super) struct SpawnCall {
    /// The answer to the call. It does not yet say where the member runs.
    pub(super) spawned: Box<Spawned>,
    pub(super) reply: oneshot::Sender<ToolOutcome>,
}

/// A member that was started.
pub(super) struct StartedMember {
    pub(super) handle: Box<dyn AgentHandle>,
    /// Number of model calls in the member's conversation. `None` if another process reads the
    /// conversation.
    pub(super) turns: Option<u32>,
    /// A warning for the user interface about parts of the conversation that cannot be read.
    pub(super) passed_over: Option<String>,
}

/// Controls a running agent for the loop. No method waits for the agent, and no method fails. The
/// results are reported to the loop. If the agent has ended, all methods do nothing.
pub(super) trait AgentHandle: Send + Sync {
    /// Returns the program that runs the agent.
    fn program(&self) -> Program;

    /// Returns true if the agent has its own process. Such an agent reads its mail, the config and
    /// its lead's signed commands from the team's files. Its states and costs are in the journal.
    /// [`AgentHandle::tell`] has no effect on such an agent.
    fn is_elsewhere(&self) -> bool;

    /// Tells the agent that its inbox may have changed. Several calls count as one if the agent has
    /// not reacted yet.
    fn ring(&self);

    /// Sends an event to the agent. The agent receives the events in the order in which they were
    /// sent.
    fn tell(&self, event: Event);

    /// Gives the agent another model, which it calls from its next model call on. `context` has the
    /// limits of the model's context window. Has no effect on an agent in its own process.
    fn change_model(&self, model: Arc<dyn Model>, context: ContextBound);

    /// Ends the agent for good. The agent cannot be resumed.
    fn end(&self, reason: &str);

    /// Cancels the agent at once. The agent can be resumed. A write that the agent had begun is
    /// either completed or has no effect.
    fn cancel(&self);

    /// Call this when the agent has approved its shutdown. If the agent does not end soon, it is
    /// stopped.
    fn said_goodbye(&self);

    /// Call this when the config has changed. The config may show whether the agent is in a turn.
    fn config_changed(&self);

    /// Call this when the agent was seen working. Its start then counts as complete.
    fn was_seen_at_work(&self);
}
