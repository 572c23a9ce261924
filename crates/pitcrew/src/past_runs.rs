//! The runs of all teams below the root, running, stopped and archived.

use std::path::PathBuf;

use pitcrew_protocol::{TaskStatus, TeamConfig};
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{JournalFault, JournalSummary, LineCheck};
use pitcrew_view::agent_now::Spending;
use pitcrew_view::running::Running;
use serde::Serialize;

use crate::archive::journal_fault;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::selection;

/// The end of a run that goes on.
pub(crate) const RUNNING: &str = "running";

/// The end of a run that stopped without a record of its end.
const KILLED: &str = "killed";

/// All runs of one team.
#[derive(Debug, Serialize)]
pub(crate) struct PastRun {
    pub(crate) team: String,
    /// The id of the archive, or the team's folder if the team is not in the archive.
    pub(crate) id: String,
    pub(crate) is_archived: bool,
    /// The repository in which the lead worked.
    pub(crate) repository: Option<PathBuf>,
    /// The goal of the first run, or the team's description if no goal is recorded.
    pub(crate) goal: Option<String>,
    /// How often the team was run or resumed.
    pub(crate) runs: u32,
    pub(crate) began_at_ms: Option<i64>,
    /// The end of the last run. If that end is not recorded, the latest event of the run.
    pub(crate) latest_at_ms: Option<i64>,
    /// How the last run ended, as in the result of a run; `running`; or `killed` if no end is
    /// recorded. Null if an older version recorded only the time of the end, or if no run is
    /// recorded because of a fault in the journal.
    pub(crate) end: Option<String>,
    pub(crate) reason: Option<String>,
    /// What is wrong with the team's journal, from which the other fields come. Null if nothing is
    /// wrong.
    pub(crate) journal_problem: Option<String>,
    pub(crate) tasks: usize,
    pub(crate) tasks_completed: usize,
    #[serde(flatten)]
    pub(crate) spending: Spending,
}

/// The runs of all teams.
#[derive(Debug)]
pub(crate) struct PastRuns {
    /// The teams that were run, the latest first.
    pub(crate) runs: Vec<PastRun>,
    /// The number of teams and archives that cannot be read.
    pub(crate) unreadable: usize,
}

impl PastRuns {
    /// Reads the runs of all teams, and says how many teams cannot be read.
    ///
    /// # Errors
    /// Returns an error if the folders of the teams cannot be listed.
    pub(crate) async fn read(context: &Context) -> Result<Self, Failure> {
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
        let mut runs = Vec::new();
        for (id, records) in records {
            match PastRun::of(id, &records).await {
                Ok(Some(run)) => runs.push(run),
                Ok(None) => {}
                Err(_) => unreadable += 1,
            }
        }
        runs.sort_by(|one, other| {
            (other.latest_at_ms, &other.id).cmp(&(one.latest_at_ms, &one.id))
        });
        if unreadable > 0 {
            output::remark(&format!(
                "warning: {unreadable} of the teams cannot be read and are left out; `pitcrew team list` and `pitcrew team list --archived` say why"
            ));
        }
        Ok(Self { runs, unreadable })
    }
}

impl PastRun {
    /// Returns the runs of a team. Returns `None` if the team was never run. If the journal is missing or
    /// cannot be read, it is not known whether the team was run, so the team is listed.
    ///
    /// # Errors
    /// Returns an error if the records of the team cannot be read.
    pub(crate) async fn of(id: String, records: &TeamRecords) -> Result<Option<Self>, Failure> {
        let config = records.config().await?;
        let fault = records.journal_fault(LineCheck::Ends).await?;
        let summary = match &fault {
            Some((_, JournalFault::Missing | JournalFault::Unreadable(_))) => {
                JournalSummary::default()
            }
            Some((_, JournalFault::BadLines(_))) | None => records.summary().await?,
        };
        if summary.runs.count == 0 && fault.is_none() {
            return Ok(None);
        }
        let tasks = records.tasks().await?;
        let completed = tasks.iter().filter(|task| task.status == TaskStatus::Completed);
        let (end, reason) = end(records, &config, &summary).await?;
        Ok(Some(Self {
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

    /// Whether a pitcrew process runs the team now.
    pub(crate) fn is_running(&self) -> bool {
        !self.is_archived && self.end.as_deref() == Some(RUNNING)
    }
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
