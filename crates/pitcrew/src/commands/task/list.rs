//! `pitcrew task list`: lists the tasks of a team.

use std::collections::HashSet;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{Task, TaskId, TaskStatus, same_name};
use pitcrew_team::{TaskListView, TaskRowView, TaskView};
use serde_json::Value;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line};
use crate::selection::TeamChoice;

/// The maximum number of characters of a subject in the table. With this limit a row fits a common
/// terminal.
const SUBJECT_CHARS: usize = 60;

/// List the team's tasks
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew task list --status pending
  pitcrew task list --metadata priority=high --metadata component=auth")]
pub(crate) struct List {
    /// Only the tasks with this status: pending, in_progress or completed
    #[arg(long, value_parser = status)]
    status: Option<TaskStatus>,
    /// Only the tasks of this member
    #[arg(long, value_name = "AGENT", add = ArgValueCompleter::new(completing::members))]
    owner: Option<String>,
    /// Only the tasks whose metadata has this value; VALUE is JSON or plain text, and if given
    /// several times, all must match
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::metadata_entry)]
    metadata: Vec<(String, Value)>,
    #[command(flatten)]
    team: TeamChoice,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.look_of(context, self.owner.as_deref().unwrap_or_default()).await?;
        let tasks = team.tasks().await?;
        let owner = match &self.owner {
            Some(owner) => Some(team.bare_name(owner).await),
            None => None,
        };
        let mut listed = TaskListView::of(&tasks);
        let with_metadata: HashSet<&TaskId> =
            tasks.iter().filter(|task| self.has_metadata(task)).map(|task| &task.id).collect();
        listed.tasks.retain(|task| {
            self.status.is_none_or(|status| task.status == status)
                && owner
                    .as_ref()
                    .is_none_or(|owner| task.owner.as_ref().is_some_and(|it| same_name(it, owner)))
                && with_metadata.contains(&task.id)
        });
        listed.total = listed.tasks.len();
        context.output.answer(&listed, table)
    }

    fn has_metadata(&self, task: &Task) -> bool {
        let there = TaskView::of(task).metadata;
        self.metadata
            .iter()
            .all(|(key, wanted)| there.get(key).is_some_and(|value| is_same(value, wanted)))
    }
}

/// Returns whether a stored value equals the value from the command line. A value such as `1` or
/// `true` also matches when it was stored as a string.
fn is_same(value: &Value, typed: &Value) -> bool {
    let text = typed.to_string();
    value == typed || value.as_str() == Some(text.as_str())
}

/// Formats the tasks as a table.
pub(crate) fn table(listed: &TaskListView) -> String {
    if listed.tasks.is_empty() {
        return "no tasks".to_owned();
    }
    let cells = |row: &TaskRowView| {
        [
            format!("#{}", row.id),
            row.status.as_str().replace('_', " "),
            row.owner.clone().unwrap_or_else(|| "-".to_owned()),
            first_line(&row.subject, SUBJECT_CHARS),
            super::ids(&row.blocked_by),
        ]
    };
    let rows: Vec<_> = listed.tasks.iter().map(cells).collect();
    output::table(["TASK", "STATUS", "OWNER", "SUBJECT", "WAITS FOR"], &rows)
}

fn status(name: &str) -> Result<TaskStatus, String> {
    let known = [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed];
    // The table of this command shows `in progress`, so that spelling is accepted too.
    let name = name.replace([' ', '-'], "_");
    let found = known.into_iter().find(|status| status.as_str() == name);
    found.ok_or_else(|| "one of pending, in_progress, completed".to_owned())
}
