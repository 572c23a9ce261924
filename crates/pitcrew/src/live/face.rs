//! Opens the terminal interface (the crate `pitcrew_tui`), and gives it what it needs from this
//! process: the start of runs, the names of files, warnings and signals.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use pitcrew_protocol::{ErrorCode, TeamDir, is_unseen};
use pitcrew_runtime::run;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_tui::{
    self as tui, CompletedTeam, ExportOrder, FaceError, FaceOptions, Mouse, TeamItem, ThemeKind,
};
use serde_json::Value;

use super::attached::Left;
use super::board::is_in_foreground;
use super::signals::{EndSignal, Signals};
use super::warnings::Remarks;
use crate::archive;
use crate::commands::resume::teams_to_go_on_with;
use crate::commands::run::{RunArgs, team_name};
use crate::context::Context;
use crate::detached::starter;
use crate::exporting::{self, Existing};
use crate::failure::Failure;
use crate::notifier::Attention;
use crate::output;

/// A terminal of this name understands no cursor movements.
pub(super) const DUMB: &str = "dumb";

/// The maximum number of entries of a folder that are looked at for completions.
const ENTRIES_MOST: usize = 5_000;

/// The maximum number of completions.
const NAMES_MOST: usize = 100;

/// How a run begins that the terminal interface starts.
#[derive(Debug)]
pub(crate) struct NewRun {
    /// The goal, if the command line names it. Otherwise the interface asks for it.
    pub(crate) goal: Option<String>,
    /// The team's name, if the command line names it.
    pub(crate) team: Option<String>,
    /// The completed team that continues with the first message. `None` if the first message is the
    /// goal of a new team.
    pub(crate) continued: Option<CompletedTeam>,
    /// The options of the run.
    pub(crate) how: RunArgs,
}

/// Why the terminal interface was closed.
#[derive(Debug)]
pub(crate) struct Closed {
    /// The reason.
    pub(crate) left: Left,
    /// The team on the screen. `None` if no team was started.
    pub(crate) team: Option<String>,
}

/// Whether this process can open the terminal interface: it has a terminal that can draw, and is in
/// the foreground.
pub(crate) fn is_possible(context: &Context) -> bool {
    context.has_terminal() && context.variable("TERM") != Some(DUMB) && is_in_foreground()
}

/// Opens the terminal interface on a team that a process runs.
///
/// # Errors
/// Returns an error if the host refuses this process, or if the terminal cannot be used.
pub(crate) async fn follow(context: &Context, team: Team) -> Result<Closed, Failure> {
    open(context, Some(team), None).await
}

/// Opens the terminal interface for a new team.
///
/// # Errors
/// The errors of [`follow`].
pub(crate) async fn begin(context: &Context, new: NewRun) -> Result<Closed, Failure> {
    open(context, None, Some(new)).await
}

/// Opens the terminal interface for a run that was just started. The run may be over already, and
/// its team in the archive.
///
/// # Errors
/// The errors of [`follow`].
pub(crate) async fn follow_started(
    context: &Context,
    team: &str,
    how: RunArgs,
) -> Result<Closed, Failure> {
    let new = NewRun { goal: None, team: None, continued: None, how };
    open(context, Some(team_of_run(context, team).await?), Some(new)).await
}

async fn open(
    context: &Context,
    team: Option<Team>,
    mut new: Option<NewRun>,
) -> Result<Closed, Failure> {
    let mut signals = Signals::listen()?;
    let signal = Cell::new(EndSignal::Terminate);
    let mut remarks = Remarks::open();
    let name = team.as_ref().map(|team| team.name().to_string());
    let folder = context.cwd.clone();
    let goal = new.as_mut().and_then(|new| new.goal.take());
    let completed = new.as_mut().and_then(|new| new.continued.take());
    let start = new.map(|NewRun { team, how, .. }| -> tui::StartTeam<'_> {
        Box::new(move |begin| {
            let team = team.clone().unwrap_or_else(|| team_name(context));
            start(context, how.clone(), begin_of(begin, team)).boxed_local()
        })
    });
    let options = FaceOptions {
        theme: theme(context),
        mouse: mouse(context),
        team,
        completed,
        goal,
        start,
        signal_of: signals_of(context),
        worktrees: context.worktrees(&context.cwd),
        list_files: Box::new(move |prefix| names_of_files(&folder, prefix)),
        export: Box::new(move |team, order| export(context, team, order).boxed_local()),
        list_teams: Box::new(move |shown| list_teams(context, shown).boxed_local()),
        remarks: stream::unfold(&mut remarks, |remarks| async move {
            let remark = remarks.next().await;
            Some((remark, remarks))
        })
        .boxed_local(),
        end: async { signal.set(signals.next().await) }.boxed_local(),
    };
    let left = tui::run(options).await;
    // The terminal is restored now, so the remaining remarks are printed directly.
    remarks.left().iter().for_each(|remark| output::remark(remark));
    Ok(closed(left.map_err(failure)?, name, signal.get()))
}

/// Writes a document about a team, and returns a text for the user. An error is a text too.
async fn export(context: &Context, team: Team, order: ExportOrder) -> Result<String, String> {
    let ExportOrder { of, file, detail } = order;
    let stem = exporting::stem(team.name().as_str(), &of);
    let records = TeamRecords::Live(team);
    let exported = exporting::document(context, &records, &of, detail).await.map_err(in_words)?;
    let path = match file {
        Some(file) => exporting::write(context, &file, &exported.text, Existing::Kept(None)),
        None => exporting::write_new(context, &stem, &exported.text),
    };
    let said = exporting::in_words(&path.map_err(in_words)?, &exported.masked);
    Ok(std::iter::once(said).chain(exported.unread).collect::<Vec<_>>().join("; "))
}

