//! Agents in this process: each one task, tracked, with a token that drops it.

use pitcrew_protocol::AgentName;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driver::{Driver, Start};

/// Runs agents as tasks of this process. An idle one is a waiting task: it costs memory, no thread and no timer.
#[derive(Debug, Clone, Default)]
pub(super) struct InProcess {
    tasks: TaskTracker,
    kill: CancellationToken,
}

impl InProcess {
    /// A token that drops one agent, and is cancelled with all others by a kill.
    pub(super) fn token(&self) -> CancellationToken {
        self.kill.child_token()
    }

    /// Starts an agent.
    pub(super) fn start(&self, name: &AgentName, driver: Driver, start: Start) {
        tracing::debug!(agent = %name, "an agent starts in this process");
        self.tasks.spawn(driver.run(start));
    }

    /// Drops all agents at once.
    pub(super) fn kill(&self) {
        self.kill.cancel();
    }

    /// Waits until every agent has ended.
    pub(super) async fn join(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
