//! What holds for any table of tasks, whatever it is kept in: both ends of a dependency, and ids used once.

use std::collections::{BTreeMap, HashSet};

use pitcrew_protocol::{ApiError, ErrorCode, Task, TaskId};

use crate::{StoreError, TaskTable};

/// Writes each dependency at both its ends.
pub(crate) fn join_ends(tasks: &mut BTreeMap<TaskId, Task>) {
    let mut edges = HashSet::<(TaskId, TaskId)>::new();
    let mut lacking = Vec::new();
    for task in tasks.values() {
        edges.extend(task.blocks.iter().map(|b| (task.id.clone(), b.clone())));
    }
    for task in tasks.values_mut() {
        for blocker in &task.blocked_by {
            if !edges.remove(&(blocker.clone(), task.id.clone())) {
                lacking.push((blocker.clone(), task.id.clone()));
            }
        }
    }
    for (blocker, blocked) in lacking {
        if let Some(task) = tasks.get_mut(&blocker) {
            push_new(&mut task.blocks, blocked);
        }
    }
    let mut rest: Vec<_> = edges.into_iter().collect();
    rest.sort();
    for (blocker, blocked) in rest {
        if let Some(task) = tasks.get_mut(&blocked) {
            push_new(&mut task.blocked_by, blocker);
        }
    }
}

/// Takes every mention of the tasks that `is_gone` names out of the others.
pub(crate) fn drop_mentions(tasks: &mut BTreeMap<TaskId, Task>, is_gone: impl Fn(&TaskId) -> bool) {
    for task in tasks.values_mut() {
        task.blocks.retain(|id| !is_gone(id));
        task.blocked_by.retain(|id| !is_gone(id));
    }
}

/// Brings an edited table in order: removed tasks are mentioned nowhere, dependencies stand at both ends, and the next
/// id is past every id ever used.
///
/// # Errors
/// [`StoreError::Refused`] when the edit used an id again, or put a task under an id not its own.
pub(crate) fn settle(before: &TaskTable, edited: &mut TaskTable) -> Result<(), StoreError> {
    for (id, task) in &edited.tasks {
        if *id != task.id {
            return Err(refused(format!("task {} stands under id {id}", task.id)));
        }
        if !before.tasks.contains_key(id) && id.number() < before.next_id {
            return Err(refused(format!("task id {id} was used before")));
        }
    }
    let gone: HashSet<TaskId> = before.tasks.keys().filter(|id| !edited.tasks.contains_key(*id)).cloned().collect();
    if !gone.is_empty() {
        drop_mentions(&mut edited.tasks, |id| gone.contains(id));
    }
    join_ends(&mut edited.tasks);
    let highest = edited.tasks.keys().next_back().map_or(0, TaskId::number);
    edited.next_id = edited.next_id.max(before.next_id).max(highest.saturating_add(1));
    Ok(())
}

fn refused(message: String) -> StoreError {
    StoreError::Refused(ApiError::new(ErrorCode::InternalError, message))
}

fn push_new(ids: &mut Vec<TaskId>, id: TaskId) {
    if !ids.contains(&id) {
        ids.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: u64, blocks: &[u64], blocked_by: &[u64]) -> Task {
        let ids = |n: &[u64]| n.iter().map(u64::to_string).collect::<Vec<_>>();
        let value = serde_json::json!({
            "id": id.to_string(), "subject": "s", "description": "d", "status": "pending",
            "blocks": ids(blocks), "blockedBy": ids(blocked_by),
        });
        serde_json::from_value(value).unwrap()
    }

    fn table(tasks: &[Task]) -> TaskTable {
        let tasks: BTreeMap<_, _> = tasks.iter().map(|t| (t.id.clone(), t.clone())).collect();
        TaskTable { next_id: tasks.len() as u64 + 1, tasks }
    }

    #[test]
    fn a_dependency_written_on_one_end_is_seen_from_both() {
        let mut t = table(&[task(1, &[2], &[]), task(2, &[], &[]), task(3, &[], &[1])]);
        join_ends(&mut t.tasks);
        assert_eq!(t, table(&[task(1, &[2, 3], &[]), task(2, &[], &[1]), task(3, &[], &[1])]));
    }

    #[test]
    fn a_removed_task_is_mentioned_nowhere_and_its_id_is_not_given_again() {
        let before = table(&[task(1, &[2], &[]), task(2, &[], &[1])]);
        let mut edited = before.clone();
        edited.tasks.remove(&TaskId::from_number(2));
        settle(&before, &mut edited).unwrap();
        assert_eq!(edited.tasks[&TaskId::from_number(1)].blocks, []);
        assert_eq!(edited.next_id, 3);
        let mut again = edited.clone();
        again.tasks.insert(TaskId::from_number(2), task(2, &[], &[]));
        assert!(settle(&edited, &mut again).is_err());
    }
}
