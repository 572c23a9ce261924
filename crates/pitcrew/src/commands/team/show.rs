//! `pitcrew team show`.

use std::path::PathBuf;

use pitcrew_protocol::TeamConfig;
use pitcrew_store::LeaseHolder;
use pitcrew_team::TaskListView;
use serde::Serialize;

use crate::commands::member::list::table as members;
use crate::commands::task::list::table as tasks;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{FAINT, STRONG, printable};
use crate::selection;

/// Show a team: its members, its tasks, and who runs it
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The team [default: the only one, else the one named after the repository's folder]
    name: Option<String>,
}

/// The answer: the team's config as it is on disk, and what goes with it.
#[derive(Debug, Serialize)]
struct Shown {
    team: TeamConfig,
    team_file_path: PathBuf,
    tasks: TaskListView,
    /// The process that runs the team now.
    run_by: Option<LeaseHolder>,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = selection::open(context, self.name.as_deref()).await?;
        let shown = Shown {
            team: team.config().await?,
            team_file_path: team.file(),
            tasks: TaskListView::of(&team.tasks().await?),
            run_by: team.backend().lease_holder(team.dir()).await.map_err(Failure::internal)?,
        };
        context.output.answer(&shown, Shown::text)
    }
}

impl Shown {
    fn text(&self) -> String {
        let about = self.team.description.as_deref().map(|text| format!("{}\n", printable(text))).unwrap_or_default();
        let run_by = match &self.run_by {
            Some(holder) => format!("run by process {}", holder.pid),
            None => "not running".to_owned(),
        };
        format!(
            "{STRONG}{}{STRONG:#}  {FAINT}{run_by}, {}{FAINT:#}\n{about}\n{}\n\n{}",
            printable(self.team.name.as_str()),
            self.team_file_path.display(),
            members(&self.team.members),
            tasks(&self.tasks),
        )
    }
}
