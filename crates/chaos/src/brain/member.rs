//! Decides what a worker does: it plans, claims its tasks, runs commands, writes notes (test
//! messages), completes tasks, sends its report, and leaves.

use serde_json::json;

use super::{Came, Heard, Say, Wanted, World, all, number_in};
use crate::chance::Chance;

/// The maximum number of notes (test messages) that one member writes.
const NOTES_MOST: usize = 300;

/// The maximum number of notes that one member writes in a run with stale writes (another program
/// writes old file contents back). The number is small, because commands send most of the messages
/// in such a run.
const NOTES_MOST_STALE: usize = 24;

/// The maximum number of pauses that a member makes in a run with stale writes (another program
/// writes old file contents back). The member makes pauses until the team may end.
const PAUSES_MOST: usize = 4_000;

/// After each group of this many notes, a member creates a task and completes it.
const OWN_TASK_EVERY: usize = 4;

/// The minimum number of notes (test messages) that one member writes.
const NOTES_LEAST: usize = 4;

pub(super) fn decide(heard: &Heard, name: &str, world: World<'_>) -> Say {
    match next(heard, name, world) {
        Ok(()) => Say::Text("I rest.".to_owned()),
        Err(say) => say,
    }
}

fn next(heard: &Heard, name: &str, world: World<'_>) -> Result<(), Say> {
    let role = name.split('-').next().unwrap_or_default();
    let Some(worker) = world.plan.workers.iter().find(|worker| worker.role == role) else {
        return Err(Say::GivesUp(format!("{name} has no role")));
    };
    all(heard, answers(heard, name, worker.refuses))?;
    if worker.plans {
        all(
            heard,
            [Wanted::new("plan", "ExitPlanMode", json!({"plan": "1. Do it.\n2. Say so."}))],
        )?;
        if !heard.told.contains("plan_approval_response") && !heard.told.contains("approved") {
            return Err(Say::Text("I wait for the approval.".to_owned()));
        }
    }
    if !(heard.told.contains(" go\n")
        || heard.told.contains("\ngo [[")
        || heard.told.contains(" go [["))
    {
        return Err(Say::Text("I wait for the word.".to_owned()));
    }
    let tasks = tasks(heard);
    for id in &tasks {
        task(heard, name, id)?;
    }
    let most = if world.plan.stale.is_some() { NOTES_MOST_STALE } else { NOTES_MOST };
    let mut sent = 0;
    while sent < NOTES_LEAST || (sent < most && !world.may_end) {
        if sent % OWN_TASK_EVERY == OWN_TASK_EVERY - 1 {
            own_task(heard, name, sent)?;
        }
        all(heard, [note(name, sent, world)])?;
        sent += 1;
    }
    // Only a message wakes an idle member, and the run ends when all members are idle. So a member
    // must stay busy until the team may end.
    for nth in (0..PAUSES_MOST).take_while(|_| world.plan.stale.is_some() && !world.may_end) {
        // Each pause is a different command, because pitcrew stops an agent that makes the same
        // call again and again.
        let pause =
            json!({"command": format!("sleep 0.3 # {nth}"), "description": "Wait a moment"});
        all(heard, [Wanted::new(format!("w-{nth}"), "Bash", pause)])?;
    }
    // Send the report only after the team may end, so that it comes after all notes.
    let report = Wanted::note("report", "team-lead", &format!("report of {role}"));
    if world.may_end || heard.came_of("report") != Came::Nothing {
        all(heard, [report])?;
    }
    Ok(())
}

/// Finds the ids of the worker's tasks in its prompt.
fn tasks(heard: &Heard) -> Vec<String> {
    let (_, rest) = heard.told.split_once("TASKS:").unwrap_or_default();
    let ids = rest.split_whitespace().next().unwrap_or_default();
    ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

/// Creates a task and completes it.
fn own_task(heard: &Heard, name: &str, nth: usize) -> Result<(), Say> {
    let subject = format!("part {nth} that {name} found");
    let input = json!({"subject": subject, "description": "Do it."});
    let made = all(heard, [Wanted::new(format!("o-{nth}"), "TaskCreate", input)])?;
    let id = made.first().and_then(|text| number_in(text)).unwrap_or_default();
    task(heard, name, &id)
}

/// Completes one task. Does nothing if an earlier member of the role has already completed it.
fn task(heard: &Heard, name: &str, id: &str) -> Result<(), Say> {
    let got = all(heard, [Wanted::new(format!("g-{id}"), "TaskGet", json!({"taskId": id}))])?;
    if got.iter().any(|text| text.contains("completed")) {
        return Ok(());
    }
    // The claim failed because an earlier member of the role has completed the task in the
    // meantime. So nothing is left to do.
    if matches!(heard.came_of(&format!("c-{id}")), Came::Failed(_, why) if why.contains("(completed)"))
    {
        return Ok(());
    }
    // The claim fails because another member owns the task. After a full disk, an earlier member
    // may stay in the team and keep its tasks. The lead completes them later.
    if matches!(heard.came_of(&format!("c-{id}")), Came::Failed(3.., why) if why.contains("is owned by"))
    {
        return Ok(());
    }
    let claim = json!({"taskId": id, "owner": name, "status": "in_progress"});
    all(heard, [Wanted::new(format!("c-{id}"), "TaskUpdate", claim)])?;
    let command =
        json!({"command": "echo '{token}' >> commands.log", "description": "Write a line"});
    all(heard, [Wanted::new(format!("b-{id}"), "Bash", command)])?;
    let done = json!({"taskId": id, "status": "completed"});
    all(heard, [Wanted::new(format!("d-{id}"), "TaskUpdate", done)])?;
    Ok(())
}

/// Returns the call that sends the nth note. The receiver is the lead or another worker.
fn note(name: &str, nth: usize, world: World<'_>) -> Wanted {
    let mut chance = Chance::of(world.plan.seed, &format!("{name} {nth}"));
    let role = name.split('-').next().unwrap_or_default();
    let peers: Vec<&str> = world
        .plan
        .workers
        .iter()
        .map(|worker| worker.role.as_str())
        .filter(|peer| *peer != role)
        .collect();
    let to = if chance.percent(35) {
        "team-lead"
    } else {
        chance.pick(&peers).copied().unwrap_or("team-lead")
    };
    Wanted::note(format!("n-{nth}"), to, "a note")
}

/// Returns the calls that answer shutdown requests. If `refuses` is set, the worker refuses the
/// first request and approves all others.
fn answers(heard: &Heard, name: &str, refuses: bool) -> Vec<Wanted> {
    let requests = heard.words_with("shutdown-").into_iter().filter(|id| id.contains('@'));
    let answer = |(index, id): (usize, String)| {
        let approve = !(refuses && index == 0 && !name.contains('-'));
        let content = if approve { "I am done." } else { "One moment." };
        let input = json!({"type": "shutdown_response", "request_id": id, "approve": approve, "content": content});
        Wanted::new(format!("a-{index}"), "SendMessage", input)
    };
    // If the run ended after a shutdown request, the request is void in the next run. The member
    // learns this from a message, or because its answer is refused.
    let is_void = |index: usize, id: &str| {
        let is_refused = matches!(heard.came_of(&format!("a-{index}")), Came::Failed(_, why) if why.contains("is void"));
        is_refused || heard.told.contains(&format!("({id}) is void"))
    };
    requests.enumerate().filter(|(index, id)| !is_void(*index, id)).map(answer).collect()
}
