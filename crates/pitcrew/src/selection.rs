//! Which team a command is about: the one that is named, else the one that runs here.

use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{ApiError, ErrorCode, LEAD_NAME, TeamConfig, TeamDir};
use pitcrew_store::{ArchivedTeam, StoreError};
use pitcrew_team::{Team, Teams};

use crate::archive;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::printable;
use crate::running::Running;

/// The choice of a team, as every command takes it.
#[derive(Debug, clap::Args)]
pub(crate) struct TeamChoice {
    /// The team [default: the one that runs here, else the one that waits here]
    #[arg(long, short = 't', value_name = "TEAM", add = ArgValueCompleter::new(completing::teams))]
    team: Option<String>,
}

/// The choice of a team as a word, or by the flag that every command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct TeamWord {
    /// The team [default: the one that runs here, else the one that waits here]
    #[arg(add = ArgValueCompleter::new(completing::teams))]
    team: Option<String>,
    /// The team, in place of the word
    #[arg(id = "team_by_flag", long = "team", short = 't', value_name = "TEAM", conflicts_with = "team",
        add = ArgValueCompleter::new(completing::teams))]
    by_flag: Option<String>,
}

/// The same for a command that guesses no team.
#[derive(Debug, clap::Args)]
pub(crate) struct NamedTeam {
    /// The team, by its name or folder; never guessed
    #[arg(required_unless_present = "team_by_flag", add = ArgValueCompleter::new(completing::teams))]
    team: Option<String>,
    /// The team, in place of the word
    #[arg(id = "team_by_flag", long = "team", short = 't', value_name = "TEAM", conflicts_with = "team",
        add = ArgValueCompleter::new(completing::teams))]
    by_flag: Option<String>,
}

impl TeamWord {
    /// The team that is named.
    pub(crate) fn name(&self) -> Option<&str> {
        self.team.as_deref().or(self.by_flag.as_deref())
    }
}

impl NamedTeam {
    /// The name of the team.
    pub(crate) fn name(&self) -> &str {
        // One of the two is required.
        self.team.as_deref().or(self.by_flag.as_deref()).unwrap_or_default()
    }
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

/// A team that is there, or one of the archive.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// It is there.
    Live(Team),
    /// It came to its end.
    Archived(Box<ArchivedTeam>),
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
    match meant(context, &teams).await? {
        Some(team) => Ok(team),
        None => Err(none_there(context, &teams).await),
    }
}

