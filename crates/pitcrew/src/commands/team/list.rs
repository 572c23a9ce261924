//! `pitcrew team list`: lists the teams below the root, or with `--archived` the teams in the
//! archive.

use pitcrew_protocol::TaskStatus;
use pitcrew_team::{ArchiveEntry, TeamSummary, Teams};
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
            let (running, runs) = running(&all, &team).await.unzip();
            teams.push(Row { team, running, runs });
        }
        let listed = Listed { total: teams.len(), teams };
        context.output.answer(&listed, |listed| table(&listed.teams))
    }
}

/// Returns the process or client that runs the team, and where each member runs. Returns `None` if
/// the team cannot be read or was deleted in the meantime.
async fn running(teams: &Teams, listed: &TeamSummary) -> Option<(Running, Vec<MemberStatus>)> {
    let team = teams.open(listed.folder.as_str()).await.ok()?;
    let config = team.config().await.ok()?;
    let running = Running::of(&team, &config).await.ok()?;
    let runs = MemberStatus::of(&team, &config, &running).await.ok()?;
    Some((running, runs))
}

fn table(teams: &[Row]) -> String {
    if teams.is_empty() {
        return "no teams".to_owned();
    }
    let cells = |Row { team, running, runs }: &Row| {
        let running_members = runs.iter().flatten().filter(|member| member.runs()).count();
        let members = match running_members {
            0 => team.members.len().to_string(),
            some => format!("{} ({some} running)", team.members.len()),
        };
        let about = problem(team).or_else(|| team.description.clone());
        [
            team.name.clone(),
            members,
            running.as_ref().map_or_else(|| "-".to_owned(), Running::short),
            team.created_at_ms.and_then(day).unwrap_or_else(|| "-".to_owned()),
            about.map(|text| first_line(&text, DESCRIPTION_CHARS)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = teams.iter().map(cells).collect();
    output::table(["TEAM", "MEMBERS", "RUN BY", "MADE", "ABOUT"], &rows)
}

/// Returns the reason why a team cannot be used. The path of its folder is omitted, because the
/// path would fill the whole table cell.
fn problem(team: &TeamSummary) -> Option<String> {
    let problem = team.problem.as_deref()?;
    let folder = team.team_file_path.parent();
    let folder =
        folder.map(|folder| folder.display().to_string()).filter(|folder| !folder.is_empty());
    let Some(folder) = folder else { return Some(problem.to_owned()) };
    // The order matters: paths of files in the folder are shortened first, then the path of the
    // folder itself.
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
