//! `pitcrew attach`: displays a team that another process runs, and lets the user take part.

use std::time::Duration;

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_runtime::run::RunOutcome;
use pitcrew_team::Team;
use pitcrew_team::store::LeaseName;
use pitcrew_view::running::Running;

use super::resume;
use super::run::{OutputFormat, shown};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::live::attached::{AttachFace, Left, attach};
use crate::live::face;
use crate::live::signals::Signals;
use crate::live::watch::Watched;
use crate::notifier::Attention;
use crate::output::{self, Form, shell_word};
use crate::report;
use crate::selection::{self, Purpose, TeamWord};

/// How long this command waits for the process of an ended run.
const HOST_END_PATIENCE: Duration = Duration::from_secs(10);

/// Watch a team that runs, answer its questions and write to it
///
/// It opens the terminal interface on a team that `pitcrew run --detach`, `pitcrew start` or another
/// terminal runs: the conversation with the lead, the team, its tasks and its questions. /help shows
/// the keys. A question is shown in every display of the team, and the first answer counts. Leaving
/// does not end the team. If several teams run here, or only others run, it lists them to choose one.
///
/// With --plain, events are lines that scroll. A line you type is a message to the lead, or the
/// answer to the shown question. Esc interrupts the lead's turn. Ctrl-C leaves.
///
/// If the process of the team is killed, the display says so and waits until the team is resumed.
/// Then it goes on. Without a terminal, it prints one line per event, and ends when the run or its
/// process ends. When the run ends, the exit code is that of the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew attach                   the team that runs in this repository
  pitcrew attach backend
  pitcrew attach backend --plain   lines that scroll, in place of the interface
  pitcrew attach backend --json    a JSON line per event, after a snapshot of the state")]
pub(crate) struct Attach {
    /// Show events as lines that scroll. This is always so on a terminal with TERM=dumb
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    team: TeamWord,
}

impl Attach {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let face = match context.output.form() {
            Form::Json => AttachFace::Lines,
            Form::Text if !self.plain && face::is_possible(context) => {
                return context.briefly(self.in_interface(context));
            }
            Form::Text if context.has_terminal() => AttachFace::Terminal,
            Form::Text => AttachFace::Log,
        };
        let ended = context.briefly(async {
            let signals = Signals::listen()?;
            let team = selection::open(context, self.team.name(), Purpose::Change).await?;
            let attention = Attention::of(context, &context.usable_settings().notify());
            let left = attach(context, team.clone(), face, signals, &attention).await?;
            end_of(context, &team, face, left).await
        });
        match (ended, face) {
            // The output consists of JSON lines, and the error is the last line.
            (Err(failure), AttachFace::Lines) if !failure.is_told() => {
                output::json_line(&failure.document())?;
                Err(failure.into_told())
            }
            (ended, _) => ended,
        }
    }

    /// Displays the team in the terminal interface.
    async fn in_interface(&self, context: &Context) -> Result<(), Failure> {
        let team = match selection::open(context, self.team.name(), Purpose::Change).await {
            Ok(team) => team,
            // No team is meant without a name. The user can choose one that runs.
            Err(failure) if self.team.name().is_none() => {
                return resume::choose_running(context, failure).await;
            }
            Err(failure) => return Err(failure),
        };
        let closed = face::follow(context, team.clone()).await?;
        end_of(context, &team, AttachFace::Terminal, closed.left).await
    }
}

/// Tells the user why the display of a team ended, and returns the result of the command.
async fn end_of(
    context: &Context,
    team: &Team,
    face: AttachFace,
    left: Left,
) -> Result<(), Failure> {
    match left {
        Left::NobodyRuns => Err(nobody_runs(context, team).await?),
        left @ (Left::Ended { .. }
        | Left::AlreadyOver
        | Left::ByUser
        | Left::Onward(_)
        | Left::Signal(_)
        | Left::HostGone
        | Left::TeamGone) => end(context, team.name().as_str(), face, left).await,
    }
}

