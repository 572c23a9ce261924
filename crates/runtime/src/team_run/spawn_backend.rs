//! Where an agent lives, behind two traits: a [`SpawnBackend`] starts members of the team, an
//! [`AgentHandle`] reaches one agent.
//!
//! There are two backends: tasks of this process (`in_process`), and processes in panes
//! (`pane_backend`). The loop of the team does not know which of them an agent lives in, but for
//! one difference, [`AgentHandle::is_elsewhere`].

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_agent::Event;
use pitcrew_protocol::{Member, PermissionMode, Program, Spawned};
use pitcrew_team::Team;
use pitcrew_tools::ToolOutcome;
use tokio::sync::oneshot;

use super::left::Left;
use super::run_context::RunContext;
use super::wake::LoopHandle;
use crate::run::RunLimits;

/// Something that starts members of a team.
///
/// A member that was started is reported to the loop: as a `Report` by an agent in this process, as
/// a `RemoteReport` by the supervisor of one elsewhere. Its end is reported exactly once, whatever
/// ended it, also a bug of ours. When the loop hears of the end of a process, the process, the
/// commands that it started and its pane are gone.
#[async_trait]
pub(super) trait SpawnBackend: Send + Sync {
    /// The program that runs the member here.
    fn program_of(&self, member: &Member) -> Program;

    /// The name of the model that the member works with here. Nothing is started by it.
    ///
    /// # Errors
    /// In words, when the member cannot be started here for its model.
    fn model_of(&self, run_context: &mut RunContext, member: &Member) -> Result<String, String>;

    /// What an earlier run left of the member here, without touching it; none where nothing
    /// outlives a run.
    async fn left_of(&self, team: &Team, member: &Member) -> Option<Left>;

    /// Starts the member, lets it go on with the conversation that it had, or takes over what an
    /// earlier run left of it. It does not wait until the agent is up: that it did not come up is
    /// reported like any other end.
    ///
    /// # Errors
    /// In words, when nothing was started. The call is then still there to be answered.
    async fn start(&self, start: MemberStart<'_>) -> Result<StartedMember, String>;
}

/// A member that is to be started.
pub(super) struct MemberStart<'a> {
    pub(super) run_context: &'a mut RunContext,
    pub(super) loop_handle: &'a LoopHandle,
    pub(super) member: &'a Member,
    /// By [`SpawnBackend::model_of`].
    pub(super) model: String,
    pub(super) mode: PermissionMode,
    /// Its worktree, or the folder of the run.
    pub(super) cwd: PathBuf,
    /// The first message, as it enters a conversation. An agent that reads its inbox finds its
    /// prompt there instead.
    pub(super) prompt: String,
    pub(super) limits: RunLimits,
    /// How long it has to end after its goodbye.
    pub(super) grace: Duration,
    /// By [`SpawnBackend::left_of`]; none when there was no earlier run.
    pub(super) left: Option<Left>,
    /// The call that waits for the start. A backend whose start takes time takes the call, and
    /// answers it when the agent is up or has failed; the loop answers a call that is left.
    pub(super) call: &'a mut Option<SpawnCall>,
}

/// A call that spawns a member.
pub(super) struct SpawnCall {
    /// Its answer, without the place where the member lives.
    pub(super) spawned: Box<Spawned>,
    pub(super) reply: oneshot::Sender<ToolOutcome>,
}

/// A member that was started.
pub(super) struct StartedMember {
    pub(super) handle: Box<dyn AgentHandle>,
    /// The model calls of its conversation, where that is read here.
    pub(super) turns: Option<u32>,
    /// Something of the conversation that cannot be read, for the face.
    pub(super) passed_over: Option<String>,
}

/// How the loop reaches an agent that runs. No method waits for the agent, and none fails: what
/// comes of it is reported. To an agent that has ended, all of them do nothing.
pub(super) trait AgentHandle: Send + Sync {
    /// The program that runs the agent.
    fn program(&self) -> Program;

    /// Whether the agent has a process of its own. It reads its mail, the config and its lead's
    /// signed commands in the team's files by itself, its states and costs are in the journal, and
    /// [`AgentHandle::tell`] does not reach it.
    fn is_elsewhere(&self) -> bool;

    /// Lets the agent know that its inbox may have changed. Many times is as good as once.
    fn ring(&self);

    /// Tells the agent something; events arrive in order.
    fn tell(&self, event: Event);

    /// Ends the agent for good. It cannot be resumed.
    fn end(&self, reason: &str);

    /// Drops the agent where it stands, so that it can be resumed. What it had begun to write is
    /// whole or not there.
    fn cancel(&self);

    /// Lets it be known that the agent approved its shutdown: it is to be gone soon, and is stopped
    /// if it is not.
    fn said_goodbye(&self);

    /// Lets it be known that the config changed, which may say whether the agent is in a turn.
    fn config_changed(&self);

    /// Lets it be known that the agent was seen at work, so that its start is complete.
    fn was_seen_at_work(&self);
}
