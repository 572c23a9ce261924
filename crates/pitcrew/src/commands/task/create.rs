//! `pitcrew task create`: adds a task.

use pitcrew_protocol::TaskCreateInput;
use pitcrew_team::{Actor, TaskView};
use serde_json::{Map, Value};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::in_one_line;
use crate::selection::TeamChoice;

/// Add a task to the team's list
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pitcrew task create \"Fix the parser\" \"Tests in tests/parser.rs fail\""
)]
pub(crate) struct Create {
    /// The title of the task, short and imperative
    subject: String,
    /// The description of the work [default: the title]
    description: Option<String>,
    /// The title shown while the task is in progress, such as "Fixing the parser"
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// A metadata field, where VALUE is JSON or plain text; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::metadata_entry)]
    metadata: Vec<(String, Value)>,
    #[command(flatten)]
    team: TeamChoice,
}

impl Create {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        let metadata: Map<String, Value> = self.metadata.into_iter().collect();
        let input = TaskCreateInput {
            description: self.description.unwrap_or_else(|| self.subject.clone()),
            subject: self.subject,
            active_form: self.active_form,
            metadata: (!metadata.is_empty()).then_some(metadata),
        };
        let task = team.create_task(&Actor::User, input, None).await?;
        context.output.answer(&TaskView::of(&task), |task| {
            format!("made task #{}: {}", task.task_id, in_one_line(&task.subject))
        })
    }
}
