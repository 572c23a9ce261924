//! Agents in this process: each one task, tracked, with a token that drops it. So are the minders of those elsewhere.

use pitcrew_protocol::AgentName;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::remote::{Launching, RemoteSupervisor};
use crate::driver::{Driver, Report, ReportKind, Start};

/// Runs agents as tasks of this process. An idle one is a waiting task: it costs memory, no thread and no timer.
#[derive(Debug, Clone, Default)]
pub(crate) struct InProcess {
    tasks: TaskTracker,
    kill: CancellationToken,
}

impl InProcess {
    /// A token that drops one agent, and is cancelled with all others by a kill.
    pub(crate) fn token(&self) -> CancellationToken {
        self.kill.child_token()
    }

    /// Starts an agent. One that a bug of ours ends in the middle is reported as failed, like any other that dies.
    pub(crate) fn start(&self, name: &AgentName, driver: Driver, start: Start) {
        tracing::debug!(agent = %name, "an agent starts in this process");
        let (agent, reports) = (name.clone(), driver.reports());
        let life = tokio::spawn(driver.run(start));
        self.tasks.spawn(async move {
            let Err(error) = life.await else { return };
            let reason = format!("a bug in pitcrew ended it: {}", panicked(error));
            let kind = ReportKind::Broke { reason };
            // The loop reads reports until its last agent ended.
            let _closed = reports.send(Report { agent, kind }).await;
        });
    }

    /// Minds an agent that lives elsewhere.
    pub(super) fn mind(&self, supervisor: RemoteSupervisor, launching: Launching) {
        self.tasks.spawn(supervisor.run(launching));
    }

    /// What is cancelled by a kill.
    pub(super) fn killed(&self) -> CancellationToken {
        self.kill.clone()
    }

    /// Drops all agents at once.
    pub(crate) fn kill(&self) {
        self.kill.cancel();
    }

    /// Waits until every agent has ended.
    pub(crate) async fn join(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What a task that ended in a panic said last.
fn panicked(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "its task was dropped".to_owned() };
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    said.unwrap_or("it did not say why").to_owned()
}
