//! Checks that every backend must pass for tasks.

use std::sync::Arc;

use futures_util::future::join_all;
use pitcrew_protocol::{ApiError, ErrorCode, Task, TaskId, TaskStatus};

use super::{Failure, add_tasks, same, task, task_ids, team};
use crate::{Backend, StoreError, TaskTable};

pub(super) async fn a_new_task_gets_the_next_id(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    add_tasks(&backend, &dir, 11).await?;
    add_tasks(&backend, &dir, 1).await?;
    same("ids", task_ids(&backend, &dir).await?, (1..=12).map(|n: u32| n.to_string()).collect())
}

pub(super) async fn an_id_is_never_used_again(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    add_tasks(&backend, &dir, 3).await?;
    let remove = |table: &mut TaskTable| {
        table.tasks.retain(|id, _| id.number() == 1);
        Ok(())
    };
    backend.edit_tasks(&dir, Box::new(remove)).await?;
    add_tasks(&backend, &dir, 1).await?;
    same("ids", task_ids(&backend, &dir).await?, vec!["1".into(), "4".into()])?;
    let again = |table: &mut TaskTable| {
        let id = TaskId::from_number(2);
        table.tasks.insert(id.clone(), task(id));
        Ok(())
    };
    let again = backend.edit_tasks(&dir, Box::new(again)).await;
    same("a used id is refused", matches!(again, Err(StoreError::Refused(_))), true)
}

pub(super) async fn a_dependency_is_seen_from_both_ends(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    add_tasks(&backend, &dir, 3).await?;
    let block = |table: &mut TaskTable| {
        if let Some(task) = table.tasks.get_mut(&TaskId::from_number(1)) {
            task.blocks = vec![TaskId::from_number(2), TaskId::from_number(3)];
        }
        Ok(())
    };
    backend.edit_tasks(&dir, Box::new(block)).await?;
    let blockers = |tasks: &[Task]| tasks.iter().map(|t| t.blocked_by.len()).collect::<Vec<_>>();
    same("blockers", blockers(&backend.tasks(&dir).await?), vec![0, 1, 1])?;
    let remove = |table: &mut TaskTable| {
        table.tasks.remove(&TaskId::from_number(1));
        Ok(())
    };
    backend.edit_tasks(&dir, Box::new(remove)).await?;
    same("blockers once it is gone", blockers(&backend.tasks(&dir).await?), vec![0, 0])
}

pub(super) async fn of_many_claims_exactly_one_wins(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    add_tasks(&backend, &dir, 1).await?;
    let claims = (0..16).map(|nth| {
        let claim = move |table: &mut TaskTable| match table.tasks.get_mut(&TaskId::from_number(1))
        {
            Some(task) if task.owner.is_none() => {
                task.owner = Some(format!("agent-{nth}"));
                task.status = TaskStatus::InProgress;
                Ok(())
            }
            Some(_) | None => Err(ApiError::new(ErrorCode::InvalidStatus, "taken")),
        };
        backend.edit_tasks(&dir, Box::new(claim))
    });
    let won = join_all(claims).await;
    same("winners", won.iter().filter(|w| w.is_ok()).count(), 1)?;
    let winner = won.iter().position(Result::is_ok).map(|nth| format!("agent-{nth}"));
    same("owner", backend.tasks(&dir).await?.first().and_then(|t| t.owner.clone()), winner)
}

pub(super) async fn a_refused_task_edit_changes_nothing(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    add_tasks(&backend, &dir, 2).await?;
    let clear = |table: &mut TaskTable| {
        table.tasks.clear();
        Err(ApiError::new(ErrorCode::CircularDependency, "no"))
    };
    let refused = backend.edit_tasks(&dir, Box::new(clear)).await;
    same("refused", matches!(refused, Err(StoreError::Refused(_))), true)?;
    same("ids", task_ids(&backend, &dir).await?, vec!["1".into(), "2".into()])
}
