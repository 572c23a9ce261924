//! Checks how a process of the lead ended. Its JSON document, its exit code, the cause of the end
//! and the team's files must agree.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Finding;
use crate::brain::LAST_WORDS;
use crate::harm::{EndSignal, ModelFault};
use crate::plan::Plan;
use crate::stage::{Stage, TEAM, files};
use crate::writers::members;

/// After a run has ended, its other processes must end within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// All ends that the JSON document may name. For each end, the list contains the possible exit
/// codes.
const CODES: [(&str, &[i32]); 15] = [
    ("completed", &[0]),
    ("refused", &[8]),
    ("truncated", &[8]),
    ("empty", &[8]),
    ("looping", &[8]),
    ("failed_to_start", &[8]),
    ("plan_unapproved", &[8]),
    ("stalled", &[8]),
    ("max_turns", &[7]),
    ("max_cost", &[7]),
    ("model_unavailable", &[75]),
    ("interrupted", &[130, 143]),
    ("shut_down", &[130]),
    ("failed", &[1]),
    ("broken", &[70]),
];

/// How one process of a lead ended, and everything that may be the cause.
#[derive(Debug)]
pub struct LifeEnd<'a> {
    /// The environment of the run: its folders and processes.
    pub stage: &'a Stage,
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The exit code of the lead's process. `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The number of the signal that ended the lead's process. `None` if it exited with a code.
    pub killed_by: Option<i32>,
    /// The standard output of the lead's process.
    pub printed: &'a str,
    /// The last lines of the log of the lead's process.
    pub last_words: String,
    /// The signals that the harness sent to the lead's process.
    pub signals: &'a [EndSignal],
    /// The agents that got a bad answer from their model, and the kind of the answer. After a
    /// resume with a new prompt, the list starts empty again.
    pub met: &'a [(String, ModelFault)],
    /// True if a member was killed since the last resume with a new prompt, or since the start if
    /// there was none.
    pub member_killed: bool,
    /// True if the disk was full shortly before the end.
    pub disk_was_full: bool,
    /// The JSON document that the previous process of the lead printed.
    pub previous: Option<&'a Value>,
}

/// Checks how one process of the lead ended. Returns the JSON document that the process printed,
/// and a finding for each statement of the document that is false.
#[must_use]
pub fn judge(end: &LifeEnd<'_>) -> (Option<Value>, Vec<Finding>) {
    let mut untrue = Vec::new();
    let documents: Vec<Value> = serde_json::Deserializer::from_str(end.printed)
        .into_iter()
        .filter_map(Result::ok)
        .collect();
    let document = match documents.as_slice() {
        [document] => Some(document.clone()),
        // A signal can kill the process before the process has installed its signal handler. At
        // that time there is no team yet, so no document is printed.
        [] if is_killed_at_start(end) => None,
        _ => {
            untrue.push(format!(
                "{} documents, code {:?}: {}",
                documents.len(),
                end.code,
                end.printed
            ));
            None
        }
    };
    // If the disk is full, a run may be unable to open its team. Then it cannot stop the processes
    // that an earlier run has left running. So do not report these processes.
    let has_begun = document.as_ref().is_none_or(|document| !document["end"].is_null());
    if has_begun || !end.disk_was_full {
        untrue.extend(left_running(end));
    }
    if let Some(document) = &document {
        untrue.extend(own_truth(end, document));
        untrue.extend(cause(end, document));
        if !document["end"].is_null() {
            untrue.extend(by_files(end, document));
            untrue.extend(end.previous.into_iter().flat_map(|previous| sums(previous, document)));
        }
    }
    let finding =
        |text: String| Finding::new("an end is untrue", format!("{text}; {}", end.last_words));
    (document, untrue.into_iter().map(finding).collect())
}

fn is_killed_at_start(end: &LifeEnd<'_>) -> bool {
    let number = |signal: &EndSignal| match signal {
        EndSignal::Interrupt => 2,
        EndSignal::Terminate => 15,
        EndSignal::HangUp => 1,
    };
    end.code.is_none() && end.signals.iter().any(|signal| Some(number(signal)) == end.killed_by)
}

