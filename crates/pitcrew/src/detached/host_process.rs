//! The host process's half of a detached run: it leaves the terminal of its starter, runs the team,
//! and reports once that the team runs or why it does not.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use pitcrew_runtime::events::RunEvent;
use pitcrew_team::Team;
use tokio::time::{Instant, sleep_until};

use super::host_log::HostLog;
use super::order::{Order, Report, RunningTeam};
use crate::context::Context;
use crate::failure::{Explained, Failure};

/// How long the starter waits for the first act of an agent. A model can think for longer, and then
/// the starter learns that the team runs although it is not known whether the model answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the team that the order on stdin names, until the run ends.
///
/// # Errors
/// Returns an error if the run does not start or does not end with success. An error that the
/// starter reports to the user is marked as already printed.
pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let order = Order::read()?;
    leave_terminal()?;
    let is_announced = Rc::new(Cell::new(false));
    match order.how.run_detached(context, order.begin, Rc::clone(&is_announced)) {
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
    let not_left = |error: io::Error| {
        Failure::internal(Explained::new("this process cannot leave its terminal", error))
            .hint("only `pitcrew run --detach` starts this command")
    };
    rustix::process::setsid().map_err(|error| not_left(error.into()))?;
    let empty = File::open("/dev/null").map_err(not_left)?;
    rustix::stdio::dup2_stdin(&empty).map_err(|error| not_left(error.into()))
}

/// The display of a detached run: a log, and a report to the starter.
#[derive(Debug)]
pub(crate) struct HostFace {
    log: HostLog,
    /// The report that the starter waits for. `None` after it was sent.
    due: Option<Due>,
    is_announced: Rc<Cell<bool>>,
}

/// A report that the starter waits for.
#[derive(Debug)]
struct Due {
    running: RunningTeam,
    /// The time at which the report is sent, even if no agent has done anything yet.
    at: Instant,
}

impl HostFace {
    /// Opens the log of a run that has just started. From now on, the log gets what this process
    /// prints on stderr. Sets `is_announced` when the starter has learned that the team runs.
    ///
    /// # Errors
    /// Returns an error if the log cannot be opened.
    pub(crate) fn open(team: &Team, is_announced: Rc<Cell<bool>>) -> Result<Self, Failure> {
        let log = HostLog::open(team)?;
        log.take_stderr().map_err(Failure::internal)?;
        let (team, pid) = (team.name().to_string(), std::process::id());
        let running = RunningTeam { team, pid, log: log.path() };
        let due = Due { running, at: Instant::now() + PATIENCE };
        Ok(Self { log, due: Some(due), is_announced })
    }

    /// Handles an event of the run, after its remarks were written. As soon as the lead's model
    /// works, the starter learns that the team runs.
    ///
    /// # Errors
    /// Returns an error if the starter has ended before it learned of the run. Then nobody knows the
    /// run, so the run must end.
    pub(crate) fn happened(&mut self, event: &RunEvent) -> Result<(), Failure> {
        if is_work(event) {
            self.announce()?;
        }
        self.log.keep_bounded();
        Ok(())
    }

    /// Waits until the report must be sent. After it was sent, this function waits forever.
    pub(crate) async fn is_due(&self) {
        match &self.due {
            Some(due) => sleep_until(due.at).await,
            None => std::future::pending().await,
        }
    }

    /// Reports to the starter that the team runs, unless this was done before. From then on, the log
    /// gets all output of this process.
    ///
    /// # Errors
    /// The errors of [`Self::happened`].
    pub(crate) fn announce(&mut self) -> Result<(), Failure> {
        let Some(Due { running, .. }) = self.due.take() else { return Ok(()) };
        Report::Runs(running).send()?;
        self.is_announced.set(true);
        self.log.take_stdout().map_err(Failure::internal)
    }
}

/// Returns whether the event shows that an agent works. A run whose first request is refused, for
/// example because of a wrong key, has no such event.
fn is_work(event: &RunEvent) -> bool {
    match event {
        RunEvent::TextDelta { .. }
        | RunEvent::Answered(_)
        | RunEvent::Compacted(_)
        | RunEvent::ModelWaits { .. }
        | RunEvent::ModelSilent { .. }
        | RunEvent::PermissionAsked { .. }
        | RunEvent::PlanHandedIn { .. }
        | RunEvent::ToolStarted { .. }
        | RunEvent::ToolEnded(_)
        | RunEvent::TurnEnded { .. } => true,
        RunEvent::Started(_)
        | RunEvent::AgentStarted(_)
        | RunEvent::AgentLaunched { .. }
        | RunEvent::AgentChanged { .. }
        | RunEvent::TaskChanged { .. }
        | RunEvent::MailDelivered { .. }
        | RunEvent::PermissionAnswered { .. }
        | RunEvent::AllowedAlways { .. }
        | RunEvent::ModeChanged { .. }
        | RunEvent::ModelChanged { .. }
        | RunEvent::ModeRecorded { .. }
        | RunEvent::ShuttingDown { .. }
        | RunEvent::Warning { .. } => false,
    }
}
