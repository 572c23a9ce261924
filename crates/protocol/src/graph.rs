//! The rules of the task graph: which task waits for which other task, which tasks are ready, and
//! which edges would close a circle.
//!
//! The functions here do no I/O. An edge leads from a blocker to a blocked task. The edge counts if
//! the blocker names the blocked task in `blocks`, or the blocked task names the blocker in
//! `blockedBy`. A blocker that does not exist blocks no task, because nobody could ever complete
//! it. Claiming and writing tasks is the job of the crate `team`.

use std::collections::HashMap;

use crate::{Task, TaskId, TaskStatus};

/// Returns the ready tasks, sorted by id. A task is ready if it is pending, has no owner, and has
/// no blocker that is still open.
#[must_use]
pub fn ready(tasks: &[Task]) -> Vec<&Task> {
    let graph = TaskGraph::of(tasks);
    let mut ready: Vec<&Task> = tasks.iter().filter(|task| graph.is_ready(&task.id)).collect();
    ready.sort_by(|a, b| a.id.cmp(&b.id));
    ready
}

/// Returns the blockers of `task` that are not completed, sorted by id.
#[must_use]
pub fn open_blockers(task: &Task, tasks: &[Task]) -> Vec<TaskId> {
    TaskGraph::of(tasks).open_blockers(&task.id).into_iter().cloned().collect()
}

/// The error for a dependency that would close a circle of tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task #{blocked} cannot wait for task #{blocker}: {}", told(circle))]
pub struct CircleError {
    /// The task that would wait.
    pub blocked: TaskId,
    /// The task for which `blocked` would wait.
    pub blocker: TaskId,
    /// The tasks of the circle. Each task waits for the next one, and the last task waits for the
    /// first. The first is `blocked`, the second is `blocker`.
    pub circle: Vec<TaskId>,
}

fn told(circle: &[TaskId]) -> String {
    let first = circle.first().map(|id| format!("#{id}")).unwrap_or_default();
    let steps: Vec<String> = circle.iter().map(|id| format!("#{id}")).chain([first]).collect();
    format!("{} would be a circle", steps.join(" -> "))
}

/// Tasks with a number below this limit are found in a vector, with the number as the index. The
/// limit bounds the size of the vector. All other tasks are found in a map, by the text of their
/// id.
const NUMBERED_IDS: u64 = 1 << 16;

/// The tasks of a team with their edges. The graph is built once, updated with [`TaskGraph::put`],
/// and queried often.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    nodes: Vec<Node>,
    places: Places,
}

/// The position of each task in `TaskGraph::nodes`, by task id.
#[derive(Clone, Debug, Default)]
struct Places {
    by_number: Vec<Option<usize>>,
    by_text: HashMap<TaskId, usize>,
}

impl Places {
    fn number(id: &TaskId) -> Option<usize> {
        // `007` and `7` have the same number but are different ids. Only an id without a leading
        // zero is looked up by its number.
        let is_plain = id.as_str().starts_with(|c: char| matches!(c, '1'..='9'));
        let number = id.number();
        if is_plain && (1..NUMBERED_IDS).contains(&number) {
            usize::try_from(number).ok()
        } else {
            None
        }
    }

    fn get(&self, id: &TaskId) -> Option<usize> {
        match Self::number(id) {
            Some(number) => self.by_number.get(number).copied().flatten(),
            None => self.by_text.get(id).copied(),
        }
    }

    fn set(&mut self, id: &TaskId, place: usize) {
        let Some(number) = Self::number(id) else {
            self.by_text.insert(id.clone(), place);
            return;
        };
        if self.by_number.len() <= number {
            self.by_number.resize(number + 1, None);
        }
        if let Some(slot) = self.by_number.get_mut(number) {
            *slot = Some(place);
        }
    }
}

#[derive(Clone, Debug)]
struct Node {
    id: TaskId,
    number: u64,
    state: State,
    /// The positions of this task's blockers in `TaskGraph::nodes`, sorted, without duplicates.
    blockers: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The task does not exist, but another task names its id.
    Absent,
    /// The task is not completed, and no agent can claim it. It has an owner, is in progress, or is
    /// an internal record of a client.
    Taken,
    /// The task is not completed. An agent can claim it as soon as nothing blocks it.
    Free,
    Completed,
}

