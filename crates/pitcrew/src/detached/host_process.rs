//! The host process's half of a detached run: it leaves the terminal of its starter, runs the team,
//! and reports once that the team runs or why it does not.

use std::cell::Cell;
use std::fs::File;

use pitcrew_runtime::run::RunHandle;
use pitcrew_team::Team;

use super::host_log::HostLog;
use super::order::{Order, Report, RunningTeam};
use crate::context::Context;
use crate::failure::{Explained, Failure};

/// Runs the team that the order on stdin names, until the run ends.
///
/// # Errors
/// Returns an error if the run does not start or does not end with success. An error that the
/// starter reports to the user is marked as already printed.
pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let order = Order::read()?;
    leave_terminal()?;
    let is_announced = Cell::new(false);
    match order.how.run_detached(context, order.begin, &is_announced) {
        // The starter still waits for a report.
        Err(failure) if !is_announced.get() => {
            // If the starter has ended, nobody is left who could be told.
            let _nobody_waits = Report::Failed(failure.document()).send();
            Err(failure.into_told())
        }
        // The log now contains the output of this process, and so the error too.
        ended => ended,
    }
}

/// Moves this process into a session without a terminal. Signals of the starter's terminal no longer
/// reach this process, and stdin is empty from now on.
#[expect(clippy::disallowed_methods, reason = "the empty device becomes the standard input")]
fn leave_terminal() -> Result<(), Failure> {
    let not_left = |error| {
        Failure::internal(Explained::new("this process cannot leave its terminal", error))
            .hint("only `pitcrew run --detach` starts this command")
    };
    rustix::process::setsid().map_err(|error| not_left(error.into()))?;
    let empty = File::open("/dev/null").map_err(not_left)?;
    rustix::stdio::dup2_stdin(&empty).map_err(|error| not_left(error.into()))
}

/// Reports to the starter that the team runs. From then on, the output of this process goes into the
/// team's log. If this fails, the run is stopped, because the user does not learn of the run.
///
/// # Errors
/// Returns an error if the log cannot be opened, or if the starter has ended.
pub(crate) async fn announce(
    handle: RunHandle,
    team: &Team,
) -> Result<(RunHandle, HostLog), Failure> {
    match announced(&handle, team) {
        Ok(log) => Ok((handle, log)),
        Err(failure) => {
            handle.stopper().stop();
            let _stopped = handle.outcome().await;
            Err(failure)
        }
    }
}

fn announced(handle: &RunHandle, team: &Team) -> Result<HostLog, Failure> {
    let log = HostLog::open(team)?;
    let (team, pid) = (handle.team.clone(), std::process::id());
    Report::Runs(RunningTeam { team, pid, log: log.path() }).send()?;
    log.take_output().map_err(Failure::internal)?;
    Ok(log)
}
