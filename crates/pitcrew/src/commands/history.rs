//! `pitcrew history`: lists past runs of teams.

use std::path::PathBuf;

use pitcrew_protocol::{TaskStatus, TeamConfig};
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{JournalFault, JournalSummary, LineCheck};
use pitcrew_view::agent_now::Spending;
use pitcrew_view::running::Running;
use serde::Serialize;

use crate::archive::{day_and_time, journal_fault};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line, printable};
use crate::selection;

/// The maximum number of characters of a goal in the table.
const GOAL_CHARS: usize = 50;

/// The end of a run that goes on.
const RUNNING: &str = "running";

/// The end of a run that stopped without a record of its end.
const KILLED: &str = "killed";

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
    runs: Vec<Row>,
    total: usize,
    /// The number of teams and archives that cannot be read.
    unreadable: usize,
    #[serde(skip)]
    is_all: bool,
}

/// All runs of one team.
#[derive(Debug, Serialize)]
struct Row {
    team: String,
    /// The id of the archive, or the team's folder if the team is not in the archive.
    id: String,
    is_archived: bool,
    /// The repository in which the lead worked.
    repository: Option<PathBuf>,
    /// The goal of the first run, or the team's description if no goal is recorded.
    goal: Option<String>,
    /// How often the team was run or resumed.
    runs: u32,
    began_at_ms: Option<i64>,
    /// The end of the last run. If that end is not recorded, the latest event of the run.
    latest_at_ms: Option<i64>,
    /// How the last run ended, as in the result of a run; `running`; or `killed` if no end is
    /// recorded. Null if an older version recorded only the time of the end, or if no run is
    /// recorded because of a fault in the journal.
    end: Option<String>,
    reason: Option<String>,
    /// What is wrong with the team's journal, from which the other fields come. Null if nothing is
    /// wrong.
    journal_problem: Option<String>,
    tasks: usize,
    tasks_completed: usize,
    #[serde(flatten)]
    spending: Spending,
}

impl History {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let teams = context.teams()?;
        let (mut records, mut unreadable) = (Vec::new(), 0);
        for folder in teams.folders().await.map_err(Failure::internal)? {
            match teams.open(folder.as_str()).await {
                Ok(team) => records.push((folder.to_string(), TeamRecords::Live(team))),
                Err(_) => unreadable += 1,
            }
        }
        for entry in teams.archived().await? {
            match entry.team {
                Ok(team) => {
                    let archived = TeamRecords::Archived(teams.clone(), Box::new(team));
                    records.push((entry.name.to_string(), archived));
                }
                Err(_) => unreadable += 1,
            }
        }
        let here = selection::repository(&context.cwd);
        let mut runs = Vec::new();
        for (id, records) in records {
            match row(id, &records).await {
                Ok(Some(row)) if self.all || row.repository.as_ref() == Some(&here) => {
                    runs.push(row);
                }
                Ok(_) => {}
                Err(_) => unreadable += 1,
            }
        }
        runs.sort_by(|one, other| {
            (other.latest_at_ms, &other.id).cmp(&(one.latest_at_ms, &one.id))
        });
        for problem in runs.iter().filter_map(|run| run.journal_problem.as_ref()) {
            output::remark(&format!("warning: {problem}"));
        }
        if unreadable > 0 {
            output::remark(&format!(
                "warning: {unreadable} of the teams cannot be read and are left out; `pitcrew team list` and `pitcrew team list --archived` say why"
            ));
        }
        let listed = Listed { total: runs.len(), runs, unreadable, is_all: self.all };
        context.output.answer(&listed, Listed::text)
    }
}

/// Returns the row of a team. Returns `None` if the team was never run. If the journal is missing or
/// cannot be read, it is not known whether the team was run, so the team gets a row.
async fn row(id: String, records: &TeamRecords) -> Result<Option<Row>, Failure> {
    let config = records.config().await?;
    let fault = records.journal_fault(LineCheck::Ends).await?;
    let summary = match &fault {
        Some((_, JournalFault::Missing | JournalFault::Unreadable(_))) => JournalSummary::default(),
        Some((_, JournalFault::BadLines(_))) | None => records.summary().await?,
    };
    if summary.runs.count == 0 && fault.is_none() {
        return Ok(None);
    }
    let tasks = records.tasks().await?;
    let completed = tasks.iter().filter(|task| task.status == TaskStatus::Completed);
    let (end, reason) = end(records, &config, &summary).await?;
    Ok(Some(Row {
        team: config.name.to_string(),
        id,
        is_archived: matches!(records, TeamRecords::Archived(..)),
        repository: selection::lead_folder(&config),
        goal: summary.runs.goal.clone().or(config.description),
        runs: summary.runs.count,
        began_at_ms: summary.runs.began_ms,
        latest_at_ms: summary.latest_ms(),
        end,
        reason,
        journal_problem: fault.map(|(path, fault)| journal_fault(&path, &fault)),
        tasks: tasks.len(),
        tasks_completed: completed.count(),
        spending: Spending::of_team(&summary),
    }))
}

/// Returns how the last run of a team ended, and the reason.
async fn end(
    records: &TeamRecords,
    config: &TeamConfig,
    summary: &JournalSummary,
) -> Result<(Option<String>, Option<String>), Failure> {
    if let Some(ended) = &summary.runs.ended {
        return Ok((ended.end.clone(), ended.reason.clone()));
    }
    if summary.runs.count == 0 {
        return Ok((None, None));
    }
    let is_running = match records {
        TeamRecords::Live(team) => {
            matches!(Running::of(team, config).await?, Running::ByPitcrew { .. })
        }
        TeamRecords::Archived(..) => false,
    };
    Ok((Some(if is_running { RUNNING } else { KILLED }.to_owned()), None))
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
            let rows: Vec<_> = self.runs.iter().map(Row::cells).collect();
            return output::table(
                ["LAST", "TEAM", "END", "TASKS", "TOKENS", "COST", "ID", "GOAL"],
                &rows,
            );
        }
        let rows: Vec<_> = self.runs.iter().map(Row::cells_with_place).collect();
        output::table(
            ["LAST", "TEAM", "END", "TASKS", "TOKENS", "COST", "REPOSITORY", "ID", "GOAL"],
            &rows,
        )
    }
}

impl Row {
    fn cells(&self) -> [String; 8] {
        let unnamed = if self.runs == 0 { "unknown" } else { "ended" };
        let end = self.end.as_deref().unwrap_or(unnamed).replace('_', " ");
        [
            day_and_time(self.latest_at_ms).unwrap_or_else(|| "-".to_owned()),
            self.team.clone(),
            printable(&end).into_owned(),
            format!("{} of {}", self.tasks_completed, self.tasks),
            self.spending.tokens_in_words(),
            self.spending.cost_in_words(),
            self.id.clone(),
            self.goal
                .as_deref()
                .map(|goal| first_line(goal.trim(), GOAL_CHARS))
                .unwrap_or_default(),
        ]
    }

    fn cells_with_place(&self) -> [String; 9] {
        let [last, team, end, tasks, tokens, cost, id, goal] = self.cells();
        let place = self.repository.as_ref().map(|place| place.display().to_string());
        [last, team, end, tasks, tokens, cost, place.unwrap_or_default(), id, goal]
    }
}
