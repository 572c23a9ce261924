//! Claiming tasks. In every order of steps, each task has exactly one winner, and no task is lost.

use std::collections::HashMap;

use pitcrew_protocol::{ErrorCode, Limits, StatusChange, TaskId, TaskStatus, TaskUpdateInput};
use pitcrew_team::Actor;
use proptest::prelude::*;

use crate::team_env::{Crew, as_member, is, limits, member, name, task, update};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_any_number_of_claims_at_once_one_wins_and_the_rest_are_told_who() {
    let crew = Crew::new().await;
    for n in 0..16 {
        crew.team.spawn(member(&format!("w{n}"))).await.unwrap();
    }
    crew.team.create_task(&Actor::Lead, task("the one"), None).await.unwrap();
    let claims = (0..16).map(|n| {
        let team = crew.team.clone();
        tokio::spawn(async move {
            let me = as_member(&format!("w{n}"));
            if n % 2 == 0 {
                return team.claim(&me, Some("1")).await.map(|task| task.owner.unwrap());
            }
            let start = Some(StatusChange::To(TaskStatus::InProgress));
            let input = TaskUpdateInput { status: start, ..update("1") };
            team.update_task(&me, input).await.map(|_| format!("w{n}"))
        })
    });
    let mut outcomes = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        outcomes.push(claim.await.unwrap());
    }
    let winner = crew.team.task("1").await.unwrap().owner.unwrap();
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 1);
    for outcome in outcomes {
        match outcome {
            Ok(owner) => assert_eq!(owner, winner),
            Err(error) => {
                is(&error, ErrorCode::InvalidStatus);
                assert_eq!(error.details["owner"], winner.as_str());
            }
        }
    }
}

#[tokio::test]
async fn a_claim_without_id_takes_the_lowest_that_is_ready() {
    let crew = Crew::new().await;
    for n in 1..=4 {
        crew.team.create_task(&Actor::Lead, task(&n.to_string()), None).await.unwrap();
    }
    let wait = TaskUpdateInput { add_blocked_by: vec!["4".into()], ..update("1") };
    crew.team.update_task(&Actor::Lead, wait).await.unwrap();
    let give = TaskUpdateInput { owner: Some("planner".into()), ..update("2") };
    crew.team.update_task(&Actor::Lead, give).await.unwrap();
    assert_eq!(crew.team.claim(&as_member("worker"), None).await.unwrap().id.as_str(), "3");
    assert_eq!(
        crew.team.claim(&as_member("planner"), None).await.unwrap().id.as_str(),
        "2",
        "its own comes first"
    );
    assert_eq!(crew.team.claim(&Actor::Lead, None).await.unwrap().id.as_str(), "4");
    let error = crew.team.claim(&as_member("worker"), None).await.unwrap_err();
    is(&error, ErrorCode::InvalidStatus);
    assert_eq!((&error.details["pending"], &error.details["in_progress"]), (&1.into(), &3.into()));
    let again = crew.team.claim(&as_member("worker"), Some("3")).await.unwrap();
    assert_eq!(
        again.owner.as_deref(),
        Some("worker"),
        "what is one's own is claimed again without harm"
    );
    is(&crew.team.claim(&Actor::Lead, Some("3")).await.unwrap_err(), ErrorCode::InvalidStatus);
    is(&crew.team.claim(&Actor::User, Some("1")).await.unwrap_err(), ErrorCode::PermissionDenied);
    is(
        &crew.team.claim(&Actor::Outside("x".into()), Some("1")).await.unwrap_err(),
        ErrorCode::PermissionDenied,
    );
}

#[derive(Clone, Debug)]
enum Step {
    Claim(usize),
    Finish(usize),
    Reopen(usize),
    Die(usize),
    Wait(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..5_usize).prop_map(Step::Claim),
        6 => (0..5_usize).prop_map(Step::Finish),
        1 => (0..12_usize).prop_map(Step::Reopen),
        1 => (0..5_usize).prop_map(Step::Die),
        2 => (1..13_u64, 1..13_u64).prop_map(|(a, b)| Step::Wait(a, b)),
    ]
}

/// A team of five workers and twelve tasks, and the tasks that each worker believes it owns.
struct Shift {
    crew: Crew,
    /// For each of the five workers, the number of times that it has died so far. This number is
    /// part of the worker's name.
    lives: [usize; 5],
    /// The tasks that each worker has claimed successfully.
    held: HashMap<String, Vec<TaskId>>,
}

