//! `pitcrew team list`.

use jiff::Timestamp;
use pitcrew_team::{TeamSummary, Teams};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line};
use crate::running::Running;
use crate::whereabouts::Whereabouts;

/// The widest description in the table.
const DESCRIPTION_CHARS: usize = 50;

/// List all teams below the root
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

#[derive(Debug, Serialize)]
struct Listed {
    teams: Vec<Row>,
    total: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    team: TeamSummary,
    /// Who runs it; null for a team that cannot be read.
    running: Option<Running>,
    /// Where its members run; null for a team that cannot be read.
    runs: Option<Vec<Whereabouts>>,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let all = context.teams()?;
        let mut teams = Vec::new();
        for team in all.list().await? {
            let (running, runs) = running(&all, &team).await.unzip();
            teams.push(Row { team, running, runs });
        }
        let listed = Listed { total: teams.len(), teams };
        context.output.answer(&listed, |listed| table(&listed.teams))
    }
}

/// Who runs it, and where; nothing when it cannot be read, or ends just now.
async fn running(teams: &Teams, listed: &TeamSummary) -> Option<(Running, Vec<Whereabouts>)> {
    let team = teams.open(listed.folder.as_str()).await.ok()?;
    let config = team.config().await.ok()?;
    let running = Running::of(&team, &config).await.ok()?;
    let runs = Whereabouts::of(&team, &config, &running).await.ok()?;
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

/// Why a team cannot be used. The path of its folder is left out, which would take all of the room.
fn problem(team: &TeamSummary) -> Option<String> {
    let problem = team.problem.as_deref()?;
    let folder = team.team_file_path.parent();
    let folder = folder.map(|folder| folder.display().to_string()).filter(|folder| !folder.is_empty());
    let Some(folder) = folder else { return Some(problem.to_owned()) };
    Some(problem.replace(&format!("{folder}/"), "").replace(&folder, "it"))
}

fn day(at_ms: i64) -> Option<String> {
    Timestamp::from_millisecond(at_ms).ok().map(|at| at.strftime("%Y-%m-%d").to_string())
}
