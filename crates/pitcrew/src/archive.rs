//! Moves the team of a completed run into the archive. When the team is resumed, moves it back out
//! of the archive.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{Task, TaskStatus, counted};
use pitcrew_runtime::run::{Begin, RunEnd, RunOutcome};
use pitcrew_team::Team;
use pitcrew_team::store::{ArchivedTeam, JournalFault, LeaseHolder, LeaseName};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, shell_word};

/// How long a resume waits for the process of an earlier run that has ended. This process may still
/// call the user's notification command and send telemetry, which takes a few seconds at most. It
/// takes longer only if somebody has stopped it.
const LAST_ACTS: Duration = Duration::from_secs(15);

/// Moves the team of a completed run into the archive. Returns the name of the archived team, or
/// `None` if the team was not moved. The team is not moved in these cases: the team was deleted,
/// the run did not end with success, a task is open, a member is still in the team, or another
/// process already runs the team.
pub(crate) async fn put_away(context: &Context, outcome: &RunOutcome) -> Option<String> {
    if outcome.team_deleted || !matches!(outcome.end, RunEnd::Success { .. }) {
        return None;
    }
    match archived(context, &outcome.team).await {
        Ok(archive) => archive,
        Err(failure) => {
            output::remark(&format!("warning: the team stays where it is: {}", failure.chain()));
            None
        }
    }
}

async fn archived(context: &Context, name: &str) -> Result<Option<String>, Failure> {
    let team = context.teams()?.open(name).await?;
    // While this process holds the run lease, no other process can start to run the team.
    let lease = team.take_lease(&LeaseName::Run, &own_hold(&team)).await;
    match lease.map_err(Failure::internal)? {
        Ok(_lease) => {
            let is_open = |task: &Task| task.status != TaskStatus::Completed;
            // A team with open tasks is not archived, so that a resumed run can complete the tasks.
            if team.tasks().await?.iter().any(is_open) {
                Ok(None)
            } else {
                Ok(team.archive().await?)
            }
        }
        Err(_holder) => Ok(None),
    }
}

/// Describes what is wrong with a journal.
pub(crate) fn journal_fault(path: &Path, fault: &JournalFault) -> String {
    let path = path.display();
    match fault {
        JournalFault::Missing => {
            format!("the journal {path} is missing, so most of the team's history is not known")
        }
        JournalFault::Unreadable(reason) => {
            format!(
                "the journal {path} cannot be read, so most of the team's history is not known: {reason}"
            )
        }
        JournalFault::BadLines(lines) => {
            format!("the journal {path} is damaged: {} cannot be read", counted(*lines, "line"))
        }
    }
}

fn own_hold(team: &Team) -> LeaseHolder {
    let ProcessIdentity { pid, start_ticks } = ProcessIdentity::own();
    LeaseHolder {
        pid,
        start_ticks,
        since_ms: team.teams().now_ms(),
        verify_key: None,
        prepares: false,
    }
}

/// Restores the team that `--resume` names from the archive. Returns whether the team was restored.
/// If a team outside of the archive has the name given to `--resume`, that team is used and nothing
/// is restored. If the team was restored, this function changes `begin` so that `begin` names the
/// team by its folder. If the team's last run has ended and its process has not, this function waits
/// for that process, because it may be about to move the team into the archive.
///
/// # Errors
/// Returns an error if neither a team nor an archived team has this name. Also returns an error if
/// the user gave the id of an archived team, and an active team already has the name of the
/// archived team.
pub(crate) async fn bring_back(context: &Context, begin: &mut Begin) -> Result<bool, Failure> {
    let Begin::Resume { team: name, .. } = begin else { return Ok(false) };
    let teams = context.teams()?;
    if let Ok(team) = teams.open(name).await {
        last_acts(&team).await;
    }
    let (team, is_restored) =
        teams.open_or_restore(name).await.map_err(|error| taken(error, name))?;
    if is_restored {
        // The user is allowed to give the id of the archived team instead of its name. After the
        // team is restored, that id names nothing.
        *name = team.dir().to_string();
    }
    Ok(is_restored)
}

/// Waits for the process of the team's last run, if the run has ended and the process has not.
async fn last_acts(team: &Team) {
    let Ok((journal, _)) = team.journal_summary().await else { return };
    let Ok(Some(holder)) = team.last_holder(&LeaseName::Run).await else { return };
    let process = ProcessIdentity { pid: holder.pid, start_ticks: holder.start_ticks };
    if journal.runs.ended.is_some() && process != ProcessIdentity::own() {
        let _ended_or_stuck = tokio::time::timeout(LAST_ACTS, process.ended()).await;
    }
}

fn taken(error: pitcrew_protocol::ApiError, name: &str) -> Failure {
    let is_taken = error.code == pitcrew_protocol::ErrorCode::TeamAlreadyExists;
    let failure = Failure::from(error);
    if is_taken {
        return failure.hint(format!("{name} comes back when that team is completed or deleted"));
    }
    failure
}

/// Moves a team back into the archive. Called when the team was restored for a run that could not
/// start.
pub(crate) async fn put_back(context: &Context, begin: &Begin) {
    let Begin::Resume { team, .. } = begin else { return };
    if let Err(failure) = archived(context, team).await {
        output::remark(&format!(
            "warning: team {team} stays out of the archive: {}",
            failure.chain()
        ));
    }
}

/// Formats the time at which a team was archived, for people.
pub(crate) fn since(archived: &ArchivedTeam) -> String {
    day_and_time(archived.archived_at_ms).unwrap_or_else(|| "an unknown time".to_owned())
}

/// Formats a time in milliseconds for people, to the second, in UTC.
pub(crate) fn day_and_time(at_ms: Option<i64>) -> Option<String> {
    let at = Timestamp::from_millisecond(at_ms?).ok()?;
    Some(at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Returns a hint with the commands that show and resume an archived team. `word` is the name of
/// the team or the id of the archived team, and `root` the flag of [`Context::root_flag`].
pub(crate) fn hint(root: &str, word: &str) -> String {
    let word = shell_word(word);
    format!(
        "`pitcrew{root} team show {word}` shows it, `pitcrew{root} run --resume {word}` goes on with it"
    )
}
