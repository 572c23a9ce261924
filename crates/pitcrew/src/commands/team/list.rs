//! `pitcrew team list`: lists the teams below the root, or with `--archived` the teams in the
//! archive.

use std::path::Path;

use pitcrew_protocol::TaskStatus;
use pitcrew_team::{ArchiveEntry, TeamRecords, TeamSummary, Teams};
use pitcrew_view::agent_now::{AgentNow, Spending};
use pitcrew_view::member_status::MemberStatus;
use pitcrew_view::running::Running;
use serde::Serialize;

use crate::archive::day_and_time;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line};
use crate::when::day;

/// The maximum number of characters of a description in the table.
const DESCRIPTION_CHARS: usize = 50;

/// List all teams below the root
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew team list
  pitcrew team list --archived      teams that came to their end, with the ids that resume them")]
pub(crate) struct List {
    /// List the archived teams instead
    #[arg(long)]
    archived: bool,
}

/// The result that `pitcrew team list --archived` prints.
#[derive(Debug, Serialize)]
struct ListedArchive {
    archives: Vec<ArchiveRow>,
    total: usize,
}

#[derive(Debug, Serialize)]
struct ArchiveRow {
    /// The id of the archived team. `--resume` accepts this id even if another team has the same
    /// name.
    id: String,
    /// The team's name. `None` if the team's config cannot be read.
    team: Option<String>,
    description: Option<String>,
    archived_at_ms: Option<i64>,
    tasks: usize,
    tasks_completed: usize,
    /// The reason why the team's config cannot be read.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Listed {
    teams: Vec<Row>,
    total: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    team: TeamSummary,
    /// The process or client that runs the team. `None` if the team cannot be read.
    running: Option<Running>,
    /// Where each member of the team runs. `None` if the team cannot be read.
    runs: Option<Vec<MemberStatus>>,
    /// What each agent does now, and what it used. `None` if the team cannot be read.
    agents: Option<Vec<AgentNow>>,
}

/// What the processes and the records of a team tell about it.
struct Present {
    running: Running,
    runs: Vec<MemberStatus>,
    agents: Vec<AgentNow>,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let all = context.teams()?;
        if self.archived {
            let archives: Vec<ArchiveRow> =
                all.archived().await?.into_iter().map(ArchiveRow::of).collect();
            let listed = ListedArchive { total: archives.len(), archives };
            return context.output.answer(&listed, |listed| archive_table(&listed.archives));
        }
        let mut teams = Vec::new();
        for team in all.list().await? {
            teams.push(match present(&all, &team, &context.root).await {
                Some(Present { running, runs, agents }) => {
                    Row { team, running: Some(running), runs: Some(runs), agents: Some(agents) }
                }
                None => Row { team, running: None, runs: None, agents: None },
            });
        }
        let listed = Listed { total: teams.len(), teams };
        context.output.answer(&listed, |listed| table(&listed.teams))
    }
}

/// Returns the process or client that runs the team, where each member runs, and what it does. Returns
/// `None` if the team cannot be read or was deleted in the meantime.
async fn present(teams: &Teams, listed: &TeamSummary, root: &Path) -> Option<Present> {
    let team = teams.open(listed.folder.as_str()).await.ok()?;
    let config = team.config().await.ok()?;
    let running = Running::of(&team, &config).await.ok()?;
    let runs = MemberStatus::of(&team, &config, &running).await.ok()?;
    let records = TeamRecords::Live(team);
    let agents = AgentNow::of_team(&records, &runs, root).await.ok()?;
    Some(Present { running, runs, agents })
}

