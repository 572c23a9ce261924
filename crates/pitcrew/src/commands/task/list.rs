//! `pitcrew task list`.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::TaskStatus;
use pitcrew_team::{TaskListView, TaskRowView};

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line};
use crate::selection::TeamChoice;

/// The widest subject in the table, so that a row fits a common terminal.
const SUBJECT_CHARS: usize = 60;

/// List the team's tasks
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only the tasks with this status: pending, in_progress or completed
    #[arg(long, value_parser = status)]
    status: Option<TaskStatus>,
    /// Only the tasks of this member
    #[arg(long, value_name = "AGENT", add = ArgValueCompleter::new(completing::members))]
    owner: Option<String>,
    #[command(flatten)]
    team: TeamChoice,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let tasks = self.team.look(context).await?.tasks().await?;
        let mut listed = TaskListView::of(&tasks);
        listed.tasks.retain(|task| {
            self.status.is_none_or(|status| task.status == status)
                && self.owner.as_ref().is_none_or(|owner| task.owner.as_ref() == Some(owner))
        });
        listed.total = listed.tasks.len();
        context.output.answer(&listed, table)
    }
}

/// The tasks as a table.
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
    let found = known.into_iter().find(|status| status.as_str() == name);
    found.ok_or_else(|| "one of pending, in_progress, completed".to_owned())
}
