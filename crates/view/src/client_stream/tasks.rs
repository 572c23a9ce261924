//! The tasks of a client's team, as its lead's calls show them.

use pitcrew_protocol::{
    AgentName, Foreign, StatusChange, Task, TaskCreateInput, TaskId, TaskStatus, TaskUpdateInput,
};
use pitcrew_team::store::TaskChangeKind;

use super::calls::Ask;
use super::fact::{StreamFact, tell};
use super::line::{ResultData, TaskData};
use super::raw::Raw;
use super::session::Session;
use crate::state::{Happened, TeamState, bounded};

/// Maximum number of tasks in the state. Later tasks are only in the timeline.
const TASKS_MOST: usize = 10_000;

/// Maximum number of edges of one task.
pub(super) const EDGES_MOST: usize = 1_000;

impl Session {
    /// Folds the result of a task tool into the state.
    pub(super) fn task_result(
        &mut self,
        state: &mut TeamState,
        agent: &AgentName,
        ask: Option<Ask>,
        data: &ResultData<'_>,
    ) {
        if let Some(shown) = &data.task {
            match ask {
                Some(Ask::CreateTask(input)) => self.task_created(state, agent, input, shown),
                Some(_) | None => show(state, shown),
            }
        } else if let Some(Ask::ChangeTask(input)) = ask {
            self.task_changed(state, agent, input);
        } else {
            for shown in &data.tasks {
                show(state, shown);
            }
        }
    }

    fn task_created(
        &mut self,
        state: &mut TeamState,
        by: &AgentName,
        input: TaskCreateInput,
        shown: &TaskData<'_>,
    ) {
        let Some(id) = task_id(shown.id) else { return };
        let task = Task {
            subject: input.subject,
            description: input.description,
            active_form: input.active_form,
            ..new_task(id.clone())
        };
        let change = format!("created: {}", task.subject);
        put(state, task);
        self.note(state, Happened::Task { id, by: by.clone(), change });
    }

    /// Folds a change by a teammate of pitcrew, whose results the stream does not have. A task that
    /// is not known stays unknown. A task without an owner belongs to the teammate that begins it.
    pub(super) fn own_task_changed(
        &mut self,
        state: &mut TeamState,
        by: &AgentName,
        mut input: TaskUpdateInput,
    ) {
        let is_it = |task: &&Task| task.id.as_str() == input.task_id;
        let Some(task) = state.tasks.iter().find(is_it) else { return };
        if task.owner.is_none() && input.status == Some(StatusChange::To(TaskStatus::InProgress)) {
            input.owner.get_or_insert_with(|| by.to_string());
        }
        self.task_changed(state, by, input);
    }

    fn task_changed(&mut self, state: &mut TeamState, by: &AgentName, input: TaskUpdateInput) {
        let Some(id) = TaskId::parse(&input.task_id) else { return };
        let change = in_words(&input);
        if input.status == Some(StatusChange::Deleted) {
            tell(state, StreamFact::TaskDeleted(&id));
            return self.note(state, Happened::Task { id, by: by.clone(), change });
        }
        let mut task = known(state, &id);
        if let Some(StatusChange::To(status)) = input.status {
            task.status = status;
        }
        task.subject = input.subject.unwrap_or(task.subject);
        task.description = input.description.unwrap_or(task.description);
        task.owner = input.owner.or(task.owner);
        for other in ids(&input.add_blocks) {
            let mut blocked = known(state, &other);
            add(&mut blocked.blocked_by, &id);
            put(state, blocked);
            add(&mut task.blocks, &other);
        }
        for other in ids(&input.add_blocked_by) {
            let mut blocker = known(state, &other);
            add(&mut blocker.blocks, &id);
            put(state, blocker);
            add(&mut task.blocked_by, &other);
        }
        put(state, task);
        self.note(state, Happened::Task { id, by: by.clone(), change });
    }
}