impl State {
    fn of(task: &Task) -> Self {
        match task.status {
            TaskStatus::Completed => Self::Completed,
            TaskStatus::Pending
                if task.owner.as_deref().unwrap_or_default().is_empty() && !task.is_internal() =>
            {
                Self::Free
            }
            TaskStatus::Pending | TaskStatus::InProgress => Self::Taken,
        }
    }

    fn is_open(self) -> bool {
        match self {
            Self::Taken | Self::Free => true,
            Self::Absent | Self::Completed => false,
        }
    }
}

impl TaskGraph {
    /// Builds the graph of `tasks`. The order of the tasks does not matter.
    #[must_use]
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Self {
        let mut graph = Self::default();
        for task in tasks {
            graph.put(task);
        }
        graph
    }

    /// Adds a task, or updates a task of the graph. New edges are added, but existing edges are
    /// never removed.
    pub fn put(&mut self, task: &Task) {
        let place = self.place(&task.id);
        if let Some(node) = self.nodes.get_mut(place) {
            node.state = State::of(task);
        }
        for blocker in &task.blocked_by {
            let blocker = self.place(blocker);
            self.join(blocker, place);
        }
        for blocked in &task.blocks {
            let blocked = self.place(blocked);
            self.join(place, blocked);
        }
    }

    /// Removes a task. The tasks that the removed task blocked no longer wait for it.
    pub fn remove(&mut self, id: &TaskId) {
        let place = self.places.get(id);
        if let Some(node) = place.and_then(|place| self.nodes.get_mut(place)) {
            node.state = State::Absent;
            // Other tasks can still name this id. The node therefore stays in the graph. Only its
            // own blockers are removed.
            node.blockers.clear();
        }
    }

    /// Whether an agent can claim the task now.
    #[must_use]
    pub fn is_ready(&self, id: &TaskId) -> bool {
        self.node(id).is_some_and(|node| self.is_node_ready(node))
    }

    /// Returns the ids of the tasks that an agent can claim now, sorted.
    #[must_use]
    pub fn ready(&self) -> Vec<&TaskId> {
        by_id(self.nodes.iter().filter(|node| self.is_node_ready(node)))
    }

    /// Returns the blockers of task `id` that are not completed, sorted by id.
    #[must_use]
    pub fn open_blockers(&self, id: &TaskId) -> Vec<&TaskId> {
        self.node(id).map(|node| by_id(self.open(node))).unwrap_or_default()
    }

    /// Adds an edge to this graph: `blocked` waits for `blocker`. Later queries include the new
    /// edge.
    ///
    /// # Errors
    /// [`CircleError`] when the edge would close a circle. Then the graph stays unchanged.
    pub fn link(&mut self, blocker: &TaskId, blocked: &TaskId) -> Result<(), CircleError> {
        if let Some(circle) = self.circle(blocker, blocked) {
            return Err(CircleError { blocked: blocked.clone(), blocker: blocker.clone(), circle });
        }
        let (blocker, blocked) = (self.place(blocker), self.place(blocked));
        self.join(blocker, blocked);
        Ok(())
    }

    /// Returns the circle of tasks that would exist if `blocked` waited for `blocker`. Each task in
    /// the circle waits for the next one, and the last task waits for the first. Returns `None` if
    /// there would be no circle.
    #[must_use]
    pub fn circle(&self, blocker: &TaskId, blocked: &TaskId) -> Option<Vec<TaskId>> {
        if blocker == blocked {
            return Some(vec![blocked.clone()]);
        }
        let (start, goal) = (self.places.get(blocker)?, self.places.get(blocked)?);
        let mut reached_from: HashMap<usize, usize> = HashMap::new();
        let mut open = vec![start];
        while let Some(place) = open.pop() {
            for &next in
                self.nodes.get(place).map(|node| node.blockers.as_slice()).unwrap_or_default()
            {
                // Tasks that other clients wrote can already form a circle. Each task is therefore
                // visited only once.
                if next == start || reached_from.contains_key(&next) {
                    continue;
                }
                reached_from.insert(next, place);
                if next == goal {
                    return Some(self.way(goal, &reached_from));
                }
                open.push(next);
            }
        }
        None
    }

    /// Returns the tasks on the path that the search took from its start to `goal`. `goal` comes
    /// first in the result. The other tasks follow in the order of the path, beginning with the
    /// start.
    fn way(&self, goal: usize, reached_from: &HashMap<usize, usize>) -> Vec<TaskId> {
        let back = std::iter::successors(Some(goal), |place| reached_from.get(place).copied());
        let mut way: Vec<TaskId> =
            back.filter_map(|place| Some(self.nodes.get(place)?.id.clone())).collect();
        if let Some((_, after)) = way.split_first_mut() {
            after.reverse();
        }
        way
    }