/// Checks that the fields of the document agree with each other and with the exit code.
fn own_truth(end: &LifeEnd<'_>, document: &Value) -> Vec<String> {
    let mut untrue = Vec::new();
    let code = end.code.unwrap_or(-1);
    let is_success = code == 0;
    let mut must = |field: &str, value: Value| {
        let found = &document[field];
        if *found != value {
            untrue.push(format!("{field} is {found}, not {value}"));
        }
    };
    must("success", json!(is_success));
    must("exit_code", json!(code));
    let Some(name) = document["end"].as_str() else { return untrue };
    must("team", json!(TEAM));
    must("is_error", json!(!is_success));
    if is_success {
        must("open", json!([]));
        must("result", json!(LAST_WORDS));
    }
    if !CODES.iter().any(|(known, codes)| *known == name && codes.contains(&code)) {
        untrue.push(format!("{name} ends with {code}"));
    }
    untrue
}

/// Checks that the harness did something that explains this end. Returns a description of the fault
/// if nothing explains it.
fn cause(end: &LifeEnd<'_>, document: &Value) -> Option<String> {
    let lead_met = |name: &str| {
        end.met.iter().any(|(agent, fault)| agent == "team-lead" && fault.end() == name)
    };
    let anybody_met = |name: &str| end.met.iter().any(|(_, fault)| fault.end() == name);
    let is_interrupted = end.signals.contains(&EndSignal::Interrupt);
    let is_terminated = end.signals.iter().any(|signal| *signal != EndSignal::Interrupt);
    let name = document["end"].as_str();
    let is_caused = match name {
        Some("completed") => true,
        Some("interrupted") => {
            if end.code == Some(130) {
                is_interrupted
            } else {
                is_terminated
            }
        }
        Some("failed") => lead_met("failed") || end.disk_was_full,
        Some("broken") => end.disk_was_full,
        Some("model_unavailable") => anybody_met("model_unavailable"),
        Some(name @ ("truncated" | "refused" | "empty")) => lead_met(name),
        Some("failed_to_start" | "stalled") => {
            !end.met.is_empty() || end.member_killed || end.disk_was_full
        }
        Some(_) => false,
        // The document names no end, so the run ended before it had a team. If the first request
        // fails, pitcrew removes the new team again. A signal or a full disk may also come before a
        // team exists.
        None => match end.code {
            Some(1) => lead_met("failed") && !is_there(end.stage),
            Some(70) => end.disk_was_full,
            Some(130) => is_interrupted,
            Some(143) => is_terminated,
            Some(_) | None => false,
        },
    };
    let met: BTreeSet<String> =
        end.met.iter().map(|(agent, fault)| format!("{agent} {fault:?}")).collect();
    (!is_caused).then(|| {
        let known = format!(
            "signals {:?}, bad answers {met:?}, full disk {}",
            end.signals, end.disk_was_full
        );
        format!(
            "nothing explains the end {name:?} ({:?}): {known}: {}",
            end.code, document["message"]
        )
    })
}

fn is_there(stage: &Stage) -> bool {
    stage.team().join("config.json").exists()
}

/// Checks that the document agrees with the team's files about the team, its members and its tasks.
fn by_files(end: &LifeEnd<'_>, document: &Value) -> Vec<String> {
    let mut untrue = Vec::new();
    let is_there = is_there(end.stage);
    let is_success = end.code == Some(0);
    // A successful run moves its team into the archive, whether or not its lead has deleted the
    // team. So for a successful run, the plan says whether the team was deleted.
    let is_deleted = if is_success { end.plan.deletes_team } else { !is_there };
    if is_success && (is_there || end.stage.archived().is_none()) {
        untrue.push(format!("it is completed, and the team is there: {is_there}"));
    }
    if document["team_deleted"] != json!(is_deleted) {
        untrue.push(format!(
            "team_deleted is {}, and the team is there: {is_there}",
            document["team_deleted"]
        ));
    }
    if document["resume"].is_string() == is_deleted {
        untrue.push(format!(
            "resume is {}, and the team is deleted: {is_deleted}",
            document["resume"]
        ));
    }
    let found = tasks(end.stage);
    untrue.extend(by_task_files(document, &found));
    let open: Vec<&Value> = found.iter().filter(|task| task["status"] != "completed").collect();
    if is_success && !open.is_empty() {
        untrue.push(format!("it is completed, and tasks are open: {open:?}"));
    }
    let words = document["open"].to_string();
    let is_unnamed =
        |task: &&&Value| !words.contains(&format!("#{} ", task["id"].as_str().unwrap_or_default()));
    if end.code == Some(8) && open.iter().any(|task| is_unnamed(&task)) {
        untrue.push(format!("open tasks are not named: {words}"));
    }
    untrue.extend(by_config(end, document, is_success));
    untrue
}

