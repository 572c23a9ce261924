//! `pitcrew team list`.

use jiff::Timestamp;
use pitcrew_team::TeamSummary;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, first_line};

/// The widest description in the table.
const DESCRIPTION_CHARS: usize = 50;

/// List all teams below the root
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

#[derive(Debug, Serialize)]
struct Listed {
    teams: Vec<TeamSummary>,
    total: usize,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let teams = context.teams()?.list().await?;
        let listed = Listed { total: teams.len(), teams };
        context.output.answer(&listed, |listed| table(&listed.teams))
    }
}

fn table(teams: &[TeamSummary]) -> String {
    if teams.is_empty() {
        return "no teams".to_owned();
    }
    let cells = |team: &TeamSummary| {
        let about = team.problem.as_ref().or(team.description.as_ref());
        [
            team.name.clone(),
            team.members.len().to_string(),
            team.created_at_ms.and_then(day).unwrap_or_else(|| "-".to_owned()),
            about.map(|text| first_line(text, DESCRIPTION_CHARS)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = teams.iter().map(cells).collect();
    output::table(["TEAM", "MEMBERS", "MADE", "ABOUT"], &rows)
}

fn day(at_ms: i64) -> Option<String> {
    Timestamp::from_millisecond(at_ms).ok().map(|at| at.strftime("%Y-%m-%d").to_string())
}
