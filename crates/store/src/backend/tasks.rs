//! Tasks: the shared list of a team.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_protocol::{ApiError, Task, TaskId, TeamDir};

use crate::StoreError;

/// An edit of a team's tasks. The store can run the edit several times, each time on a newer table.
/// Only the result of the last run is written. Between the read for that last run and the write, no
/// other writer changes a task.
pub type TaskEdit = Box<dyn FnMut(&mut TaskTable) -> Result<(), ApiError> + Send>;

/// The tasks of teams.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Returns all tasks, sorted by id, including the internal tasks of the reference client. A
    /// dependency between two tasks is listed in both tasks, even if a crash left it in the file of
    /// only one task. All callers share one list until a task changes.
    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError>;

    /// Edits the tasks, see [`TaskTable`]. The ids of removed tasks are never used again. An edit
    /// of one task, with its dependencies, is atomic under a crash. A crash or an error of the disk
    /// during an edit of several tasks can leave only some of the tasks changed.
    async fn edit_tasks(&self, team: &TeamDir, edit: TaskEdit) -> Result<(), StoreError>;
}

/// All tasks of a team during an edit.
///
/// An edit is allowed to add a dependency at only one of its two tasks. An edit that removes a
/// dependency must remove it from both tasks. If an edit deletes a task, the store removes the
/// references to that task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTable {
    /// The tasks by id. An edit changes, inserts or removes tasks in this map. A new task must get
    /// the id [`TaskTable::next_id`].
    pub tasks: BTreeMap<TaskId, Task>,
    /// The id for the next new task.
    pub next_id: u64,
}
