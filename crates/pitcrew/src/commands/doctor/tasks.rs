//! The check of tasks. The tasks must be readable, their owners must be members of the team, and
//! tasks must not block each other in a cycle.

use std::collections::BTreeSet;

use pitcrew_protocol::{AgentName, Task, TaskGraph, TaskId, TaskStatus, counted_is};
use pitcrew_team::Team;

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::TeamView;
use crate::failure::Failure;

pub(super) async fn look(view: &TeamView) -> Result<Vec<Fault>, Failure> {
    let team = &view.team;
    let tasks = team.all_tasks().await.map_err(Failure::internal)?;
    let mut faults = Vec::new();
    for circle in circles(&tasks) {
        let ids = circle.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ");
        let detail = format!("these tasks wait for each other and can never begin: {ids}");
        faults
            .push(Fault::left_to_a_person(Finding::new("task_circle", detail).in_team(team.dir())));
    }
    for (owner, ids) in lost(view, &tasks) {
        let shown = ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ");
        let finding =
            Finding::new("lost_task", format!("{owner} owns {shown} and is not a member"))
                .in_team(team.dir());
        // If another client created the team, pitcrew does not know all members. An owner that
        // pitcrew does not know may still be a member, so pitcrew does not release its tasks. A
        // person must decide.
        faults.push(match view.is_ours() {
            true => Fault::mended_by(
                Remedy::FreeTasks { team: team.clone(), owner },
                "free again",
                finding,
            ),
            false => Fault::left_to_a_person(finding),
        });
    }
    Ok(faults)
}

pub(super) async fn free(team: &Team, owner: &AgentName) -> Result<Mended, Failure> {
    let freed = team.release_tasks_of_stranger(owner).await?;
    Ok(Mended::Done(format!("{} free again", counted_is(freed.len(), "task"))))
}

/// Returns the owners that are not members of the team, each with the open tasks that it owns.
fn lost(view: &TeamView, tasks: &[Task]) -> Vec<(AgentName, Vec<TaskId>)> {
    let mut lost: Vec<(AgentName, Vec<TaskId>)> = Vec::new();
    for task in
        tasks.iter().filter(|task| task.status != TaskStatus::Completed && !task.is_internal())
    {
        let Some(owner) = task.owner.as_deref().filter(|owner| !owner.is_empty()) else { continue };
        if view.config.member(owner).is_some() {
            continue;
        }
        match lost.iter_mut().find(|(known, _)| known.as_str() == owner) {
            Some((_, ids)) => ids.push(task.id.clone()),
            None => lost.push((AgentName::foreign(owner), vec![task.id.clone()])),
        }
    }
    lost
}

/// Returns the cycles in which open tasks block each other. Each cycle is returned once.
fn circles(tasks: &[Task]) -> BTreeSet<BTreeSet<TaskId>> {
    let open: BTreeSet<&TaskId> = tasks
        .iter()
        .filter(|task| task.status != TaskStatus::Completed)
        .map(|task| &task.id)
        .collect();
    let (mut graph, mut circles) = (TaskGraph::of([]), BTreeSet::new());
    for task in tasks.iter().filter(|task| open.contains(&task.id)) {
        for blocker in task.blocked_by.iter().filter(|blocker| open.contains(blocker)) {
            // If the new link would close a cycle, `link` returns an error. `error.circle` contains
            // the tasks of that cycle.
            if let Err(error) = graph.link(blocker, &task.id) {
                circles.insert(error.circle.into_iter().collect());
            }
        }
    }
    circles
}
