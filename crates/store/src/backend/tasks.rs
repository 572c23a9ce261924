//! Tasks: the shared list of a team.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_protocol::{ApiError, Task, TaskId, TeamDir};

use crate::StoreError;

/// A change to a team's tasks. It may be made more than once, each time on a newer table; only the last time counts, and
/// nothing changed between its table and its coming into force.
pub type TaskEdit = Box<dyn FnMut(&mut TaskTable) -> Result<(), ApiError> + Send>;

/// The tasks of teams.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// All tasks, by id, the reference client's internal ones included. A dependency is seen from both its ends, even
    /// when a crash left it written on one. While nothing changes, callers share one table.
    async fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError>;

    /// Changes tasks: see [`TaskTable`]. Ids of removed tasks are never given again. A crash leaves a change of one task,
    /// its dependencies included, made or not made; of changes to several tasks it may leave some.
    async fn edit_tasks(&self, team: &TeamDir, edit: TaskEdit) -> Result<(), StoreError>;
}

/// All tasks of a team while they are edited.
///
/// A dependency may be added at either end; to take one out, take it out at both. What mentions a removed task is
/// mended by the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTable {
    /// The tasks by id. Change, insert (under [`TaskTable::next_id`]) or remove them here.
    pub tasks: BTreeMap<TaskId, Task>,
    /// The id the next new task gets.
    pub next_id: u64,
}