/// Tells the user why the display of the team with this name ended, and returns the result of the
/// command.
pub(crate) async fn end(
    context: &Context,
    team: &str,
    face: AttachFace,
    left: Left,
) -> Result<(), Failure> {
    let (root, word) = (context.root_flag(), shell_word(team).into_owned());
    match left {
        Left::Ended { outcome, state } => {
            let resume = report::resume(&context.root_flag(), &outcome);
            if face == AttachFace::Lines {
                return report::ended(&outcome, None, resume.as_deref());
            }
            until_host_ended(context, team).await;
            let work = report::Work::of(context, &outcome).await;
            let archive = in_archive(context, &outcome).await;
            let summary =
                report::summary(&context.root_flag(), &outcome, &work, archive.as_deref());
            let watched = Watched {
                outcome: *outcome,
                signal: None,
                state: *state,
                watched: Duration::ZERO,
                unwritten: None,
            };
            shown(watched, OutputFormat::Text, (&summary, &work), resume.as_deref())
        }
        Left::AlreadyOver => {
            until_host_ended(context, team).await;
            report::already_over(context, team).await
        }
        Left::ByUser => {
            if face != AttachFace::Lines {
                output::remark(&format!(
                    "team {team} goes on; `pitcrew{root} attach {word}` shows it again, `pitcrew{root} shutdown {word}` ends it"
                ));
            }
            Ok(())
        }
        Left::Onward(onward) => Err(resume::go_on_with(context, &onward)),
        Left::Signal(signal) => Err(Failure::new(signal.failure(), "the display was stopped")
            .hint(format!("the team goes on; `pitcrew{root} attach {word}` shows it again"))),
        Left::HostGone => {
            let said = format!("the process that ran team {team} ended without a word");
            Err(Failure::new(FailureKind::HostGone, said).hint(goes_on(context, team)))
        }
        // The end of the run was missed: a completed team is moved to the archive.
        Left::TeamGone | Left::NobodyRuns if is_archived(context, team).await => {
            report::already_over(context, team).await
        }
        Left::TeamGone | Left::NobodyRuns => {
            Err(Failure::new(FailureKind::NotFound, format!("team {team} is gone")))
        }
    }
}

async fn is_archived(context: &Context, team: &str) -> bool {
    let Ok(teams) = context.teams() else { return false };
    matches!(teams.find_archived(team).await, Ok(Some(_)))
}

/// Waits until the process that ran the team has ended. It moves a completed team to the archive after
/// the end of the run, and the report says where the team is.
async fn until_host_ended(context: &Context, team: &str) {
    // The team and its record are gone when the team is in the archive already.
    let Ok(teams) = context.teams() else { return };
    let Ok(team) = teams.open(team).await else { return };
    let Ok(Some(holder)) = team.last_holder(&LeaseName::Run).await else { return };
    let ended = async { ProcessIdentity::from(holder.process()).ended().await };
    // A process that goes on for long, for example because nobody reads its output, is not waited
    // for.
    let _either = tokio::time::timeout(HOST_END_PATIENCE, ended).await;
}

/// Returns the name of the archived team, if the team of a run is in the archive now.
async fn in_archive(context: &Context, outcome: &RunOutcome) -> Option<String> {
    if outcome.team_deleted {
        return None;
    }
    let teams = context.teams().ok()?;
    match teams.open(&outcome.team).await {
        Ok(_there) => None,
        Err(_) => Some(teams.find_archived(&outcome.team).await.ok()??.name.to_string()),
    }
}

/// Returns the hint with the command that continues a team.
fn goes_on(context: &Context, team: &str) -> String {
    let (root, word) = (context.root_flag(), shell_word(team));
    format!("`pitcrew{root} run --resume {word}` goes on with it")
}

/// Builds the error for a team that no pitcrew process runs.
async fn nobody_runs(context: &Context, team: &Team) -> Result<Failure, Failure> {
    let running = Running::of(team, team.config().await?.as_ref()).await?;
    let said = match &running {
        Running::No | Running::ByPitcrew { .. } => {
            format!("no process runs team '{}'", team.name())
        }
        Running::BySession { .. }
        | Running::Stale { .. }
        | Running::Elsewhere { .. }
        | Running::Unknown => {
            format!("team '{}' is {}, and pitcrew does not run it", team.name(), running.text())
        }
    };
    let error =
        ApiError::new(ErrorCode::InvalidStatus, said).with("team_name", team.name().as_str());
    let failure = Failure::from(error);
    Ok(match running {
        Running::No | Running::ByPitcrew { .. } => {
            failure.hint(goes_on(context, team.name().as_str()))
        }
        Running::BySession { .. }
        | Running::Stale { .. }
        | Running::Elsewhere { .. }
        | Running::Unknown => failure.hint("`pitcrew inbox team-lead --follow` reads along"),
    })
}