async fn list_teams(context: &Context, shown: Option<String>) -> Result<Vec<TeamItem>, String> {
    teams_to_go_on_with(context, shown.as_deref()).await.map_err(in_words)
}

/// Describes a failure in one text, with its hints.
fn in_words(failure: Failure) -> String {
    let hints = failure.hints().into_iter();
    std::iter::once(failure.chain()).chain(hints).collect::<Vec<_>>().join("; ")
}

/// Returns the maker of signals, if the user's settings have signals for the terminal.
fn signals_of(context: &Context) -> Option<tui::SignalOf<'static>> {
    let attention = Attention::of(context, &context.usable_settings().notify());
    let is_silent = attention.is_silent();
    let signal_of: tui::SignalOf<'static> =
        Box::new(move |notification| attention.to(notification));
    (!is_silent).then_some(signal_of)
}

fn closed(left: tui::Left, name: Option<String>, signal: EndSignal) -> Closed {
    match left {
        tui::Left::Ended { outcome, state } => {
            let team = Some(outcome.team.clone());
            Closed { left: Left::Ended { outcome, state }, team }
        }
        tui::Left::NobodyRuns => Closed { left: Left::NobodyRuns, team: name },
        tui::Left::AlreadyOver { team } => Closed { left: Left::AlreadyOver, team: Some(team) },
        tui::Left::ByUser { team } => Closed { left: Left::ByUser, team },
        tui::Left::Onward(onward) => Closed { left: Left::Onward(onward), team: name },
        tui::Left::Signal { team } => Closed { left: Left::Signal(signal), team },
        tui::Left::HostGone { team } => Closed { left: Left::HostGone, team: Some(team) },
        tui::Left::TeamGone { team } => Closed { left: Left::TeamGone, team: Some(team) },
    }
}

fn failure(error: FaceError) -> Failure {
    match error {
        FaceError::Host(error) => (*error).into(),
        error @ FaceError::Terminal(_) => Failure::internal(error),
    }
}

/// Returns whether the settings switch the mouse on. It is off by default, because then the terminal's
/// own selection of text needs no further key.
fn mouse(context: &Context) -> Mouse {
    match context.usable_settings().pitcrew("mouse") {
        Some(Value::Bool(true)) => Mouse::On,
        Some(_) | None => Mouse::Off,
    }
}

/// Returns the theme that the settings name. Without colour in the output, it has no colour.
pub(crate) fn theme(context: &Context) -> ThemeKind {
    let choice = anstream::AutoStream::choice(&std::io::stderr());
    if choice == anstream::ColorChoice::Never {
        return ThemeKind::NoColor;
    }
    let settings = context.usable_settings();
    match settings.pitcrew("theme").and_then(Value::as_str) {
        Some("light") => ThemeKind::Light,
        Some("colorBlind") => ThemeKind::ColorBlind,
        Some("none") => ThemeKind::NoColor,
        Some(_) | None => ThemeKind::Dark,
    }
}

fn begin_of(begin: tui::Begin, team: String) -> run::Begin {
    match begin {
        tui::Begin::New { goal } => run::Begin::New { team, goal },
        tui::Begin::Resume { team, goal } => run::Begin::Resume { team, goal: Some(goal) },
    }
}

/// Starts a run in a process of its own, and returns its team. An error is a text for the user.
async fn start(context: &Context, how: RunArgs, begin: run::Begin) -> Result<Team, String> {
    started(context, how, begin).await.map_err(in_words)
}

async fn started(context: &Context, how: RunArgs, mut begin: run::Begin) -> Result<Team, Failure> {
    let is_restored = archive::bring_back(context, &mut begin).await?;
    let started = starter::start_unseen(context, begin.clone(), how).await;
    if is_restored && started.is_err() {
        archive::put_back(context, &begin).await;
    }
    team_of_run(context, &started?).await
}

/// Returns the team of a run that was just started.
async fn team_of_run(context: &Context, name: &str) -> Result<Team, Failure> {
    let teams = context.teams()?;
    match teams.open(name).await {
        // The run is complete already, and its team is in the archive.
        Err(error) if error.code == ErrorCode::TeamNotFound => Ok(teams.at(&TeamDir::of(name))?),
        opened => Ok(opened?),
    }
}

/// Returns the paths below `folder` that begin with `prefix`. The path of a folder ends with `/`.
pub(crate) fn names_of_files(folder: &Path, prefix: &str) -> Vec<String> {
    let (parent, beginning) = prefix.rsplit_once('/').map_or(("", prefix), |(parent, name)| {
        (prefix.get(..=parent.len()).unwrap_or_default(), name)
    });
    let place: PathBuf = folder.join(parent);
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .take(ENTRIES_MOST)
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_meant = name.starts_with(beginning)
                && (beginning.starts_with('.') || !name.starts_with('.'))
                && !name.contains(|c: char| is_unseen(c) || c.is_whitespace());
            let ends = if entry.path().is_dir() { "/" } else { "" };
            is_meant.then(|| format!("{parent}{name}{ends}"))
        })
        .collect();
    names.sort();
    names.truncate(NAMES_MOST);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_files_are_completed_one_folder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/inner")).unwrap();
        for file in ["src/main.rs", "src/.hidden", "setup.py", "a\u{1b}b", "README.md"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let names = |prefix: &str| names_of_files(folder.path(), prefix);
        assert_eq!(names("s"), ["setup.py", "src/"]);
        assert_eq!(names("src/"), ["src/inner/", "src/main.rs"]);
        assert_eq!(names("src/."), ["src/.hidden"]);
        assert_eq!(names("a"), [""; 0]);
        assert_eq!(names("nothing/here"), [""; 0]);
    }
}
