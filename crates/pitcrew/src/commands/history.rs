//! `pitcrew history`: lists past runs of teams.

use serde::Serialize;

use crate::archive::day_and_time;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line, printable};
use crate::past_runs::{PastRun, PastRuns};
use crate::selection;

/// The maximum number of characters of a goal in the table.
const GOAL_CHARS: usize = 50;

/// List the teams that were run in this repository: goal, end, tokens and cost
///
/// The newest comes first. Teams in the archive are included until they are pruned. A team that was
/// resumed is one line. `log`, `transcript --team` and `run --resume` take the id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew history
  pitcrew history --all --json")]
pub(crate) struct History {
    /// List the teams of all repositories
    #[arg(long)]
    all: bool,
}

/// The result that `pitcrew history` prints.
#[derive(Debug, Serialize)]
struct Listed {
    runs: Vec<PastRun>,
    total: usize,
    /// The number of teams and archives that cannot be read.
    unreadable: usize,
    #[serde(skip)]
    is_all: bool,
}

impl History {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let PastRuns { mut runs, unreadable } = PastRuns::read(context).await?;
        if !self.all {
            let here = selection::repository(&context.cwd);
            runs.retain(|run| run.repository.as_ref() == Some(&here));
        }
        let listed = Listed { total: runs.len(), runs, unreadable, is_all: self.all };
        context.output.answer(&listed, Listed::text)
    }
}

impl Listed {
    fn text(&self) -> String {
        if self.runs.is_empty() {
            return match self.is_all {
                true => "no team was run yet".to_owned(),
                false => "no team was run in this repository; --all lists all".to_owned(),
            };
        }
        if !self.is_all {
            let rows: Vec<_> = self.runs.iter().map(cells).collect();
            return output::table(
                ["LAST", "TEAM", "END", "TASKS", "TOKENS", "COST", "ID", "GOAL"],
                &rows,
            );
        }
        let rows: Vec<_> = self.runs.iter().map(cells_with_place).collect();
        output::table(
            ["LAST", "TEAM", "END", "TASKS", "TOKENS", "COST", "REPOSITORY", "ID", "GOAL"],
            &rows,
        )
    }
}

fn cells(run: &PastRun) -> [String; 8] {
    let end = run.end.as_deref().unwrap_or("ended").replace('_', " ");
    [
        day_and_time(run.latest_at_ms).unwrap_or_else(|| "-".to_owned()),
        run.team.clone(),
        printable(&end).into_owned(),
        format!("{} of {}", run.tasks_completed, run.tasks),
        run.spending.tokens_in_words(),
        run.spending.cost_in_words(),
        run.id.clone(),
        run.goal.as_deref().map(|goal| first_line(goal.trim(), GOAL_CHARS)).unwrap_or_default(),
    ]
}

fn cells_with_place(run: &PastRun) -> [String; 9] {
    let [last, team, end, tasks, tokens, cost, id, goal] = cells(run);
    let place = run.repository.as_ref().map(|place| place.display().to_string());
    [last, team, end, tasks, tokens, cost, place.unwrap_or_default(), id, goal]
}
