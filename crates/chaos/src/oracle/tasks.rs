//! Checks that every task has the right final state. Also checks how often each command ran: the
//! number must fit the result that the agent got.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Finding, Scene};
use crate::brain::{step_of, tokens_in};
use crate::stage::{Stage, files};
use crate::writers::{Writer, Written, members};

pub(super) fn judge(scene: &Scene<'_>) -> Vec<Finding> {
    let mut findings = commands(scene);
    let folder = scene.stage.tasks();
    findings.extend(missing(scene.stage, &scene.written));
    let tasks = tasks(&folder);
    let mut untrue = |text: String| findings.push(Finding::new("a task's end is untrue", text));
    for (id, result) in &scene.seen.results {
        let completed = step_of(id).and_then(|step| step.strip_prefix("d-"));
        let (Some(task), Some((_, false))) = (completed, result) else { continue };
        match tasks.get(task) {
            None => untrue(format!("task {task} is gone, and {id} has completed it")),
            Some(found) if found["status"] != "completed" => {
                untrue(format!("task {task} is {}, and {id} has completed it", found["status"]));
            }
            Some(_) => {}
        }
    }
    let reported =
        scene.end.iter().flat_map(|end| end.report["tasks"].as_array().into_iter().flatten());
    for reported in reported {
        let found = reported["id"]
            .as_str()
            .and_then(|id| tasks.get(id))
            .map_or(&Value::Null, |task| &task["status"]);
        if (reported["status"] == "completed") != (found == "completed") {
            untrue(format!("the report says that {reported} stands so, and the files {found}"));
        }
    }
    let members = members(scene.stage);
    for (id, task) in &tasks {
        let Some(owner) = task["owner"].as_str().filter(|_| task["status"] != "completed") else {
            continue;
        };
        if !owner.is_empty() && !members.iter().any(|name| name == owner) {
            untrue(format!("task {id} is {} and {owner}'s, who is no member", task["status"]));
        }
    }
    findings
}

/// Checks the tasks that other programs created or claimed with confirmation by pitcrew. Returns a
/// finding for each of these tasks whose file is missing or does not show the creation or the
/// claim.
pub(super) fn missing(stage: &Stage, acknowledged: &[Written]) -> Vec<Finding> {
    let tasks = tasks(&stage.tasks());
    let made = acknowledged.iter().filter(|written| written.writer == Writer::Claims);
    let is_gone = |written: &&Written| {
        let task = written.id.as_ref().and_then(|id| tasks.get(id));
        let is_there = task.is_some_and(|task| task["subject"] == written.token);
        // The task may also be completed, because the lead completes all open tasks at the end.
        let is_begun =
            |task: &Value| task["status"] == "in_progress" || task["status"] == "completed";
        let is_claimed = task.is_some_and(|task| task["owner"] == "team-lead" && is_begun(task));
        !is_there || (written.is_claimed && !is_claimed)
    };
    made.filter(is_gone)
        .map(|written| Finding::new("an acknowledged task is gone", format!("{written:?}")))
        .collect()
}

/// Returns true if the team has an open task.
pub(super) fn is_any_open(stage: &Stage) -> bool {
    tasks(&stage.tasks()).values().any(|task| task["status"] != "completed")
}

fn tasks(folder: &Path) -> BTreeMap<String, Value> {
    let paths =
        files(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "json"));
    let task = |path: PathBuf| {
        let task: Value = serde_json::from_str(&fs::read_to_string(&path).ok()?).ok()?;
        Some((task["id"].as_str()?.to_owned(), task))
    };
    paths.filter_map(task).collect()
}

/// Checks how often the agents' commands ran. A command that succeeded must have run exactly once.
/// An interrupted command must have run at most once.
fn commands(scene: &Scene<'_>) -> Vec<Finding> {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for log in logs(scene.stage.home(), 6) {
        let text = fs::read_to_string(log).unwrap_or_default();
        for token in tokens_in(&text) {
            *lines.entry(token.to_owned()).or_default() += 1;
        }
    }
    let mut findings = Vec::new();
    for tried in scene.seen.tried.iter().filter(|tried| tried.to.is_none()) {
        let count = lines.get(&tried.token).copied().unwrap_or_default();
        let is_done = matches!(scene.seen.results.get(&tried.call), Some(Some((_, false))));
        if count > 1 || (is_done && count == 0) {
            let text = format!(
                "{} ran {count} times; the agent was told that it is done: {is_done}",
                tried.token
            );
            findings.push(Finding::new("a command did not run once", text));
        }
    }
    findings
}

/// Finds the log files to which the agents' commands write.
fn logs(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in files(folder) {
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        if is_folder && depth > 0 {
            found.extend(logs(&path, depth - 1));
        } else if path.ends_with("commands.log") {
            found.push(path);
        }
    }
    found
}