/// Folds pitcrew's event about a task into the state. Only these events tell of the changes by
/// teammates. They do not have the texts of a task, so a task that is not known stays unknown.
pub(super) fn task_event(
    state: &mut TeamState,
    by: &AgentName,
    id: &TaskId,
    change: &TaskChangeKind,
) {
    if state.tasks.binary_search_by(|task| task.id.cmp(id)).is_err() {
        return;
    }
    let task = known(state, id);
    let task = match change {
        TaskChangeKind::Claimed => {
            Task { owner: Some(by.to_string()), status: TaskStatus::InProgress, ..task }
        }
        TaskChangeKind::Completed => Task { status: TaskStatus::Completed, ..task },
        TaskChangeKind::Released => Task { owner: None, status: TaskStatus::Pending, ..task },
        TaskChangeKind::Deleted => return tell(state, StreamFact::TaskDeleted(id)),
        // The events do not tell the new values of other fields.
        TaskChangeKind::Created | TaskChangeKind::Updated | TaskChangeKind::Other(_) => return,
    };
    put(state, task);
}

/// Puts what a tool shows of a task into the state.
fn show(state: &mut TeamState, shown: &TaskData<'_>) {
    let Some(id) = task_id(shown.id) else { return };
    let mut task = known(state, &id);
    let text = |raw: Raw<'_>| raw.text().map(bounded);
    task.subject = text(shown.subject).unwrap_or(task.subject);
    task.description = text(shown.description).unwrap_or(task.description);
    task.owner = text(shown.owner).or(task.owner);
    let status = shown.status.text().and_then(|name| StatusChange::from_name(&name));
    if let Some(StatusChange::To(status)) = status {
        task.status = status;
    }
    // A list of tasks leaves out the blockers that are completed. They stay in the state.
    for (edges, shown) in
        [(&mut task.blocks, shown.blocks), (&mut task.blocked_by, shown.blocked_by)]
    {
        for other in ids(&shown.ids(EDGES_MOST)) {
            add(edges, &other);
        }
    }
    put(state, task);
}

fn task_id(raw: Raw<'_>) -> Option<TaskId> {
    TaskId::parse(&raw.text()?)
}

fn ids(texts: &[String]) -> Vec<TaskId> {
    texts.iter().filter_map(|text| TaskId::parse(text)).collect()
}

fn add(edges: &mut Vec<TaskId>, id: &TaskId) {
    if edges.len() < EDGES_MOST && !edges.contains(id) {
        edges.push(id.clone());
    }
}

/// Returns the task with this id. A task that was created before the stream began is not known
/// yet, and gets an empty subject.
fn known(state: &TeamState, id: &TaskId) -> Task {
    let at = state.tasks.binary_search_by(|task| task.id.cmp(id));
    let task = at.ok().and_then(|at| state.tasks.get(at));
    task.cloned().unwrap_or_else(|| new_task(id.clone()))
}

fn new_task(id: TaskId) -> Task {
    Task {
        id,
        subject: String::new(),
        description: String::new(),
        active_form: None,
        owner: None,
        status: TaskStatus::Pending,
        blocks: Vec::new(),
        blocked_by: Vec::new(),
        metadata: None,
        foreign: Foreign::default(),
    }
}

fn put(state: &mut TeamState, task: Task) {
    let is_known = state.tasks.binary_search_by(|known| known.id.cmp(&task.id)).is_ok();
    if is_known || state.tasks.len() < TASKS_MOST {
        tell(state, StreamFact::Task(task));
    }
}

/// Returns the change of a task in words.
fn in_words(input: &TaskUpdateInput) -> String {
    let numbered = |ids: &[String]| {
        let ids: Vec<String> = ids.iter().map(|id| format!("#{id}")).collect();
        Some(ids.join(", ")).filter(|ids| !ids.is_empty())
    };
    let parts = [
        input.status.map(|status| status.as_str().replace('_', " ")),
        input.owner.as_ref().map(|owner| format!("owner {owner}")),
        input.subject.as_ref().map(|subject| format!("renamed: {subject}")),
        numbered(&input.add_blocked_by).map(|ids| format!("blocked by {ids}")),
        numbered(&input.add_blocks).map(|ids| format!("blocks {ids}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    bounded(if parts.is_empty() { "changed".into() } else { parts.join(", ").into() })
}
