//! Tasks: the shared list of a team.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_protocol::{ApiError, Task, TaskId, TeamDir};

use crate::StoreError;

/// A change to a team's tasks. It may run several times, each time on a newer table, and only the
/// last run counts. No task changes between the reading of that last table and the write.
pub type TaskEdit = Box<dyn FnMut(&mut TaskTable) -> Result<(), ApiError> + Send>;

/// The tasks of teams.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Returns all tasks, sorted by id, including the reference client's internal ones. Each
    /// dependency appears at both tasks, even if a crash left it written in only one. Callers share
    /// one table until a task changes.
    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError>;

    /// Changes tasks, see [`TaskTable`]. The ids of removed tasks are never used again. A change of
    /// one task, with its dependencies, is atomic under a crash. A crash during changes to several
    /// tasks may leave only some of the changes.
    async fn edit_tasks(&self, team: &TeamDir, edit: TaskEdit) -> Result<(), StoreError>;
}

/// All tasks of a team during an edit.
///
/// An edit may add a dependency at either of its two tasks, but must remove it from both. The store
/// itself removes references to deleted tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTable {
    /// The tasks by id. Change, insert (with the id [`TaskTable::next_id`]) or remove them here.
    pub tasks: BTreeMap<TaskId, Task>,
    /// The id of the next new task.
    pub next_id: u64,
}
