//! `pitcrew team show`.

use std::path::PathBuf;

use pitcrew_protocol::{Member, TeamConfig};
use pitcrew_store::{LeaseHolder, LeaseName};
use pitcrew_team::TaskListView;
use serde::Serialize;

use crate::commands::member::list;
use crate::commands::task::list::table as tasks;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, FAINT, STRONG, printable};
use crate::running::Running;
use crate::selection;
use crate::whereabouts::Whereabouts;

/// Show a team: its members and where they run, its tasks, and who runs it
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
    /// The process of ours that runs the team now.
    run_by: Option<LeaseHolder>,
    /// Who runs it, whoever leads it.
    running: Running,
    /// Where its members run, in their order.
    runs: Vec<Whereabouts>,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = selection::open(context, self.name.as_deref()).await?;
        let config = team.config().await?;
        let running = Running::of(&team, &config).await?;
        let shown = Shown {
            runs: Whereabouts::of(&team, &config, &running).await?,
            running,
            team: config.as_ref().clone(),
            team_file_path: team.file(),
            tasks: TaskListView::of(&team.tasks().await?),
            run_by: team.backend().lease_holder(team.dir(), &LeaseName::Run).await.map_err(Failure::internal)?,
        };
        context.output.answer(&shown, Shown::text)
    }
}

impl Shown {
    fn text(&self) -> String {
        let about = self.team.description.as_deref().map(|text| format!("{}\n", printable(text))).unwrap_or_default();
        let run_by = self.running.text();
        format!(
            "{STRONG}{}{STRONG:#}  {FAINT}{run_by}, {}{FAINT:#}\n{about}\n{}\n\n{}",
            printable(self.team.name.as_str()),
            self.team_file_path.display(),
            self.members(),
            tasks(&self.tasks),
        )
    }

    fn members(&self) -> String {
        let row = |(member, runs): (&Member, &Whereabouts)| {
            let [name, kind, model, mode, _, worktree] = list::cells(member);
            let [place, state] = runs.cells(member);
            [name, kind, model, mode, place, state, worktree]
        };
        let rows: Vec<_> = self.team.members.iter().zip(&self.runs).map(row).collect();
        output::table(["MEMBER", "TYPE", "MODEL", "MODE", "RUNS IN", "STATE", "WORKTREE"], &rows)
    }
}
