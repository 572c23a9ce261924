//! `pitcrew resume`: lists the teams that run and those that can be resumed, and goes on with one.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{ErrorCode, counted};
use pitcrew_runtime::run::Begin;
use pitcrew_team::TeamRecords;
use pitcrew_tui::choose::choose;
use pitcrew_tui::panels::PickerItem;
use pitcrew_tui::{CompletedTeam, Onward, TeamItem};
use pitcrew_view::running::Running;
use serde::Serialize;

use super::run::RunArgs;
use super::start;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::live::face::{self, NewRun};
use crate::live::signals::Signals;
use crate::output::{self, FAINT, Form, STRONG, first_line, printable, shell_word};
use crate::past_runs::{PastRun, PastRuns};
use crate::selection;
use crate::when::day;

/// The maximum number of characters of a goal in the list.
const GOAL_CHARS: usize = 50;

/// The end of a run whose work is done.
const COMPLETED: &str = "completed";

/// The title of the list of teams that run.
const TITLE_RUNNING: &str = "teams that run";

/// List the teams that run and those that can be resumed, and go on with one
///
/// The list has the teams of all repositories, those of this one first. On a terminal, type to
/// search it, and press Enter to choose a team: pitcrew attaches to a team that runs, and resumes
/// one that was stopped, was killed or is in the archive. Without a terminal, the list is printed.
///
/// With TEAM, pitcrew goes on with that team at once. On a terminal, a resumed team runs in the
/// background, as with `run --resume TEAM --detach`, and pitcrew attaches to it. A team whose work is
/// done asks for a message first, and shows what it did. `run --resume` takes the options of a run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew resume                 choose from the list
  pitcrew resume backend
  pitcrew resume --running       only the teams that run, to attach to one
  pitcrew resume --json          the list as one JSON document")]
pub(crate) struct Resume {
    /// The name or folder of the team, or the id of an archive
    #[arg(add = ArgValueCompleter::new(completing::resumable_teams))]
    team: Option<String>,
    /// List only the teams that run
    #[arg(long, conflicts_with = "team")]
    running: bool,
}

/// The list of teams, as JSON.
#[derive(Debug, Serialize)]
struct Listed {
    teams: Vec<Row>,
    total: usize,
    /// The number of teams and archives that cannot be read.
    unreadable: usize,
    /// Whether teams that do not run are left out.
    #[serde(skip)]
    only_running: bool,
}

/// A team that runs or can be resumed.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    run: PastRun,
    /// Whether a pitcrew process runs the team now.
    is_running: bool,
    /// The command that goes on with the team.
    command: String,
    /// Whether the lead works in the repository of this command.
    #[serde(skip)]
    is_here: bool,
}

impl Resume {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(team) = &self.team {
            return go_on(context, team);
        }
        let listed = context.briefly(Listed::read(context, self.running))?;
        let is_chosen_from = context.output.form() == Form::Text
            && face::is_possible(context)
            && std::io::stdout().is_terminal();
        if !is_chosen_from || listed.teams.is_empty() {
            return context.output.answer(&listed, |listed| listed.text(context));
        }
        let title = if self.running { TITLE_RUNNING } else { "teams to go on with" };
        let chosen = context.briefly(choose_from(context, &listed, title))?;
        match chosen.and_then(|index| listed.teams.get(index)) {
            // This process still has a thread that reads keys. It ends with the process.
            Some(row) => Err(replaced_by(context, &["resume", "--", &row.run.id])),
            None => Ok(()),
        }
    }
}

/// Lets the user choose a team that runs, and attaches to it. `otherwise` is the failure if none
/// runs.
///
/// # Errors
/// Returns `otherwise`, or an error if the list cannot be shown.
pub(crate) async fn choose_running(context: &Context, otherwise: Failure) -> Result<(), Failure> {
    let listed = Listed::read(context, true).await?;
    if listed.teams.is_empty() {
        return Err(otherwise);
    }
    let chosen = choose_from(context, &listed, TITLE_RUNNING).await?;
    match chosen.and_then(|index| listed.teams.get(index)) {
        // This process still has a thread that reads keys. It ends with the process.
        Some(row) => Err(replaced_by(context, &["attach", "--", &row.run.id])),
        None => Ok(()),
    }
}

