//! Which team a command is about: the one named, the only one, or the one named after the repository.

use std::path::Path;

use pitcrew_protocol::{ApiError, ErrorCode, TeamDir};
use pitcrew_store::StoreError;
use pitcrew_team::{Team, Teams};

use crate::context::Context;
use crate::failure::Failure;

/// The choice of a team, as every command takes it.
#[derive(Debug, clap::Args)]
pub(crate) struct TeamChoice {
    /// The team [default: the only one, else the one named after the repository's folder]
    #[arg(long, short = 't', value_name = "TEAM")]
    team: Option<String>,
}

impl TeamChoice {
    /// Opens the team.
    ///
    /// # Errors
    /// When it does not exist, or none is named and none stands out; the hints then list the teams.
    pub(crate) async fn open(&self, context: &Context) -> Result<Team, Failure> {
        open(context, self.team.as_deref()).await
    }
}

/// Opens the team called `name`, or the one that is meant when there is no name.
///
/// # Errors
/// As for [`TeamChoice::open`].
pub(crate) async fn open(context: &Context, name: Option<&str>) -> Result<Team, Failure> {
    let teams = context.teams()?;
    if let Some(name) = name {
        return Ok(teams.open(name).await?);
    }
    let folders = folders(&teams).await?;
    let meant = match folders.as_slice() {
        [only] => Some(only),
        several => {
            let wanted = repository_name(&context.cwd).map(|name| TeamDir::of(&name));
            several.iter().find(|folder| Some(*folder) == wanted.as_ref())
        }
    };
    match meant {
        Some(folder) => Ok(teams.open(folder.as_str()).await?),
        None => Err(none_meant(context, &folders)),
    }
}

/// The folders of all teams. A link in the place of one is never meant: it can only be refused.
async fn folders(teams: &Teams) -> Result<Vec<TeamDir>, Failure> {
    let mut folders = Vec::new();
    for folder in teams.backend().teams().await.map_err(Failure::internal)? {
        if !matches!(teams.backend().team(&folder).await, Err(StoreError::NoFolder { .. })) {
            folders.push(folder);
        }
    }
    Ok(folders)
}

fn none_meant(context: &Context, folders: &[TeamDir]) -> Failure {
    if folders.is_empty() {
        let said = format!("there is no team under {}", context.root.display());
        return Failure::from(ApiError::new(ErrorCode::TeamNotFound, said))
            .hint("`pitcrew run \"GOAL\"` makes one, and so does `pitcrew team create NAME`");
    }
    let names: Vec<&str> = folders.iter().map(TeamDir::as_str).collect();
    let error =
        ApiError::new(ErrorCode::TeamNotFound, "there are several teams, and none is named after this repository")
            .with("available_teams", names);
    Failure::from(error).hint("name one with --team")
}

/// The name of the folder of the git repository that `folder` is in, or of `folder` itself.
pub(crate) fn repository_name(folder: &Path) -> Option<String> {
    let repository = folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(folder);
    Some(repository.file_name()?.to_str()?.to_owned())
}
