//! `pitcrew task get`: shows one task.

use std::fmt::Write as _;

use pitcrew_team::TaskView;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{FAINT, STRONG, in_one_line, printable};
use crate::selection::TeamChoice;

/// Show one task
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The task's number
    id: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Get {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.look(context).await?;
        let task = team.task(&self.id).await?;
        context.output.answer(&TaskView::of(&task), text)
    }
}

fn text(task: &TaskView) -> String {
    let mut text = format!("{STRONG}#{} {}{STRONG:#}\n", task.task_id, in_one_line(&task.subject));
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{FAINT}{:<11}{FAINT:#} {}", printable(name), printable(value));
        }
    };
    row("status", &task.status.as_str().replace('_', " "));
    row("owner", task.owner.as_deref().unwrap_or("nobody"));
    row("waits for", &super::ids(&task.blocked_by));
    row("holds up", &super::ids(&task.blocks));
    row("made", task.created_at.as_deref().unwrap_or_default());
    row("changed", task.updated_at.as_deref().unwrap_or_default());
    for (key, value) in &task.metadata {
        row(key, &value.to_string());
    }
    if task.description != task.subject {
        let _ = write!(text, "\n{}", printable(&task.description));
    }
    text
}