/// The team called `name`, or the one that is meant when there is no name; one of the archive when no other is there.
///
/// # Errors
/// As for [`TeamChoice::open`].
pub(crate) async fn open_or_archived(context: &Context, name: Option<&str>) -> Result<Chosen, Failure> {
    let teams = context.teams()?;
    let Some(name) = name else {
        return match meant(context, &teams).await? {
            Some(team) => Ok(Chosen::Live(team)),
            None => match last_here(context, &teams).await {
                Some(archived) => Ok(Chosen::Archived(Box::new(archived))),
                None => Err(none_there(context, &teams).await),
            },
        };
    };
    match teams.open(name).await {
        Ok(team) => Ok(Chosen::Live(team)),
        Err(error) if error.code == ErrorCode::TeamNotFound => match teams.find_archived(name).await? {
            Some(archived) => Ok(Chosen::Archived(Box::new(archived))),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// A team that may be meant.
struct Candidate {
    folder: TeamDir,
    /// Whether a process runs it now.
    runs: bool,
    /// Whether its lead works in this repository.
    is_here: bool,
}

/// The team that is meant when none is named; nothing when there is no team at all.
async fn meant(context: &Context, teams: &Teams) -> Result<Option<Team>, Failure> {
    let folders = folders(teams).await?;
    if let [only] = folders.as_slice() {
        return Ok(Some(teams.open(only.as_str()).await?));
    }
    let here = repository(&context.cwd);
    let mut candidates = Vec::new();
    for folder in folders {
        // One that cannot be read can only be meant by its name.
        let Ok(config) = teams.backend().team(&folder).await else { continue };
        let Ok(team) = teams.at(&folder) else { continue };
        let runs = match Running::of(&team, &config).await {
            Ok(Running::ByPitcrew { .. } | Running::BySession { .. }) => true,
            Ok(Running::Stale { .. } | Running::Elsewhere { .. } | Running::No | Running::Unknown) | Err(_) => false,
        };
        candidates.push(Candidate { is_here: lead_folder(&config).as_ref() == Some(&here), folder, runs });
    }
    if candidates.is_empty() {
        return Ok(None);
    }
    let named = repository_name(&context.cwd).map(|name| TeamDir::of(&name));
    match pick(&candidates, named.as_ref()) {
        Ok(candidate) => Ok(Some(teams.open(candidate.folder.as_str()).await?)),
        Err(why) => Err(several(&candidates, why)),
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

/// The one candidate that is meant; `named` is the folder of a team with this repository's name. The error says why it is
/// none of them.
fn pick<'a>(candidates: &'a [Candidate], named: Option<&TeamDir>) -> Result<&'a Candidate, &'static str> {
    let that = |runs: Option<bool>, is_here: Option<bool>| -> Vec<&'a Candidate> {
        let is_it =
            |it: &&Candidate| runs.is_none_or(|runs| it.runs == runs) && is_here.is_none_or(|here| it.is_here == here);
        candidates.iter().filter(is_it).collect()
    };
    let (running_here, running) = (that(Some(true), Some(true)), that(Some(true), None));
    match (running_here.as_slice(), running.as_slice()) {
        ([only], _) => return Ok(only),
        ([_, ..], _) => return Err("several teams run here"),
        // A team that waits here may be meant as well: what is sent to the wrong one cannot be taken back.
        ([], [only]) if that(Some(false), Some(true)).is_empty() => return Ok(only),
        ([], [_, ..]) => return Err("teams run elsewhere, and none runs here"),
        ([], []) => {}
    }
    let here = that(None, Some(true));
    let wanted = candidates.iter().find(|candidate| Some(&candidate.folder) == named);
    match (here.as_slice(), candidates) {
        ([only], _) => Ok(*only),
        ([], [only]) => Ok(only),
        _ => wanted.ok_or("there are several teams, and none runs"),
    }
}

fn several(candidates: &[Candidate], why: &'static str) -> Failure {
    let names: Vec<&str> = candidates.iter().map(|it| it.folder.as_str()).collect();
    let error = ApiError::new(ErrorCode::TeamNotFound, why).with("available_teams", names);
    let running: Vec<&str> = candidates.iter().filter(|it| it.runs).map(|it| it.folder.as_str()).collect();
    let failure = Failure::from(error);
    let failure = if running.is_empty() { failure } else { failure.hint(format!("running: {}", running.join(", "))) };
    failure.hint("name one with --team, or as TEAM where the command takes it; `pitcrew team list` shows them")
}

async fn none_there(context: &Context, teams: &Teams) -> Failure {
    let said = format!("there is no team under {}", context.root.display());
    let failure = Failure::from(ApiError::new(ErrorCode::TeamNotFound, said));
    match last_here(context, teams).await {
        Some(archived) => {
            let name = archived.config.name.as_str();
            let ended = format!("{} is in the archive since {}: ", printable(name), archive::since(&archived));
            failure.hint(ended + &archive::hint(name))
        }
        None => failure.hint("`pitcrew run \"GOAL\"` makes one, and so does `pitcrew team create NAME`"),
    }
}

/// The team of this repository that came into the archive last.
async fn last_here(context: &Context, teams: &Teams) -> Option<ArchivedTeam> {
    let here = repository(&context.cwd);
    let archived = teams.archived().await.ok()?;
    let of_here = archived.into_iter().filter_map(|entry| entry.team.ok());
    let of_here = of_here.filter(|archived| lead_folder(&archived.config).as_ref() == Some(&here));
    of_here.max_by_key(|archived| (archived.archived_at_ms, archived.name.clone()))
}

/// The repository that the lead of a team works in.
fn lead_folder(config: &TeamConfig) -> Option<PathBuf> {
    let folder = config.member(LEAD_NAME)?.cwd.as_deref()?;
    Some(repository(Path::new(folder)))
}

/// The top folder of the git repository that `folder` is in, or `folder` itself.
fn repository(folder: &Path) -> PathBuf {
    folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(folder).to_owned()
}

/// The name of the folder of the git repository that `folder` is in, or of `folder` itself.
pub(crate) fn repository_name(folder: &Path) -> Option<String> {
    Some(repository(folder).file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(candidates: &[(&str, bool, bool)], named: &str) -> Result<String, &'static str> {
        let of = |(name, runs, is_here): &(&str, bool, bool)| Candidate {
            folder: TeamDir::of(name),
            runs: *runs,
            is_here: *is_here,
        };
        let candidates: Vec<Candidate> = candidates.iter().map(of).collect();
        pick(&candidates, Some(&TeamDir::of(named))).map(|picked| picked.folder.to_string())
    }

    #[test]
    fn the_team_that_runs_here_is_meant_before_all_others() {
        let teams = [("done", false, true), ("here", true, true), ("there", true, false), ("work", false, true)];
        assert_eq!(picked(&teams, "work"), Ok("here".to_owned()));
        assert_eq!(picked(&[("a", true, true), ("b", true, true)], "a"), Err("several teams run here"));
        assert_eq!(picked(&[("a", true, false), ("b", false, false)], "b"), Ok("a".to_owned()));
    }

    #[test]
    fn a_team_that_runs_elsewhere_is_not_meant_where_another_waits() {
        let said = Err("teams run elsewhere, and none runs here");
        assert_eq!(picked(&[("a", true, false), ("b", false, true)], "b"), said);
        assert_eq!(picked(&[("a", true, false), ("b", true, false)], "b"), said);
    }

    #[test]
    fn when_none_runs_the_one_that_waits_here_is_meant_and_of_several_the_one_with_the_repositorys_name() {
        assert_eq!(picked(&[("a", false, false), ("b", false, true)], "x"), Ok("b".to_owned()));
        assert_eq!(picked(&[("a", false, true), ("b", false, true)], "b"), Ok("b".to_owned()));
        let said = Err("there are several teams, and none runs");
        assert_eq!(picked(&[("a", false, true), ("b", false, true)], "x"), said);
        assert_eq!(picked(&[("a", false, false), ("b", false, false)], "x"), said);
    }
}
