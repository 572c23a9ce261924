//! Decides what the lead does: it creates tasks, spawns workers, spawns a successor for each worker
//! that ended too early, approves plans, answers notes (test messages of workers), and ends the
//! team.

use serde_json::json;

use super::{Came, GO_ON, Heard, LAST_WORDS, Say, Wanted, World, all, number_in, tokens_in};
use crate::plan::{Place, Worker};

/// Parts of the texts with which pitcrew tells the lead that a member has ended.
const ENDS: [&str; 5] =
    ["has failed", "was stopped", "has shut down", "was not started", "cannot go on in this run"];

pub(super) fn decide(heard: &Heard, world: World<'_>) -> Say {
    match next(heard, world) {
        Ok(()) => Say::Text(LAST_WORDS.to_owned()),
        Err(say) => say,
    }
}

fn next(heard: &Heard, world: World<'_>) -> Result<(), Say> {
    let workers = &world.plan.workers;
    let tasks = all(heard, workers.iter().flat_map(tasks_of))?;
    let mut ids = tasks.iter().map(|text| number_in(text).unwrap_or_default());
    let parts: Vec<(&Worker, Vec<String>)> =
        workers.iter().map(|worker| (worker, ids.by_ref().take(worker.tasks).collect())).collect();
    all(heard, parts.iter().map(|(worker, ids)| spawn(worker, ids, 1, world)))?;
    let go = |worker: &Worker| {
        Wanted::note(format!("go-{}", worker.role), &given_name(heard, worker, 1), "go")
    };
    all(heard, workers.iter().map(go))?;
    all(heard, successors(heard, &parts, world))?;
    all(heard, nudges(heard, workers))?;
    all(heard, approvals(heard))?;
    all(heard, replies(heard))?;
    let reported = |worker: &Worker| heard.told.contains(&format!("report of {}", worker.role));
    if !(world.may_end && workers.iter().all(reported)) {
        return Err(Say::Text("I wait.".to_owned()));
    }
    let mut current: Vec<String> = workers.iter().map(|worker| last_name(heard, worker)).collect();
    current.extend(lame(heard));
    current.sort();
    current.dedup();
    let staying = current.iter().filter(|name| !has_ended(heard, name));
    all(heard, staying.clone().map(|name| shutdown(heard, name)))?;
    if staying.count() > 0 {
        return Err(Say::Text("I wait until all have left.".to_owned()));
    }
    finish(heard)?;
    if world.plan.deletes_team { delete(heard) } else { Ok(()) }
}

/// Completes all tasks that are still open. A task stays open if, for example, its worker was
/// killed. The lead does this again each time that its run continues.
fn finish(heard: &Heard) -> Result<(), Say> {
    let round = heard.told.matches(GO_ON).count();
    for nth in 0.. {
        let list = Wanted::new(format!("l-{round}-{nth}"), "TaskList", json!({}));
        let lists = all(heard, [list])?;
        let open: Vec<String> = lists.iter().flat_map(|list| open_tasks(list)).collect();
        if open.is_empty() {
            break;
        }
        let complete = |id: &String| {
            let input = json!({"taskId": id, "status": "completed"});
            Wanted::new(format!("f-{round}-{nth}-{id}"), "TaskUpdate", input)
        };
        all(heard, open.iter().map(complete))?;
    }
    Ok(())
}

/// Returns the ids of the open tasks in the output of the tool TaskList.
fn open_tasks(list: &str) -> Vec<String> {
    let is_open = |line: &&str| line.contains(" [pending] ") || line.contains(" [in_progress] ");
    list.lines().filter(is_open).filter_map(number_in).collect()
}

