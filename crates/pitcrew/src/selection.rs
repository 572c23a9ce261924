//! Chooses the team of a command: the named team, otherwise the team that runs in this repository,
//! otherwise the team with the repository's name, otherwise the team that was stopped here.
//! [`pick`] implements this order for a command without a named team.

use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCompleter;
use pitcrew_permission::trust::Repository;
use pitcrew_protocol::{ApiError, ErrorCode, LEAD_NAME, TeamConfig, TeamDir};
use pitcrew_team::store::{ArchivedTeam, StoreError};
use pitcrew_team::{Team, TeamRecords, Teams, team_of};
use pitcrew_view::running::Running;

use crate::archive;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, printable};

/// The `--team` option, which most commands have.
#[derive(Debug, clap::Args)]
pub(crate) struct TeamChoice {
    /// The team [default: the one that runs in this repository, has its name, or was stopped here]
    #[arg(long, short = 't', value_name = "TEAM", add = ArgValueCompleter::new(completing::teams))]
    team: Option<String>,
}

/// The team as a positional argument, or as `--team`.
#[derive(Debug, clap::Args)]
pub(crate) struct TeamWord {
    /// The team [default: the one that runs in this repository, has its name, or was stopped here]
    #[arg(add = ArgValueCompleter::new(completing::teams))]
    team: Option<String>,
    /// The team, instead of the positional argument
    #[arg(id = "team_by_flag", long = "team", short = 't', value_name = "TEAM", conflicts_with = "team",
        add = ArgValueCompleter::new(completing::teams))]
    by_flag: Option<String>,
}

/// The team as a positional argument or as `--team`. The team can be in the archive.
#[derive(Debug, clap::Args)]
pub(crate) struct AnyTeamWord {
    /// The team [default: the one that runs in this repository, else the one that was stopped here,
    /// else the last archived one]
    #[arg(add = ArgValueCompleter::new(completing::resumable_teams))]
    team: Option<String>,
    /// The team, instead of the positional argument
    #[arg(id = "team_by_flag", long = "team", short = 't', value_name = "TEAM", conflicts_with = "team",
        add = ArgValueCompleter::new(completing::resumable_teams))]
    by_flag: Option<String>,
}

/// The `--team` option. The team can be in the archive.
#[derive(Debug, clap::Args)]
pub(crate) struct AnyTeamChoice {
    /// The team [default: the one that runs in this repository, else the one that was stopped here,
    /// else the last archived one]
    #[arg(long, short = 't', value_name = "TEAM", add = ArgValueCompleter::new(completing::resumable_teams))]
    team: Option<String>,
}

/// The team as a positional argument or as `--team`, for a command without a default team.
#[derive(Debug, clap::Args)]
pub(crate) struct NamedTeam {
    /// The name or folder of the team; there is no default
    #[arg(required_unless_present = "team_by_flag", add = ArgValueCompleter::new(completing::teams))]
    team: Option<String>,
    /// The team, instead of the positional argument
    #[arg(id = "team_by_flag", long = "team", short = 't', value_name = "TEAM", conflicts_with = "team",
        add = ArgValueCompleter::new(completing::teams))]
    by_flag: Option<String>,
}

impl TeamWord {
    /// Returns the team name that the user gave, as a positional argument or with `--team`.
    pub(crate) fn name(&self) -> Option<&str> {
        self.team.as_deref().or(self.by_flag.as_deref())
    }
}

impl AnyTeamWord {
    /// Returns the team name that the user gave, as a positional argument or with `--team`.
    pub(crate) fn name(&self) -> Option<&str> {
        self.team.as_deref().or(self.by_flag.as_deref())
    }
}

impl AnyTeamChoice {
    /// Returns the records of the team. The team is the value of `--team`, otherwise the team in
    /// `NAME@TEAM`, otherwise the default team.
    ///
    /// # Errors
    /// Returns the same errors as [`TeamChoice::open`].
    pub(crate) async fn records_of(
        &self,
        context: &Context,
        member: &str,
    ) -> Result<TeamRecords, Failure> {
        records(context, self.team.as_deref().or_else(|| team_of(member))).await
    }
}

impl NamedTeam {
    /// Returns the team name that the user gave, as a positional argument or with `--team`.
    pub(crate) fn name(&self) -> &str {
        // clap requires either the positional argument or `--team`, so the default value is never
        // used.
        self.team.as_deref().or(self.by_flag.as_deref()).unwrap_or_default()
    }
}