/// Lists the teams to go on with, for the terminal interface. `shown` is the team on its screen,
/// which is left out.
///
/// # Errors
/// Returns an error if the folders of the teams cannot be listed.
pub(crate) async fn teams_to_go_on_with(
    context: &Context,
    shown: Option<&str>,
) -> Result<Vec<TeamItem>, Failure> {
    let listed = Listed::read(context, false).await?;
    let others = listed
        .teams
        .iter()
        .filter(|row| row.run.is_archived || Some(row.run.team.as_str()) != shown);
    Ok(others.map(|row| TeamItem { id: row.run.id.clone(), item: row.item(context) }).collect())
}

/// Goes on elsewhere, in place of this process. Returns only if that fails.
pub(crate) fn go_on_with(context: &Context, onward: &Onward) -> Failure {
    // This process still has a thread that reads keys. It ends with the process.
    match onward {
        Onward::Team { id } => replaced_by(context, &["resume", "--", id]),
        Onward::Records { id } => replaced_by(context, &["view", "--tui", &format!("--team={id}")]),
        Onward::NewTeam => replaced_by(context, &["start"]),
    }
}

/// Attaches to a team that runs, and resumes another one.
fn go_on(context: &Context, team: &str) -> Result<(), Failure> {
    if context.briefly(is_running(context, team))? {
        return Err(replaced_by(context, &["attach", "--", team]));
    }
    let how = RunArgs::default();
    if context.output.form() == Form::Json || !face::is_possible(context) {
        return how.run(context, Begin::Resume { team: team.to_owned(), goal: None });
    }
    match context.briefly(completed(context, team))? {
        Some((completed, folder)) => {
            how.settle(context, &folder)?;
            let continued = Some(completed);
            start::open(context, NewRun { goal: None, team: None, continued, how })
        }
        None => {
            let running = how.resume_detached(context, team)?;
            start::open_started(context, &running, how)
        }
    }
}

/// Returns a team whose work is done, and its folder. Its lead has nothing to go on with before it
/// gets a message. Returns `None` for any other team.
async fn completed(
    context: &Context,
    team: &str,
) -> Result<Option<(CompletedTeam, PathBuf)>, Failure> {
    let records = selection::records(context, Some(team)).await?;
    let ended = records.summary().await?.runs.ended;
    if ended.and_then(|ended| ended.end).as_deref() != Some(COMPLETED) {
        return Ok(None);
    }
    let config = records.config().await?;
    let completed = CompletedTeam {
        id: team.to_owned(),
        name: config.name.to_string(),
        is_archived: matches!(records, TeamRecords::Archived(..)),
    };
    let folder = selection::lead_folder(&config).filter(|folder| folder.is_dir());
    Ok(Some((completed, folder.unwrap_or_else(|| context.cwd.clone()))))
}