fn table(teams: &[Row]) -> String {
    if teams.is_empty() {
        return "no teams".to_owned();
    }
    let cells = |Row { team, running, runs, agents }: &Row| {
        let running_members = runs.iter().flatten().filter(|member| member.runs()).count();
        let members = match running_members {
            0 => team.members.len().to_string(),
            some => format!("{} ({some} running)", team.members.len()),
        };
        let used = agents.iter().flatten().map(|agent| &agent.spending);
        let spending = Spending::sum(used);
        let about = problem(team).or_else(|| team.description.clone());
        [
            team.name.clone(),
            members,
            running.as_ref().map_or_else(|| "-".to_owned(), Running::short),
            team.created_at_ms.and_then(day).unwrap_or_else(|| "-".to_owned()),
            spending.tokens_in_words(),
            spending.cost_in_words(),
            about.map(|text| first_line(&text, DESCRIPTION_CHARS)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = teams.iter().map(cells).collect();
    let heading = ["TEAM", "MEMBERS", "RUN BY", "MADE", "TOKENS", "COST", "ABOUT"];
    format!("{}{}", output::table(heading, &rows), agents_at_work(teams))
}

/// Formats the agents that processes run now as a table below an empty line. Returns an empty text if
/// no agent runs.
fn agents_at_work(teams: &[Row]) -> String {
    let cells = |row: &Row, agent: &AgentNow| {
        let [name, now, turns, _, tokens, cost] = agent.cells();
        [row.team.name.clone(), name, now, turns, tokens, cost]
    };
    let of_team = |row: &Row| -> Vec<[String; 6]> {
        let agents = row.agents.iter().flatten().filter(|agent| agent.runs);
        agents.map(|agent| cells(row, agent)).collect()
    };
    let rows: Vec<_> = teams.iter().flat_map(of_team).collect();
    match rows.is_empty() {
        true => String::new(),
        false => {
            let heading = ["TEAM", "AGENT", "NOW", "TURNS", "TOKENS", "COST"];
            format!("\n\n{}", output::table(heading, &rows))
        }
    }
}

/// Returns the reason why a team cannot be used. The path of its folder is omitted, because the
/// path would fill the whole table cell.
fn problem(team: &TeamSummary) -> Option<String> {
    let problem = team.problem.as_deref()?;
    let folder = team.team_file_path.parent();
    let folder =
        folder.map(|folder| folder.display().to_string()).filter(|folder| !folder.is_empty());
    let Some(folder) = folder else { return Some(problem.to_owned()) };
    // First the folder's path is removed from the paths of files in this folder. Only then is the
    // path of the folder itself replaced by "it". In the opposite order, a file's path would become
    // `it/FILE`.
    Some(problem.replace(&format!("{folder}/"), "").replace(&folder, "it"))
}

impl ArchiveRow {
    fn of(entry: ArchiveEntry) -> Self {
        let id = entry.name.to_string();
        match entry.team {
            Ok(team) => Self {
                id,
                tasks: team.tasks.len(),
                tasks_completed: team
                    .tasks
                    .iter()
                    .filter(|task| task.status == TaskStatus::Completed)
                    .count(),
                team: Some(team.config.name.to_string()),
                description: team.config.description,
                archived_at_ms: team.archived_at_ms,
                problem: None,
            },
            Err(error) => Self {
                id,
                team: None,
                description: None,
                archived_at_ms: None,
                tasks: 0,
                tasks_completed: 0,
                problem: Some(error.message),
            },
        }
    }
}

fn archive_table(rows: &[ArchiveRow]) -> String {
    if rows.is_empty() {
        return "no teams in the archive".to_owned();
    }
    let cells = |row: &ArchiveRow| {
        let about = row.problem.as_ref().or(row.description.as_ref());
        [
            row.team.clone().unwrap_or_else(|| "-".to_owned()),
            day_and_time(row.archived_at_ms).unwrap_or_else(|| "-".to_owned()),
            format!("{} of {}", row.tasks_completed, row.tasks),
            row.id.clone(),
            about.map(|text| first_line(text, DESCRIPTION_CHARS)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    output::table(["TEAM", "ARCHIVED", "TASKS DONE", "ID", "ABOUT"], &rows)
}