impl TeamChoice {
    /// Opens the team for a command that changes something.
    ///
    /// # Errors
    /// Returns an error if the team does not exist. Also returns an error if no team is named and
    /// there is no default team; the hints then list the teams.
    pub(crate) async fn open(&self, context: &Context) -> Result<Team, Failure> {
        open(context, self.team.as_deref(), Purpose::Change).await
    }

    /// Opens the team for a command that only shows something.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::open`].
    pub(crate) async fn look(&self, context: &Context) -> Result<Team, Failure> {
        let team = open(context, self.team.as_deref(), Purpose::Look).await?;
        if self.team.is_none() {
            say_where(context, &team).await;
        }
        Ok(team)
    }

    /// Opens the team of a member for a command that changes something. The team is the value of
    /// `--team`, otherwise the team in `NAME@TEAM`, otherwise the default team.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::open`].
    pub(crate) async fn open_of(&self, context: &Context, member: &str) -> Result<Team, Failure> {
        open(context, self.team.as_deref().or_else(|| team_of(member)), Purpose::Change).await
    }

    /// Opens the team of a member for a command that only shows something.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::open`].
    pub(crate) async fn look_of(&self, context: &Context, member: &str) -> Result<Team, Failure> {
        match team_of(member) {
            Some(team) if self.team.is_none() => open(context, Some(team), Purpose::Look).await,
            Some(_) | None => self.look(context).await,
        }
    }
}

/// The chosen team, which is live or archived.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// A team outside of the archive.
    Live(Team),
    /// A team in the archive.
    Archived(Box<ArchivedTeam>),
}

/// Opens the team called `name`. If `name` is `None`, opens the default team.
///
/// # Errors
/// Returns the same errors as [`TeamChoice::open`].
pub(crate) async fn open(
    context: &Context,
    name: Option<&str>,
    purpose: Purpose,
) -> Result<Team, Failure> {
    let teams = context.teams()?;
    if let Some(name) = name {
        return Ok(teams.open(name).await?);
    }
    match meant(&teams, candidates(context, &teams).await?, purpose).await? {
        Some(team) => Ok(team),
        None => Err(none_there(context, &teams).await),
    }
}

