//! Releasing the tasks of owners that are no longer members.

use pitcrew_protocol::{AgentName, ApiError, Task, TaskId, TaskStatus};
use pitcrew_store::TaskChangeKind;

use super::changed;
use crate::task_rules;
use crate::{Team, refusal};

impl Team {
    /// Releases the tasks of ended members and returns the ids of these tasks. A member can end
    /// between the check of a new owner and the assignment. Such a member then owns a task after
    /// its end.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn release_lost_tasks(&self) -> Result<Vec<TaskId>, ApiError> {
        let (config, mut released) = (self.config().await?, Vec::new());
        let tasks = self.ask(self.all_tasks()).await?;
        for gone in self.ended_members().await? {
            let is_lost = |task: &Task| {
                task.status != TaskStatus::Completed && task.owner.as_deref() == Some(gone.as_str())
            };
            if config.member(gone.as_str()).is_none() && tasks.iter().any(is_lost) {
                released.extend(self.release_tasks(&gone).await?);
            }
        }
        Ok(released)
    }

    /// Releases the tasks of an owner that is not a member, and returns the ids of these tasks.
    ///
    /// # Errors
    /// `invalid_status` if the owner is a member, `team_not_found`, `internal_error`.
    pub async fn release_tasks_of_stranger(
        &self,
        owner: &AgentName,
    ) -> Result<Vec<TaskId>, ApiError> {
        if self.config().await?.member(owner.as_str()).is_some() {
            return Err(refusal::wrong_state(format!(
                "'{owner}' is a member, and keeps its tasks"
            )));
        }
        self.release_tasks(owner).await
    }

    pub(crate) async fn release_tasks(&self, owner: &AgentName) -> Result<Vec<TaskId>, ApiError> {
        let (gone, at_ms) = (owner.clone(), self.now_ms());
        let released =
            self.edit_tasks(move |table| task_rules::release(table, &gone, at_ms)).await?;
        self.note(
            released.iter().map(|id| {
                changed(id, owner.as_str(), TaskChangeKind::Released, &["owner", "status"])
            }),
        )
        .await;
        Ok(released)
    }
}