impl Shift {
    async fn begin() -> Self {
        let crew = Crew::with(Limits { agents: 1000, ..limits() }).await;
        for n in 1..=12 {
            crew.team.create_task(&Actor::Lead, task(&n.to_string()), None).await.unwrap();
        }
        let shift = Self { crew, lives: [0; 5], held: HashMap::new() };
        for at in 0..5 {
            shift.crew.team.spawn(member(&shift.worker(at))).await.unwrap();
        }
        shift
    }

    fn worker(&self, at: usize) -> String {
        format!("w{at}x{}", self.lives[at])
    }

    async fn go(&mut self, step: &Step) {
        let team = self.crew.team.clone();
        match *step {
            Step::Claim(at) => {
                if let Ok(task) = team.claim(&as_member(&self.worker(at)), None).await {
                    let free = self.held.values().all(|held| !held.contains(&task.id));
                    assert!(free, "{} was given to {} and is held", task.id, self.worker(at));
                    self.held.entry(self.worker(at)).or_default().push(task.id);
                }
            }
            Step::Finish(at) => {
                let Some(id) = self.held.get_mut(&self.worker(at)).and_then(Vec::pop) else {
                    return;
                };
                let done = Some(StatusChange::To(TaskStatus::Completed));
                let input = TaskUpdateInput { status: done, ..update(id.as_str()) };
                team.update_task(&as_member(&self.worker(at)), input).await.unwrap();
            }
            Step::Reopen(n) => {
                let done = team.tasks().await.unwrap();
                let Some(task) = done.iter().filter(|t| t.status == TaskStatus::Completed).nth(n)
                else {
                    return;
                };
                let again = Some(StatusChange::To(TaskStatus::Pending));
                let input = TaskUpdateInput {
                    status: again,
                    owner: Some(String::new()),
                    ..update(task.id.as_str())
                };
                team.update_task(&Actor::Lead, input).await.unwrap();
            }
            Step::Die(at) => {
                let removed =
                    team.remove_member(&Actor::Lead, &name(&self.worker(at))).await.unwrap();
                let mut held = self.held.remove(&self.worker(at)).unwrap_or_default();
                held.sort();
                assert_eq!(removed.released, held, "what it held goes back to the pool");
                self.lives[at] += 1;
                team.spawn(member(&self.worker(at))).await.unwrap();
            }
            Step::Wait(blocked, blocker) => {
                let input = TaskUpdateInput {
                    add_blocked_by: vec![blocker.to_string()],
                    ..update(&blocked.to_string())
                };
                let _refused_when_a_circle = team.update_task(&Actor::Lead, input).await;
            }
        }
    }

    async fn check(&self) {
        let tasks = self.crew.team.tasks().await.unwrap();
        assert_eq!(tasks.len(), 12, "no task is lost");
        for task in &tasks {
            let holders: Vec<_> = self
                .held
                .iter()
                .filter(|(_, held)| held.contains(&task.id))
                .map(|(w, _)| w)
                .collect();
            match task.status {
                TaskStatus::InProgress => {
                    assert_eq!(holders, [task.owner.as_ref().unwrap()], "one owner, who knows it")
                }
                TaskStatus::Pending => assert_eq!((holders.len(), &task.owner), (0, &None)),
                TaskStatus::Completed => assert_eq!(holders.len(), 0),
            }
        }
        let graph = pitcrew_protocol::TaskGraph::of(&tasks);
        for task in &tasks {
            assert!(graph.circle(&task.id, &task.id).is_some_and(|c| c.len() == 1));
            assert!(
                task.blocked_by.iter().all(|b| graph.circle(&task.id, b).is_some()),
                "no circle but through its edges"
            );
        }
    }

    /// Lets all workers claim and complete tasks, and checks that all tasks are completed at the
    /// end.
    async fn work_off(&mut self) {
        for _ in 0..100 {
            for at in 0..5 {
                self.go(&Step::Claim(at)).await;
                self.go(&Step::Finish(at)).await;
            }
        }
        let tasks = self.crew.team.tasks().await.unwrap();
        assert!(tasks.iter().all(|t| t.status == TaskStatus::Completed), "{tasks:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_crew_that_works_dies_and_replans_loses_no_task_and_never_shares_one(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut shift = Shift::begin().await;
            for step in &steps {
                shift.go(step).await;
                shift.check().await;
            }
            shift.work_off().await;
        });
    }
}
