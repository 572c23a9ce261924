//! `pitcrew task list`.

use pitcrew_protocol::{Task, TaskId, TaskStatus, open_blockers};
use serde::Serialize;

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
    #[arg(long, value_name = "AGENT")]
    owner: Option<String>,
    #[command(flatten)]
    team: TeamChoice,
}

/// The answer, as TaskList of the API reference gives it.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    tasks: Vec<Row>,
    total: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    id: TaskId,
    subject: String,
    status: TaskStatus,
    owner: Option<String>,
    /// Only blockers that are not completed.
    #[serde(rename = "blockedBy")]
    blocked_by: Vec<TaskId>,
    blocks: Vec<TaskId>,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let tasks = self.team.open(context).await?.tasks().await?;
        let wanted = |task: &&Task| {
            self.status.is_none_or(|status| task.status == status)
                && self.owner.as_ref().is_none_or(|owner| task.owner.as_ref() == Some(owner))
        };
        let listed = Listed::new(tasks.iter().filter(wanted), &tasks);
        context.output.answer(&listed, Listed::text)
    }
}

impl Listed {
    /// The rows of `shown`, whose blockers are among `all`.
    pub(crate) fn new<'a>(shown: impl Iterator<Item = &'a Task>, all: &[Task]) -> Self {
        let row = |task: &Task| Row {
            id: task.id.clone(),
            subject: task.subject.clone(),
            status: task.status,
            owner: task.owner.clone(),
            blocked_by: open_blockers(task, all).into_iter().cloned().collect(),
            blocks: task.blocks.clone(),
        };
        let tasks: Vec<Row> = shown.map(row).collect();
        Self { total: tasks.len(), tasks }
    }

    /// The table.
    pub(crate) fn text(&self) -> String {
        if self.tasks.is_empty() {
            return "no tasks".to_owned();
        }
        let ids = |ids: &[TaskId]| ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(" ");
        let cells = |row: &Row| {
            [
                format!("#{}", row.id),
                row.status.as_str().replace('_', " "),
                row.owner.clone().unwrap_or_else(|| "-".to_owned()),
                first_line(&row.subject, SUBJECT_CHARS),
                ids(&row.blocked_by),
            ]
        };
        let rows: Vec<_> = self.tasks.iter().map(cells).collect();
        output::table(["TASK", "STATUS", "OWNER", "SUBJECT", "WAITS FOR"], &rows)
    }
}

fn status(name: &str) -> Result<TaskStatus, String> {
    let known = [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed];
    let found = known.into_iter().find(|status| status.as_str() == name);
    found.ok_or_else(|| "one of pending, in_progress, completed".to_owned())
}
