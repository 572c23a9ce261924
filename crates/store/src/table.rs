//! Rules for the task tables of every backend: each dependency is stored at both of its tasks, and
//! no id is used twice.

use std::collections::{HashMap, HashSet};

use pitcrew_protocol::{ApiError, ErrorCode, Task, TaskId};

use crate::{StoreError, TaskTable};

/// Adds each dependency that is stored at only one of its tasks to the other task. Calls
/// `about_to_change` with a task before that task changes.
pub(crate) fn join_ends(tasks: &mut [Task], mut about_to_change: impl FnMut(&Task)) {
    let places: HashMap<&str, usize> =
        tasks.iter().enumerate().map(|(at, task)| (task.id.as_str(), at)).collect();
    let place = |id: &TaskId| places.get(id.as_str()).copied();
    let (mut from_blockers, mut from_blocked) = (Vec::new(), Vec::new());
    for (at, task) in tasks.iter().enumerate() {
        from_blockers.extend(task.blocks.iter().filter_map(place).map(|blocked| (at, blocked)));
        from_blocked.extend(task.blocked_by.iter().filter_map(place).map(|blocker| (blocker, at)));
    }
    for edges in [&mut from_blockers, &mut from_blocked] {
        edges.sort_unstable();
        edges.dedup();
    }
    let lacking = |there: &[(usize, usize)], other: &[(usize, usize)]| -> Vec<(usize, usize)> {
        there.iter().filter(|edge| other.binary_search(edge).is_err()).copied().collect()
    };
    let at_blocker = lacking(&from_blocked, &from_blockers);
    let at_blocked = lacking(&from_blockers, &from_blocked);
    let mut add = |at: usize, other: usize, ids: fn(&mut Task) -> &mut Vec<TaskId>| {
        let Some(id) = tasks.get(other).map(|t| t.id.clone()) else { return };
        let Some(task) = tasks.get_mut(at) else { return };
        about_to_change(task);
        ids(task).push(id);
    };
    for (blocker, blocked) in at_blocker {
        add(blocker, blocked, |task| &mut task.blocks);
    }
    for (blocker, blocked) in at_blocked {
        add(blocked, blocker, |task| &mut task.blocked_by);
    }
}

/// Removes the ids for which `is_gone` is true from the dependencies of all tasks. Calls
/// `about_to_change` with a task before that task changes.
pub(crate) fn drop_mentions<'a>(
    tasks: impl IntoIterator<Item = &'a mut Task>,
    is_gone: impl Fn(&TaskId) -> bool,
    mut about_to_change: impl FnMut(&Task),
) {
    for task in tasks {
        if task.blocks.iter().chain(&task.blocked_by).any(&is_gone) {
            about_to_change(task);
            task.blocks.retain(|id| !is_gone(id));
            task.blocked_by.retain(|id| !is_gone(id));
        }
    }
}

/// Ids greater than or equal to this value are ignored when the next id is chosen. The reference
/// client stores ids as floating-point numbers, which cannot distinguish two neighboring ids of
/// that size.
const HIGHEST_ID: u64 = (1 << 53) - 1;

/// Completes a table after an edit. Removes references to removed tasks, and stores each dependency
/// at both of its tasks. Sets the next id to a value above every id that was ever used.
///
/// # Errors
/// [`StoreError::Refused`] if the edit used the id of a removed task again, or if it stored a task
/// under the id of another task.
pub(crate) fn settle(before: &TaskTable, edited: &mut TaskTable) -> Result<(), StoreError> {
    for (id, task) in &edited.tasks {
        if *id != task.id {
            return Err(refused(format!("the file of id {id} contains task {}", task.id)));
        }
        // The id of a removed task must not be used again, because other programs may still refer
        // to the removed task.
        if !before.tasks.contains_key(id) && id.number() < before.next_id {
            return Err(refused(format!("task id {id} was used before")));
        }
    }
    let gone: HashSet<TaskId> =
        before.tasks.keys().filter(|id| !edited.tasks.contains_key(*id)).cloned().collect();
    if !gone.is_empty() {
        drop_mentions(edited.tasks.values_mut(), |id| gone.contains(id), |_| {});
    }
    let mut tasks: Vec<Task> = std::mem::take(&mut edited.tasks).into_values().collect();
    join_ends(&mut tasks, |_| {});
    edited.tasks = tasks.into_iter().map(|task| (task.id.clone(), task)).collect();
    edited.next_id = edited
        .next_id
        .max(before.next_id)
        .max(highest_counted(edited.tasks.keys().map(TaskId::number)) + 1);
    Ok(())
}

/// Returns the highest id below `HIGHEST_ID`, or 0 if there is none. The next id follows this id.
pub(crate) fn highest_counted(ids: impl Iterator<Item = u64>) -> u64 {
    ids.filter(|id| *id < HIGHEST_ID).max().unwrap_or(0)
}

fn refused(message: String) -> StoreError {
    StoreError::Refused(ApiError::new(ErrorCode::InternalError, message))
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
        let tasks: std::collections::BTreeMap<_, _> =
            tasks.iter().map(|t| (t.id.clone(), t.clone())).collect();
        TaskTable { next_id: tasks.len() as u64 + 1, tasks }
    }

    #[test]
    fn a_dependency_written_on_one_end_is_seen_from_both() {
        let mut tasks = [task(1, &[2], &[]), task(2, &[], &[]), task(3, &[], &[1, 9])];
        let mut changed = Vec::new();
        join_ends(&mut tasks, |task| changed.push(task.id.number()));
        assert_eq!(tasks, [task(1, &[2, 3], &[]), task(2, &[], &[1]), task(3, &[], &[1, 9])]);
        assert_eq!(changed, [1, 2]);
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