/// Whether a pitcrew process runs this team. A team that does not exist is not running: it may be in
/// the archive.
async fn is_running(context: &Context, team: &str) -> Result<bool, Failure> {
    match context.teams()?.open(team).await {
        Ok(team) => {
            let running = Running::of(&team, team.config().await?.as_ref()).await?;
            Ok(matches!(running, Running::ByPitcrew { .. }))
        }
        Err(error) if error.code == ErrorCode::TeamNotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Lets the user choose a team on the terminal. Returns its index, or `None` if the user leaves.
async fn choose_from(
    context: &Context,
    listed: &Listed,
    title: &str,
) -> Result<Option<usize>, Failure> {
    let (items, theme) = (listed.items(context), face::theme(context));
    let mut signals = Signals::listen()?;
    let mut ended = None;
    let end = async { ended = Some(signals.next().await) };
    let chosen = choose(title, &items, theme, end).await.map_err(Failure::internal)?;
    match ended {
        Some(signal) => Err(Failure::new(signal.failure(), "stopped before a team was chosen")),
        None => Ok(chosen),
    }
}

/// Replaces this process by another command of pitcrew. Returns only if that fails.
fn replaced_by(context: &Context, words: &[&str]) -> Failure {
    let mut command = Command::new(&context.exe);
    if let Some(root) = &context.given_root {
        command.arg("--root").arg(root);
    }
    if context.output.form() == Form::Json {
        command.arg("--json");
    }
    command.arg("--color").arg(match anstream::ColorChoice::global() {
        anstream::ColorChoice::Auto => "auto",
        anstream::ColorChoice::AlwaysAnsi | anstream::ColorChoice::Always => "always",
        anstream::ColorChoice::Never => "never",
    });
    Failure::internal(command.args(words).exec())
}

/// Returns the command that goes on with a team.
fn command(context: &Context, team: &str, is_running: bool) -> String {
    let (root, team) = (context.root_flag(), shell_word(team));
    match is_running {
        true => format!("pitcrew{root} attach {team}"),
        false => format!("pitcrew{root} run --resume {team}"),
    }
}

impl Listed {
    /// Reads the teams of all repositories. Those of this repository come first, then the repository
    /// with the latest event.
    async fn read(context: &Context, only_running: bool) -> Result<Self, Failure> {
        let PastRuns { runs, unreadable } = PastRuns::read(context).await?;
        let here = selection::repository(&context.cwd);
        let rows = runs.into_iter().map(|run| {
            let is_running = run.is_running();
            Row {
                is_here: run.repository.as_ref() == Some(&here),
                command: command(context, &run.id, is_running),
                is_running,
                run,
            }
        });
        let rows: Vec<Row> = rows.filter(|row| row.is_running || !only_running).collect();
        let teams = grouped(rows);
        Ok(Self { total: teams.len(), teams, unreadable, only_running })
    }

    fn text(&self, context: &Context) -> String {
        if self.teams.is_empty() {
            return match self.only_running {
                true => "no team runs; `pitcrew resume` lists those that can be resumed".to_owned(),
                false => {
                    "no team runs or can be resumed; `pitcrew run \"GOAL\"` starts one".to_owned()
                }
            };
        }
        let groups = self.teams.chunk_by(|one, other| one.run.repository == other.run.repository);
        let tables = groups.map(|rows| {
            let heading = rows.first().map(|row| row.place(context)).unwrap_or_default();
            let cells: Vec<_> = rows.iter().map(Row::cells).collect();
            let table =
                output::table(["TEAM", "END", "LAST", "TASKS", "COST", "ID", "GOAL"], &cells);
            format!("{STRONG}{}{STRONG:#}\n{table}", printable(&heading))
        });
        let tables: Vec<String> = tables.collect();
        let hint = format!("`pitcrew{} resume ID` goes on with one", context.root_flag());
        format!("{}\n\n{FAINT}{hint}{FAINT:#}", tables.join("\n\n"))
    }

    fn items(&self, context: &Context) -> Vec<PickerItem> {
        self.teams.iter().map(|row| row.item(context)).collect()
    }
}

/// Puts the teams of one repository together. Repositories and teams keep their order otherwise,
/// but this repository comes first, and teams that run come before the others of their repository.
fn grouped(rows: Vec<Row>) -> Vec<Row> {
    let mut order: Vec<Option<PathBuf>> = Vec::new();
    for row in &rows {
        if !order.contains(&row.run.repository) {
            order.push(row.run.repository.clone());
        }
    }
    let mut rows = rows;
    rows.sort_by_key(|row| {
        let at = order.iter().position(|place| *place == row.run.repository);
        (!row.is_here, at, !row.is_running)
    });
    rows
}

impl Row {
    /// Returns the repository of the team, in words.
    fn place(&self, context: &Context) -> String {
        let Some(place) = &self.run.repository else { return "unknown repository".to_owned() };
        let place = short_path(place, context.home.as_deref());
        if self.is_here { format!("{place} (this repository)") } else { place }
    }

    fn end(&self) -> String {
        self.run.end.as_deref().unwrap_or("ended").replace('_', " ")
    }

    fn last(&self) -> String {
        self.run.latest_at_ms.and_then(day).unwrap_or_else(|| "-".to_owned())
    }

    fn tasks(&self) -> String {
        format!("{} of {}", self.run.tasks_completed, self.run.tasks)
    }

    fn goal(&self) -> String {
        let goal = self.run.goal.as_deref().unwrap_or_default();
        first_line(goal.trim(), GOAL_CHARS)
    }

    fn cells(&self) -> [String; 7] {
        [
            self.run.team.clone(),
            self.end(),
            self.last(),
            self.tasks(),
            self.run.spending.cost_in_words(),
            self.run.id.clone(),
            self.goal(),
        ]
    }

    fn item(&self, context: &Context) -> PickerItem {
        let end = first_line(&self.end(), 12);
        let tasks = counted(self.run.tasks, "task");
        let tasks = format!("{} of {tasks}", self.run.tasks_completed);
        let detail = format!("{end:<12}  {}  {tasks:<13}  {}", self.last(), self.goal());
        PickerItem { group: self.place(context), label: self.run.team.clone(), detail }
    }
}

/// Returns a path with `~` in place of the home folder.
fn short_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