/// Returns the messages that wake idle workers. After a failure of a model, the run continues with
/// a new prompt. For each of these prompts, the lead sends one message to each worker that has not
/// ended.
fn nudges(heard: &Heard, workers: &[Worker]) -> Vec<Wanted> {
    let times = heard.told.matches(GO_ON).count();
    let names = workers
        .iter()
        .map(|worker| last_name(heard, worker))
        .filter(|name| !has_ended(heard, name));
    let names: Vec<String> = names.collect();
    let nudge = |nth: usize| {
        let note = move |name: &String| Wanted::note(format!("k-{nth}-{name}"), name, "go on");
        names.iter().map(note).collect::<Vec<_>>()
    };
    (0..times).flat_map(nudge).collect()
}

/// Deletes the team, after all members have shut down. A failed member may run again after a
/// resume, even if it has a successor. So it must shut down too.
fn delete(heard: &Heard) -> Result<(), Say> {
    for nth in 0.. {
        let answers = all(heard, [Wanted::new(format!("delete-{nth}"), "TeamDelete", json!({}))])?;
        if answers.iter().any(|answer| answer.contains("is not deleted yet")) {
            // Call TeamDelete again. If tasks are open, TeamDelete refuses the first call, and the
            // second call deletes the team. Such tasks belong to ended workers, or were created
            // from outside. The run must report them as open.
            continue;
        }
        let Some(names) = answers.iter().find_map(|answer| names_of_active(answer)) else { break };
        all(heard, names.iter().map(|name| shutdown(heard, name)))?;
        if names.iter().any(|name| ends_of(heard, name) <= ends_before(heard, name)) {
            return Err(Say::Text("I wait until all have left.".to_owned()));
        }
    }
    Ok(())
}

/// TeamDelete fails while members are active. Returns the names of these members.
fn names_of_active(answer: &str) -> Option<Vec<String>> {
    let (_, rest) = answer.split_once("active member(s): ")?;
    let (names, _) = rest.split_once('.')?;
    Some(names.split(", ").map(str::to_owned).collect())
}

fn tasks_of(worker: &Worker) -> impl Iterator<Item = Wanted> {
    (0..worker.tasks).map(|index| {
        let step = format!("t-{}-{index}", worker.role);
        let subject = format!("part {index} of {}", worker.role);
        Wanted::new(step, "TaskCreate", json!({"subject": subject, "description": "Do it."}))
    })
}

/// Returns the name that the lead asks for when it spawns the nth member of a role.
fn name_of(worker: &Worker, nth: usize) -> String {
    if nth == 1 { worker.role.clone() } else { format!("{}-{nth}", worker.role) }
}

/// Returns the name that pitcrew gave to the nth member of a role. If the wanted name was already
/// used, this is another name.
fn given_name(heard: &Heard, worker: &Worker, nth: usize) -> String {
    let wanted = name_of(worker, nth);
    let Came::Done(answer) = heard.came_of(&format!("s-{wanted}")) else { return wanted };
    let given = answer.lines().find_map(|line| line.strip_prefix("name: ")).map(str::to_owned);
    given.unwrap_or(wanted)
}

fn spawn(worker: &Worker, ids: &[String], nth: usize, world: World<'_>) -> Wanted {
    let name = name_of(worker, nth);
    let word = if nth == 1 { "Wait for the word go." } else { "go" };
    let prompt = format!("ROLE:{} TASKS:{} {word}", worker.role, ids.join(","));
    let mut input = json!({
        "name": name, "subagent_type": "general-purpose", "description": "do a part of it", "prompt": prompt,
    });
    let mut set = |field: &str, value: &str| {
        if let Some(fields) = input.as_object_mut() {
            fields.insert(field.to_owned(), json!(value));
        }
    };
    if world.plan.place == Place::Mixed && !worker.in_pane {
        set("backend", "in-process");
    }
    if worker.plans {
        set("mode", "plan");
    }
    if worker.has_worktree {
        set("isolation", "worktree");
    }
    Wanted::new(format!("s-{name}"), "Task", input)
}

/// Returns true if the lead was told that a member has ended.
fn has_ended(heard: &Heard, name: &str) -> bool {
    ends_of(heard, name) > 0
}

