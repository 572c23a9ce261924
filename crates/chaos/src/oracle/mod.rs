//! What must be true when a run has ended: of messages, tasks, commands, leftovers and the report.

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

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of fault it is.
    pub kind: String,
    /// What was found.
    pub text: String,
}

impl Finding {
    /// A fault of a kind, with what was found.
    pub fn new(kind: &str, text: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), text: text.into() }
    }
}

/// What the oracle looks at.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The place of the run.
    pub stage: &'a Stage,
    /// Its plan.
    pub plan: &'a Plan,
    /// What the models were asked.
    pub seen: SeenRequests,
    /// What was written from outside.
    pub written: Vec<Written>,
    /// How the last process of the lead ended; `None` when a crash did that and the team was deleted before.
    pub end: Option<End>,
    /// How often the lead was started again.
    pub life: usize,
}

/// Everything that is not as it should be.
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

/// Whether all that could not be done failed at the limit under which the last life of the lead ran, and said so.
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

/// What was acknowledged to writers from outside and is not in the files.
#[must_use]
pub fn missing(stage: &Stage, acknowledged: &[Written]) -> Vec<Finding> {
    let mut findings = messages::missing(stage, acknowledged);
    findings.extend(tasks::missing(stage, acknowledged));
    findings
}

/// The report says that the run has succeeded, with the lead's last words, and the files say so too.
fn report(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(end) = &scene.end else { return Vec::new() };
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
    // One whose work is done goes to the archive, unless somebody outside made a task since.
    let stays = is_open || (is_there && tasks::is_any_open(scene.stage));
    check(
        is_there == (stays && !scene.plan.deletes_team),
        format!("the team is there: {is_there}"),
    );
    findings
}