    fn node(&self, id: &TaskId) -> Option<&Node> {
        self.nodes.get(self.places.get(id)?)
    }

    fn open<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        let blockers = node.blockers.iter().filter_map(|place| self.nodes.get(*place));
        blockers.filter(|blocker| blocker.state.is_open())
    }

    fn is_node_ready(&self, node: &Node) -> bool {
        node.state == State::Free && self.open(node).next().is_none()
    }

    fn place(&mut self, id: &TaskId) -> usize {
        if let Some(place) = self.places.get(id) {
            return place;
        }
        let place = self.nodes.len();
        self.nodes.push(Node {
            id: id.clone(),
            number: id.number(),
            state: State::Absent,
            blockers: Vec::new(),
        });
        self.places.set(id, place);
        place
    }

    fn join(&mut self, blocker: usize, blocked: usize) {
        if let Some(node) = self.nodes.get_mut(blocked)
            && let Err(at) = node.blockers.binary_search(&blocker)
        {
            node.blockers.insert(at, blocker);
        }
    }
}

fn by_id<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<&'a TaskId> {
    let mut nodes: Vec<&Node> = nodes.collect();
    nodes.sort_by(|a, b| a.number.cmp(&b.number).then_with(|| a.id.as_str().cmp(b.id.as_str())));
    nodes.into_iter().map(|node| &node.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: u64, status: &str, blocks: &[u64], blocked_by: &[u64]) -> Task {
        let ids = |ids: &[u64]| ids.iter().map(u64::to_string).collect::<Vec<_>>();
        let value = serde_json::json!({
            "id": id.to_string(), "subject": "s", "description": "d", "status": status,
            "blocks": ids(blocks), "blockedBy": ids(blocked_by),
        });
        crate::from_text(&value.to_string()).unwrap()
    }

    fn id(n: u64) -> TaskId {
        TaskId::from_number(n)
    }

    fn numbers<'a>(ids: impl IntoIterator<Item = &'a TaskId>) -> Vec<u64> {
        ids.into_iter().map(TaskId::number).collect()
    }

    fn closes_circle(tasks: &[Task], blocker: &TaskId, blocked: &TaskId) -> bool {
        TaskGraph::of(tasks).circle(blocker, blocked).is_some()
    }

    #[test]
    fn a_task_is_ready_when_it_is_free_and_all_its_blockers_are_completed() {
        let mut owned = task(5, "pending", &[], &[]);
        owned.owner = Some("w".into());
        let mut internal = task(6, "pending", &[], &[]);
        internal.metadata = serde_json::json!({"_internal": true}).as_object().cloned();
        let tasks = [
            task(10, "pending", &[], &[]),
            task(4, "pending", &[], &[99]),
            task(3, "pending", &[], &[1, 2]),
            task(2, "in_progress", &[], &[]),
            task(1, "completed", &[4], &[]),
            owned,
            internal,
            task(7, "pending", &[], &[7]),
        ];
        assert_eq!(numbers(ready(&tasks).iter().map(|t| &t.id)), [4, 10]);
        assert_eq!(numbers(TaskGraph::of(&tasks).ready()), [4, 10]);
        assert_eq!(numbers(&open_blockers(&tasks[2], &tasks)), [2]);
        assert_eq!(numbers(&open_blockers(&tasks[7], &tasks)), [7]);
    }

    #[test]
    fn an_edge_counts_from_either_end() {
        let tasks = [
            task(1, "pending", &[2], &[]),
            task(2, "pending", &[], &[]),
            task(3, "pending", &[], &[2]),
        ];
        assert_eq!(numbers(ready(&tasks).iter().map(|t| &t.id)), [1]);
        assert!(closes_circle(&tasks, &id(3), &id(1)));
        assert!(closes_circle(&tasks, &id(1), &id(1)), "a task cannot wait for itself");
        assert!(!closes_circle(&tasks, &id(1), &id(3)));
        assert!(!closes_circle(&tasks, &id(8), &id(9)));
    }

    #[test]
    fn edges_that_come_together_are_seen_together() {
        let tasks = [
            task(1, "pending", &[], &[]),
            task(2, "pending", &[], &[]),
            task(3, "pending", &[], &[]),
        ];
        let mut graph = TaskGraph::of(&tasks);
        graph.link(&id(1), &id(2)).unwrap();
        graph.link(&id(2), &id(3)).unwrap();
        let error = graph.link(&id(3), &id(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "task #1 cannot wait for task #3: #1 -> #3 -> #2 -> #1 would be a circle"
        );
        assert_eq!(numbers(graph.ready()), [1], "a refused edge is not kept");
        let error = graph.link(&id(2), &id(2)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "task #2 cannot wait for task #2: #2 -> #2 would be a circle"
        );
    }

    #[test]
    fn a_graph_that_is_kept_up_is_as_one_built_anew() {
        let mut tasks = vec![
            task(2, "pending", &[], &[1, 3]),
            task(1, "pending", &[], &[]),
            task(3, "pending", &[], &[]),
        ];
        let mut graph = TaskGraph::of(&tasks);
        assert_eq!(numbers(graph.ready()), [1, 3]);
        tasks[1].status = TaskStatus::Completed;
        graph.put(&tasks[1]);
        graph.remove(&id(3));
        assert_eq!(numbers(graph.ready()), [2]);
        tasks.push(task(4, "pending", &[2], &[]));
        graph.put(&tasks[3]);
        assert_eq!(numbers(graph.ready()), [4]);
        assert_eq!(
            numbers(graph.ready()),
            numbers(TaskGraph::of(tasks.iter().filter(|t| t.id != id(3))).ready())
        );
    }

    #[test]
    fn ids_of_other_writers_are_told_apart() {
        let named = |name: &str, blocker: &str| {
            let mut odd = task(1, "pending", &[], &[]);
            odd.id = serde_json::from_value(name.into()).unwrap();
            odd.blocked_by = vec![serde_json::from_value(blocker.into()).unwrap()];
            odd
        };
        let tasks = [
            named("01", "1"),
            named("1", "x"),
            named("x", "+1"),
            named("99999999", "70000"),
            named("70000", "0"),
        ];
        assert_eq!(
            TaskGraph::of(&tasks).ready().iter().map(|id| id.as_str()).collect::<Vec<_>>(),
            ["x", "70000"]
        );
    }

    #[test]
    fn circles_of_other_writers_end_every_walk() {
        let tasks = [
            task(1, "pending", &[], &[2]),
            task(2, "pending", &[], &[1]),
            task(3, "pending", &[], &[1]),
        ];
        assert_eq!(ready(&tasks), Vec::<&Task>::new());
        assert!(!closes_circle(&tasks, &id(1), &id(3)));
        assert!(closes_circle(&tasks, &id(3), &id(2)));
    }

    proptest::proptest! {
        #[test]
        fn edges_that_were_accepted_never_close_a_circle(edges in proptest::collection::vec((1..9u64, 1..9u64), 0..40)) {
            let mut graph = TaskGraph::default();
            let mut waits = [[false; 9]; 9];
            for (blocker, blocked) in edges {
                let mut reach = waits;
                for k in 0..9 { for i in 0..9 { for j in 0..9 { reach[i][j] |= reach[i][k] && reach[k][j]; } } }
                let (from, to) = (blocked as usize, blocker as usize);
                let closes = from == to || reach[to][from];
                proptest::prop_assert_eq!(graph.link(&id(blocker), &id(blocked)).is_err(), closes);
                waits[from][to] |= !closes;
            }
        }
    }

    /// Checks which of ten thousand tasks are ready. The time for such a query is not checked here:
    /// the benchmark `ready_set` of the crate `store` measures it.
    #[test]
    fn of_ten_thousand_tasks_those_are_ready_whose_blockers_are_completed() {
        let is_completed = |n: u64| n.is_multiple_of(3);
        let blockers = |n: u64| [n / 2 + 1, n / 3 + 1];
        let tasks: Vec<Task> = (1..=10_000)
            .map(|n| {
                task(n, if is_completed(n) { "completed" } else { "pending" }, &[], &blockers(n))
            })
            .collect();
        let expected = (1..=10_000)
            .filter(|n| !is_completed(*n) && blockers(*n).into_iter().all(is_completed));
        let ready: Vec<u64> = TaskGraph::of(&tasks).ready().iter().map(|id| id.number()).collect();
        assert_eq!(ready, expected.collect::<Vec<_>>());
        assert!(ready.len() > 500, "{}", ready.len());
    }
}
