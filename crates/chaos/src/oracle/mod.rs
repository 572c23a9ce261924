//! Checks a run that has ended: its messages, its tasks, its commands, what it has left behind, and
//! its report.

mod ends;
mod messages;
mod orphans;
mod tasks;

pub use ends::{LifeEnd, judge as judge_end};
use serde_json::Value;

use crate::brain::LAST_WORDS;
use crate::plan::{Fault, Plan};
use crate::run::{End, UNFINISHED};
use crate::server::SeenRequests;
use crate::stage::Stage;
use crate::writers::Written;

/// A fault that the harness found in pitcrew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of fault.
    pub kind: String,
    /// A description of the fault.
    pub text: String,
}

impl Finding {
    /// Builds a finding.
    pub fn new(kind: &str, text: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), text: text.into() }
    }
}

/// Everything that the oracle examines.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The environment of the run: its folders and processes.
    pub stage: &'a Stage,
    /// The plan of the run.
    pub plan: &'a Plan,
    /// What the fake model server learned from the requests.
    pub seen: SeenRequests,
    /// The messages and tasks that other programs wrote.
    pub written: Vec<Written>,
    /// How the last process of the lead ended. `None` if a crash killed this process after it had
    /// deleted the team.
    pub end: Option<End>,
    /// How often the lead was started again.
    pub life: usize,
}

/// Checks a run and returns all findings.
#[must_use]
pub fn judge(scene: &Scene<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !has_met_its_limit(scene) {
        findings.extend(
            scene.seen.given_up.iter().map(|why| Finding::new("a step cannot be done", why)),
        );
        findings.extend(report(scene));
    }
    findings.extend(orphans::judge(scene));
    findings.extend(messages::judge(scene));
    findings.extend(tasks::judge(scene));
    findings
}

/// Returns true if agents gave up steps, and the only cause was the system limit that the plan sets
/// for the lead's last process. The error of each of these steps must name that limit.
fn has_met_its_limit(scene: &Scene<'_>) -> bool {
    let cause = match scene.plan.fault {
        Some(Fault::Descriptors { life, .. }) if life == scene.life => "os error 24",
        Some(Fault::FileSize { life, .. }) if life == scene.life => "os error 27",
        Some(
            Fault::Descriptors { .. }
            | Fault::FileSize { .. }
            | Fault::FullDisk { .. }
            | Fault::PowerCuts,
        )
        | None => {
            return false;
        }
    };
    let given_up = &scene.seen.given_up;
    !given_up.is_empty() && given_up.iter().all(|why| why.contains(cause))
}

/// Pitcrew has confirmed some messages and tasks of other programs. Returns a finding for each of
/// them that is missing in the files.
#[must_use]
pub fn missing(stage: &Stage, acknowledged: &[Written]) -> Vec<Finding> {
    let mut findings = messages::missing(stage, acknowledged);
    findings.extend(tasks::missing(stage, acknowledged));
    findings
}

/// Checks the report of the lead's last process. Its end and its exit code must fit the tasks, and
/// its result must be the last text of the lead. Its other data must agree with the files.
fn report(scene: &Scene<'_>) -> Vec<Finding> {
    // No face has seen the end of a detached run without a report.
    let Some(end) = scene.end.as_ref().filter(|end| !end.report.is_null()) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut check = |holds: bool, text: String| {
        if !holds {
            findings.push(Finding::new("the report is untrue", text));
        }
    };
    let report = &end.report;
    let tasks: Vec<&Value> = report["tasks"].as_array().into_iter().flatten().collect();
    let is_open = tasks.iter().any(|task| task["status"] != "completed");
    let (code, name) = if is_open { (UNFINISHED, "stalled") } else { (0, "completed") };
    check(
        end.code == Some(code),
        format!("the exit code is {:?}, and its tasks are {tasks:?}", end.code),
    );
    check(
        report["end"] == name && report["exit_code"] == code,
        format!("the end is {}", report["end"]),
    );
    check(report["result"] == LAST_WORDS, format!("the result is {}", report["result"]));
    check(report["is_error"] == is_open, format!("is_error is {}", report["is_error"]));
    let asked = scene.seen.counts.get("team-lead").copied().unwrap_or_default();
    let turns = report["num_turns"].as_u64().unwrap_or_default();
    check(turns <= asked, format!("{turns} turns of {asked} requests"));
    let is_there = scene.stage.team().join("config.json").exists();
    // A finished team is moved to the archive. The team stays only if tasks are open, for example
    // if another program created a task after the end.
    let stays = is_open || (is_there && tasks::is_any_open(scene.stage));
    check(
        is_there == (stays && !scene.plan.deletes_team),
        format!("the team is there: {is_there}"),
    );
    findings
}
