//! Tasks whose file is missing or unreadable although no operation deleted the task.

use pitcrew_protocol::{ApiError, StatusChange, TaskFacts, TaskId, TaskUpdated};
use pitcrew_store::TaskChangeKind;

use super::changed;
use crate::Team;
use crate::task_rules::Stamp;

impl Team {
    /// Returns the tasks that are open in the journal, but whose file is missing or unreadable
    /// although no operation deleted the task.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn lost_tasks(&self) -> Result<Vec<TaskId>, ApiError> {
        let there = self.tasks().await?;
        let (summary, _) = self.ask(self.backend().journal_summary(self.dir())).await?;
        let is_lost = |id: &TaskId| there.iter().all(|task| task.id != *id);
        Ok(summary.open_tasks.into_iter().filter(is_lost).collect())
    }

    /// Records that a task is deleted. This is for a task whose file is missing or unreadable.
    pub(super) async fn give_up_lost_task(
        &self,
        stamp: &Stamp,
        id: &str,
        missing: ApiError,
    ) -> Result<TaskUpdated, ApiError> {
        let Some(task_id) = self.lost_tasks().await?.into_iter().find(|lost| lost.as_str() == id)
        else {
            return Err(missing);
        };
        self.note([changed(&task_id, &stamp.by.name, TaskChangeKind::Deleted, &["deleted"])]).await;
        let facts = TaskFacts {
            status: Some(StatusChange::Deleted.as_str().to_owned()),
            ..TaskFacts::default()
        };
        let updated_fields = vec!["deleted".to_owned()];
        Ok(TaskUpdated { success: true, task_id, updated_fields, status_change: None, facts })
    }
}