/// Counts how often the lead was told that a member has ended.
fn ends_of(heard: &Heard, name: &str) -> usize {
    ENDS.iter().map(|end| heard.told.matches(&format!("{name} {end}")).count()).sum()
}

/// Returns how many ends of a member the lead knew before it asked the member to shut down: 1 if
/// the member has a successor, otherwise 0. A member with a successor may run again after a resume,
/// and may therefore end a second time.
fn ends_before(heard: &Heard, name: &str) -> usize {
    let (role, nth) = name.rsplit_once('-').unwrap_or((name, "1"));
    let successor = format!("{role}-{}", nth.parse().unwrap_or(1_usize).saturating_add(1));
    usize::from(heard.calls.iter().any(|call| call.input["name"] == successor.as_str()))
}

/// Returns the members that the last run could not start again. They stay in the team until they
/// receive a shutdown request.
fn lame(heard: &Heard) -> Vec<String> {
    let ends = heard
        .told
        .match_indices(" cannot go on in this run")
        .map(|(at, _)| heard.told.get(..at).unwrap_or_default());
    ends.filter_map(|text| text.rsplit(char::is_whitespace).next()).map(str::to_owned).collect()
}

/// Returns the name of the newest member of a role.
fn last_name(heard: &Heard, worker: &Worker) -> String {
    let mut nth = 1;
    while heard.calls.iter().any(|call| call.input["name"] == name_of(worker, nth + 1)) {
        nth += 1;
    }
    given_name(heard, worker, nth)
}

/// Returns the calls that spawn successors. A role needs a successor for each member that ended
/// before the role sent its report.
fn successors(heard: &Heard, parts: &[(&Worker, Vec<String>)], world: World<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for (worker, ids) in parts {
        let (mut nth, report) = (1, format!("report of {}", worker.role));
        let reported_at = heard.told.find(&report).unwrap_or(usize::MAX);
        loop {
            let name = given_name(heard, worker, nth);
            let ended =
                ENDS.iter().filter_map(|end| heard.told.find(&format!("{name} {end}"))).min();
            if ended.is_none_or(|at| at > reported_at) {
                break;
            }
            nth += 1;
            wanted.push(spawn(worker, ids, nth, world));
        }
    }
    wanted
}

fn approvals(heard: &Heard) -> Vec<Wanted> {
    let requests = heard.words_with("plan_approval-").into_iter();
    let approve = |(index, id): (usize, String)| {
        let from = id.split('@').nth(1).unwrap_or_default().to_owned();
        let input = json!({
            "type": "plan_approval_response", "request_id": id, "recipient": from, "approve": true,
        });
        Wanted::new(format!("p-{index}"), "SendMessage", input)
    };
    requests.enumerate().map(approve).collect()
}

/// Returns answers to every third note.
fn replies(heard: &Heard) -> Vec<Wanted> {
    let notes = tokens_in(&heard.told).into_iter().filter(|token| token.contains(">team-lead:n-"));
    let reply = |token: &str| {
        let (from, rest) = token.trim_start_matches('[').split_once('>')?;
        let number: u64 = rest.trim_end_matches(']').rsplit(':').next()?.parse().ok()?;
        number.is_multiple_of(3).then(|| Wanted::note(format!("r-{number}"), from, "heard"))
    };
    notes.filter_map(reply).collect()
}

/// Returns the call that asks a member to shut down. After each refusal or failure of the member,
/// the call belongs to a new step, and so the lead asks again. It must ask again because the
/// earlier request and its answer may be lost.
fn shutdown(heard: &Heard, name: &str) -> Wanted {
    let refused =
        heard.words_with("shutdown-").into_iter().filter(|id| id.contains(&format!("@{name}")));
    let refused = heard.told.matches("shutdown_rejected").count().min(refused.count());
    let nth = refused + heard.told.matches(&format!("Teammate \"{name}\" failed")).count();
    let input = json!({"type": "shutdown_request", "recipient": name, "content": "All is done."});
    Wanted::new(format!("e-{name}-{nth}"), "SendMessage", input)
}