/// Checks that the document agrees with the task files. If the run was interrupted, an interrupted
/// call may still write after the document is made. So the task files may then be newer than the
/// document.
fn by_task_files(document: &Value, found: &[Value]) -> Option<String> {
    let is_cut_off = document["end"] == "interrupted";
    let lines = |tasks: &[Value]| tasks.iter().map(task_line).collect::<BTreeSet<String>>();
    let (said, filed) = (lines(list(&document["tasks"])), lines(found));
    let is_behind = |line: &&String| {
        let same = |task: &&Value| {
            line.starts_with(&format!("#{} ", task["id"].as_str().unwrap_or_default()))
        };
        let step = |status: &str| {
            ["pending", "in_progress", "completed"].iter().position(|name| *name == status)
        };
        let now = found
            .iter()
            .find(same)
            .and_then(|task| step(task["status"].as_str().unwrap_or_default()));
        is_cut_off && line.split(' ').nth(1).and_then(step) < now
    };
    let only_said: Vec<&String> = said.difference(&filed).filter(|line| !is_behind(line)).collect();
    let ids = |lines: &BTreeSet<String>| -> BTreeSet<String> {
        lines.iter().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let only_filed: Vec<String> = ids(&filed).difference(&ids(&said)).cloned().collect();
    let agrees = only_said.is_empty() && (only_filed.is_empty() || is_cut_off);
    (!agrees).then(|| {
        format!(
            "tasks: it says {only_said:?}, and the files have besides {only_filed:?}: {filed:?}"
        )
    })
}

fn by_config(end: &LifeEnd<'_>, document: &Value, is_success: bool) -> Vec<String> {
    let mut untrue = Vec::new();
    let present = members(end.stage);
    let said = list(&document["members"]);
    let state = |name: &str| {
        said.iter().find(|member| member["name"] == name).map(|member| &member["state"])
    };
    for name in &present {
        match state(name) {
            None => untrue.push(format!("{name} is a member, and the document does not name it")),
            // If the disk was full, the config may still contain a member that has shut down.
            Some(state) if state == "shut_down" && !end.disk_was_full => {
                untrue.push(format!("{name} has shut down and is a member"))
            }
            Some(_) => {}
        }
    }
    if is_success && present.iter().any(|name| name != "team-lead") {
        untrue.push(format!("it is completed, and {present:?} are members"));
    }
    untrue
}

/// Checks that the turns, the cost and the duration are not less than in the previous document.
/// They are sums since the first run of the team.
fn sums(previous: &Value, document: &Value) -> Vec<String> {
    let number = |document: &Value, field: &str| document[field].as_f64().unwrap_or_default();
    let fewer = |field: &&str| number(document, field) + 1e-9 < number(previous, field);
    let fields = ["num_turns", "total_cost_usd", "duration_ms"].into_iter().filter(fewer);
    fields
        .map(|field| format!("{field} is {}, and was {} before", document[field], previous[field]))
        .collect()
}

/// Returns the processes and panes that have not ended although the run has ended.
fn left_running(end: &LifeEnd<'_>) -> Vec<String> {
    let since = Instant::now();
    loop {
        let processes = end
            .stage
            .processes()
            .into_iter()
            .filter(|process| !process.line.contains(" send --team "));
        let panes = end.stage.panes().into_iter().filter(|pane| !pane.ends_with(" mine"));
        let left: Vec<String> = processes.map(|process| process.line).chain(panes).collect();
        if left.is_empty() {
            return left;
        }
        if since.elapsed() > PATIENCE {
            return left.into_iter().map(|line| format!("it still runs: {line}")).collect();
        }
        thread::park_timeout(Duration::from_millis(20));
    }
}

fn tasks(stage: &Stage) -> Vec<Value> {
    let paths = files(&stage.tasks())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"));
    paths.filter_map(|path| serde_json::from_str(&fs::read_to_string(path).ok()?).ok()).collect()
}

fn task_line(task: &Value) -> String {
    let text = |field: &str| task[field].as_str().unwrap_or_default().to_owned();
    format!("#{} {} {} {}", text("id"), text("status"), text("owner"), text("subject"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
