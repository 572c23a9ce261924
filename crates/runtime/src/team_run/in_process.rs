//! The spawn backend that runs agents in this process. Each agent is one task, with a token that
//! cancels the task. The supervisors of agents in other processes are also tasks of this backend.

use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_agent::{ContextBound, Event, Role};
use pitcrew_model::Model;
use pitcrew_permission::gate::DEFAULT_TYPE;
use pitcrew_protocol::{AgentName, Member, Program, chain};
use pitcrew_team::Team;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agent_spec::{AgentSpec, BuiltAgent};
use super::left::Left;
use super::remote::{Launching, RemoteSupervisor};
use super::run_context::RunContext;
use super::spawn_backend::{AgentHandle, MemberStart, SpawnBackend, StartedMember};
use crate::driver::{AgentSender, Driver, Report, ReportKind, Start};

/// Runs agents as tasks of this process. An idle agent is a waiting task. It costs memory, but no
/// thread and no timer.
#[derive(Debug, Clone, Default)]
pub(crate) struct InProcess {
    tasks: TaskTracker,
    kill: CancellationToken,
}

impl InProcess {
    /// Returns a token that cancels one agent. Killing the run cancels this token too.
    pub(crate) fn token(&self) -> CancellationToken {
        self.kill.child_token()
    }

    /// Starts an agent. An agent that panics is reported as failed.
    pub(crate) fn run(&self, name: &AgentName, driver: Driver, start: Start) {
        tracing::debug!(agent = %name, "an agent starts in this process");
        let (agent, reports) = (name.clone(), driver.reports());
        let life = tokio::spawn(driver.run(start));
        self.tasks.spawn(async move {
            let Err(error) = life.await else { return };
            let reason = format!("a bug in pitcrew ended it: {}", panicked(error));
            let kind = ReportKind::Broke { reason };
            // Sending cannot fail here: the loop reads reports until its last agent has ended.
            let _closed = reports.send(Report { agent, kind }).await;
        });
    }

    /// Starts the supervisor of an agent that runs in another process.
    pub(super) fn supervise(&self, supervisor: RemoteSupervisor, launching: Launching) {
        self.tasks.spawn(supervisor.run(launching));
    }

    /// Returns the token that is cancelled when the run is killed.
    pub(super) fn killed(&self) -> CancellationToken {
        self.kill.clone()
    }

    /// Cancels all agents at once.
    pub(crate) fn kill(&self) {
        self.kill.cancel();
    }

    /// Waits until every agent has ended.
    pub(crate) async fn join(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[async_trait]
impl SpawnBackend for InProcess {
    fn program_of(&self, _: &Member) -> Program {
        Program::Pitcrew
    }

    fn model_of(&self, run_context: &mut RunContext, member: &Member) -> Result<String, String> {
        let model = member.model.clone().unwrap_or_else(|| run_context.teammate_model.clone());
        run_context.model(&model).map_err(|error| chain(&error))?;
        Ok(model)
    }

    async fn left_of(&self, _: &Team, _: &Member) -> Option<Left> {
        None
    }

    /// Starts the agent with the conversation from its transcript. If the agent has no conversation
    /// yet, it starts with the prompt.
    async fn start(&self, start: MemberStart<'_>) -> Result<StartedMember, String> {
        let MemberStart {
            run_context, loop_handle, member, model, mode, cwd, prompt, limits, ..
        } = start;
        let agent_type = member.agent_type.as_deref().unwrap_or(DEFAULT_TYPE);
        let spec = AgentSpec {
            name: member.name.clone(),
            role: Role::Teammate,
            definition: run_context.definitions.get(agent_type).cloned().ok(),
            model: run_context.model(&model).map_err(|error| chain(&error))?,
            mode,
            cwd,
            parent_call: None,
            max_turns: limits.turns_of(member),
            prompt: Some(prompt),
            remembers: None,
            cancel: self.token(),
        };
        let built = run_context.spec(spec, loop_handle).await.map_err(|error| chain(&error))?;
        let BuiltAgent { driver, start, link, conversation_turns, passed_over, .. } = built;
        self.run(&member.name, driver, start);
        Ok(StartedMember { handle: Box::new(link), turns: Some(conversation_turns), passed_over })
    }
}

impl AgentHandle for AgentSender {
    fn program(&self) -> Program {
        Program::Pitcrew
    }

    fn is_elsewhere(&self) -> bool {
        false
    }

    fn ring(&self) {
        self.ring();
    }

    fn tell(&self, event: Event) {
        self.tell(event);
    }

    fn change_model(&self, model: Arc<dyn Model>, context: ContextBound) {
        self.change_model(model, context);
    }

    fn end(&self, reason: &str) {
        self.tell(Event::Killed { reason: reason.to_owned() });
    }

    fn cancel(&self) {
        self.cancel();
    }

    /// Does nothing, because an agent in this process ends by itself and reports its end.
    fn said_goodbye(&self) {}

    /// Does nothing, because the agent itself reports when its turns begin and end.
    fn config_changed(&self) {}

    /// Does nothing, because an agent in this process is ready as soon as it is started.
    fn was_seen_at_work(&self) {}
}

/// Returns the panic message of a task that panicked.
fn panicked(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "its task was dropped".to_owned() };
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    said.unwrap_or("it did not say why").to_owned()
}