/// Opens the team called `name`. If no existing team has this name, returns the archived team with
/// this name. If `name` is `None`, opens the default team of this repository. If no team outside of
/// the archive belongs to this repository, returns its team that was archived last. Only without
/// such a team, a team of another place is opened.
///
/// # Errors
/// Returns the same errors as [`TeamChoice::open`].
pub(crate) async fn open_or_archived(
    context: &Context,
    name: Option<&str>,
) -> Result<Chosen, Failure> {
    let teams = context.teams()?;
    let Some(name) = name else { return default_or_archived(context, &teams).await };
    match teams.open(name).await {
        Ok(team) => Ok(Chosen::Live(team)),
        Err(error) if error.code == ErrorCode::TeamNotFound => {
            match teams.find_archived(name).await? {
                Some(archived) => Ok(Chosen::Archived(Box::new(archived))),
                None => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

async fn default_or_archived(context: &Context, teams: &Teams) -> Result<Chosen, Failure> {
    let Candidates { candidates, unreadable } = candidates(context, teams).await?;
    // A command that changes something never picks a team of another place.
    match pick(&candidates, Purpose::Change) {
        Ok(here) => return Ok(Chosen::Live(teams.open(here.folder.as_str()).await?)),
        Err(NotMeant::NoneHere) => {}
        Err(why) => return Err(not_meant(&candidates, &why)),
    }
    if let Some(archived) = last_here(context, teams).await {
        return Ok(Chosen::Archived(Box::new(archived)));
    }
    match meant(teams, Candidates { candidates, unreadable }, Purpose::Look).await? {
        Some(team) => {
            say_where(context, &team).await;
            Ok(Chosen::Live(team))
        }
        None => Err(none_there(context, teams).await),
    }
}

/// Returns the records of the team called `name`, or of the default team. The team can be in the
/// archive. If nobody named an archived team, a remark says which team is shown.
///
/// # Errors
/// Returns the same errors as [`TeamChoice::open`].
pub(crate) async fn records(context: &Context, name: Option<&str>) -> Result<TeamRecords, Failure> {
    let archived = match open_or_archived(context, name).await? {
        Chosen::Live(team) => return Ok(TeamRecords::Live(team)),
        Chosen::Archived(archived) => archived,
    };
    if name.is_none() {
        output::remark(&format!(
            "no team is at work here; shown is {}, in the archive since {}",
            printable(archived.config.name.as_str()),
            archive::since(&archived)
        ));
    }
    Ok(TeamRecords::Archived(context.teams()?, archived))
}

/// A team that can become the default team of a command.
struct Candidate {
    folder: TeamDir,
    /// The team's name, which may differ from the name of its folder.
    name: String,
    /// Whether a process runs the team now.
    runs: bool,
    /// The repository in which the team's lead works. `None` if the repository is not known.
    repository: Option<PathBuf>,
    /// Whether the lead works in the repository in which the command runs.
    is_here: bool,
    /// Whether the team's name is the name of the repository in which the command runs.
    is_named_after: bool,
    /// Whether the repository of the lead no longer exists, for example because it was moved. Also
    /// `true` if that repository is not known.
    is_homeless: bool,
}

/// Whether a command only shows the team or also changes the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The command only shows the team.
    Look,
    /// The command changes or ends the team.
    Change,
}

/// The reason why a command has no default team.
enum NotMeant<'a> {
    /// Several teams run in this repository.
    SeveralRun(Vec<&'a Candidate>),
    /// Several stopped teams belong to this repository.
    SeveralWait(Vec<&'a Candidate>),
    /// No team belongs to this repository.
    NoneHere,
}

impl NotMeant<'_> {
    fn in_words(&self) -> &'static str {
        match self {
            Self::SeveralRun(_) => "several teams run here",
            Self::SeveralWait(_) => "several teams wait here, and none runs",
            Self::NoneHere => "no team runs or waits here",
        }
    }
}

/// All teams outside of the archive that can become the default team of a command.
struct Candidates {
    candidates: Vec<Candidate>,
    /// The error of the first team that cannot be read.
    unreadable: Option<StoreError>,
}

/// Returns the default team of the command. Returns `None` if there is no team at all.
async fn meant(
    teams: &Teams,
    Candidates { candidates, unreadable }: Candidates,
    purpose: Purpose,
) -> Result<Option<Team>, Failure> {
    if candidates.is_empty() {
        // If no team can be read, the error of the first unreadable team is reported.
        return unreadable.map_or(Ok(None), |error| Err(Failure::internal(error)));
    }
    match pick(&candidates, purpose) {
        Ok(candidate) => Ok(Some(teams.open(candidate.folder.as_str()).await?)),
        Err(why) => Err(not_meant(&candidates, &why)),
    }
}

async fn candidates(context: &Context, teams: &Teams) -> Result<Candidates, Failure> {
    let here = repository(&context.cwd);
    let called_here = here.file_name().and_then(|name| name.to_str()).map(TeamDir::of);
    let mut candidates = Vec::new();
    let mut unreadable = None;
    for folder in teams.folders().await.map_err(Failure::internal)? {
        // The loop reads each config only once, and passes the result to `Running::of`. Reading a
        // damaged config takes time, because the reader waits and tries again: another process may
        // be writing the file.
        let config = match teams.config_in(&folder).await {
            Ok(config) => config,
            // Every command rejects a team folder that is a link. Such a folder is never the
            // default team.
            Err(StoreError::NoFolder { .. } | StoreError::NoTeam { .. }) => continue,
            // A team that cannot be read is never the default team. The user must name such a team.
            Err(error) => {
                unreadable.get_or_insert(error);
                continue;
            }
        };
        let Ok(team) = teams.at(&folder) else { continue };
        let runs = match Running::of(&team, &config).await {
            Ok(Running::ByPitcrew { .. } | Running::BySession { .. }) => true,
            Ok(
                Running::Stale { .. } | Running::Elsewhere { .. } | Running::No | Running::Unknown,
            )
            | Err(_) => false,
        };
        let repository = lead_folder(&config);
        let (name, is_here) = (config.name.to_string(), repository.as_ref() == Some(&here));
        let is_homeless = repository.as_ref().is_none_or(|place| !place.is_dir());
        let is_named_after = called_here.as_ref() == Some(&folder);
        candidates.push(Candidate {
            is_here,
            is_named_after,
            is_homeless,
            name,
            repository,
            folder,
            runs,
        });
    }
    Ok(Candidates { candidates, unreadable })
}

/// Picks the default team: the team that runs in this repository, otherwise the team with the
/// repository's name, otherwise the stopped team that belongs to this repository. A command that
/// changes something never picks a team whose lead worked in another folder that still exists. A
/// command that only shows something can pick such a team, if the team has the repository's name or
/// is the only team.
fn pick(candidates: &[Candidate], purpose: Purpose) -> Result<&Candidate, NotMeant<'_>> {
    let (running, waiting): (Vec<_>, Vec<_>) = candidates
        .iter()
        .filter(|candidate| candidate.is_here)
        .partition(|candidate| candidate.runs);
    // A team with this repository's name can belong to another repository that has the same name.
    let named = candidates.iter().find(|candidate| candidate.is_named_after);
    let named_here = named.filter(|candidate| candidate.is_here || candidate.is_homeless);
    match (running.as_slice(), named_here, waiting.as_slice()) {
        ([only], ..) | ([], None, [only]) => return Ok(only),
        // The team with the repository's name is picked, even if several stopped teams belong to
        // this repository.
        ([], Some(named), _) => return Ok(named),
        ([_, ..], ..) => return Err(NotMeant::SeveralRun(running)),
        ([], None, [_, ..]) => return Err(NotMeant::SeveralWait(waiting)),
        ([], None, []) => {}
    }
    match (purpose, named, candidates) {
        (Purpose::Look, Some(only), _) | (Purpose::Look, None, [only]) => Ok(only),
        (Purpose::Look | Purpose::Change, ..) => Err(NotMeant::NoneHere),
    }
}

/// If the shown team belongs to another repository, tells the user the path of that repository.
async fn say_where(context: &Context, team: &Team) {
    let here = repository(&context.cwd);
    let Ok(config) = team.config().await else { return };
    if let Some(place) =
        lead_folder(&config).filter(|place| *place != here && here.join(".git").exists())
    {
        let place = place.to_string_lossy();
        output::remark(&format!(
            "this repository has no team; shown is {} of {}",
            printable(team.name().as_str()),
            printable(&place)
        ));
    }
}

fn not_meant(candidates: &[Candidate], why: &NotMeant<'_>) -> Failure {
    let names =
        |of: &[&Candidate]| -> Vec<String> { of.iter().map(|it| it.name.clone()).collect() };
    let all: Vec<&Candidate> = candidates.iter().collect();
    let listed = match why {
        NotMeant::SeveralRun(teams) | NotMeant::SeveralWait(teams) => teams,
        NotMeant::NoneHere => &all,
    };
    let error = ApiError::new(ErrorCode::TeamNotFound, why.in_words())
        .with("available_teams", names(listed));
    let mut failure = Failure::from(error);
    if let NotMeant::NoneHere = why {
        for running in candidates.iter().filter(|it| it.runs) {
            let place = running
                .repository
                .as_ref()
                .map(|place| printable(&place.to_string_lossy()).into_owned());
            let place = place.map_or_else(String::new, |place| format!(" in {place}"));
            failure = failure.hint(format!("{} runs{place}", printable(&running.name)));
        }
    }
    failure.hint("name one with --team, or as TEAM where the command takes it; `pitcrew team list` shows them")
}

async fn none_there(context: &Context, teams: &Teams) -> Failure {
    let said = format!("there is no team under {}", context.root.display());
    let failure = Failure::from(ApiError::new(ErrorCode::TeamNotFound, said));
    match last_here(context, teams).await {
        Some(archived) => {
            let name = archived.config.name.as_str();
            let ended = format!(
                "{} is in the archive since {}: ",
                printable(name),
                archive::since(&archived)
            );
            failure.hint(ended + &archive::hint(&context.root_flag(), name))
        }
        None => {
            failure.hint("`pitcrew run \"GOAL\"` makes one, and so does `pitcrew team create NAME`")
        }
    }
}

/// Returns the team of this repository that was archived last.
async fn last_here(context: &Context, teams: &Teams) -> Option<ArchivedTeam> {
    let here = repository(&context.cwd);
    let archived = teams.archived().await.ok()?;
    let of_here = archived.into_iter().filter_map(|entry| entry.team.ok());
    let of_here = of_here.filter(|archived| lead_folder(&archived.config).as_ref() == Some(&here));
    of_here.max_by_key(|archived| (archived.archived_at_ms, archived.name.clone()))
}

/// Returns the repository in which the lead of a team works.
pub(crate) fn lead_folder(config: &TeamConfig) -> Option<PathBuf> {
    let folder = config.member(LEAD_NAME)?.cwd.as_deref()?;
    Some(repository(Path::new(folder)))
}

/// Returns the top folder of the git repository that contains `folder`. If `folder` is in a
/// worktree, returns the top folder of the main checkout. If `folder` is in no repository, returns
/// `folder`.
pub(crate) fn repository(folder: &Path) -> PathBuf {
    // A team can outlive the folder in which its lead worked. If that folder no longer exists, its
    // path is returned.
    Repository::of(folder).map_or_else(|_gone| folder.to_owned(), |repository| repository.top)
}

/// Returns the name of the top folder of the git repository that contains `folder`. If `folder` is
/// in no repository, returns the name of `folder`.
pub(crate) fn repository_name(folder: &Path) -> Option<String> {
    let top = folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(folder);
    Some(top.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::Purpose::{Change, Look};

    /// Bit flags for the properties of a candidate.
    const RUNS: u8 = 1;
    const HERE: u8 = 2;
    const NAMED: u8 = 4;
    const HOMELESS: u8 = 8;

    fn picked(candidates: &[(&str, u8)], purpose: Purpose) -> Result<String, String> {
        let of = |(name, is): &(&str, u8)| Candidate {
            folder: TeamDir::of(name),
            name: (*name).to_owned(),
            repository: None,
            runs: is & RUNS != 0,
            is_here: is & HERE != 0,
            is_named_after: is & NAMED != 0,
            is_homeless: is & HOMELESS != 0,
        };
        let candidates: Vec<Candidate> = candidates.iter().map(of).collect();
        let picked = pick(&candidates, purpose);
        picked.map(|picked| picked.folder.to_string()).map_err(|why| why.in_words().to_owned())
    }

    #[test]
    fn the_team_that_runs_here_is_meant_and_else_the_one_that_waits_here() {
        let teams = [("app", HERE | NAMED), ("here", HERE | RUNS), ("there", RUNS), ("work", HERE)];
        let waits = [("a", RUNS), ("b", HERE)];
        for purpose in [Look, Change] {
            assert_eq!(picked(&teams, purpose), Ok("here".to_owned()));
            assert_eq!(picked(&waits, purpose), Ok("b".to_owned()));
        }
    }

    #[test]
    fn of_several_that_wait_the_one_with_the_name_of_the_repository_is_meant() {
        let teams = [("a", HERE), ("app", HERE | NAMED), ("b", HERE)];
        let moved = [("a", HERE), ("app", NAMED | HOMELESS), ("c", RUNS)];
        for purpose in [Look, Change] {
            assert_eq!(picked(&teams, purpose), Ok("app".to_owned()));
            assert_eq!(picked(&moved, purpose), Ok("app".to_owned()));
        }
    }

    #[test]
    fn several_that_run_or_wait_here_are_listed_and_no_others() {
        let run = [("a", HERE | RUNS), ("b", HERE | RUNS | NAMED), ("c", RUNS), ("d", HERE)];
        let wait = [("a", HERE), ("b", HERE), ("app", RUNS | NAMED)];
        for purpose in [Look, Change] {
            assert_eq!(picked(&run, purpose), Err("several teams run here".to_owned()));
            assert_eq!(
                picked(&wait, purpose),
                Err("several teams wait here, and none runs".to_owned())
            );
        }
    }

    #[test]
    fn a_team_of_another_place_may_be_shown_and_is_never_changed() {
        let none = Err("no team runs or waits here".to_owned());
        for runs in [0, RUNS] {
            let (only, two) = ([("a", runs)], [("a", runs), ("b", 0)]);
            let namesake = [("a", runs), ("app", runs | NAMED)];
            assert_eq!(picked(&only, Look), Ok("a".to_owned()));
            assert_eq!(picked(&two, Look), none);
            assert_eq!(picked(&namesake, Look), Ok("app".to_owned()));
            for teams in [&only[..], &two, &namesake] {
                assert_eq!(picked(teams, Change), none, "{teams:?}");
            }
        }
    }
}
