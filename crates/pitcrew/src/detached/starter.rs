//! The starter's half of a detached run: it starts the host process, waits until the team runs, and
//! tells the user how to reach the team.

use std::cell::OnceCell;
use std::process::{ExitStatus, Stdio};

use pitcrew_runtime::run::Begin;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::order::{Order, REPORT_MOST, Report, RunningTeam};
use crate::commands::run::RunArgs;
use crate::commands::run_host;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::live::signals::{EndSignal, Signals};
use crate::output::{self, printable, shell_word};

/// The result that `run --detach` prints.
#[derive(Debug, Serialize)]
struct Answer {
    success: bool,
    #[serde(flatten)]
    running: RunningTeam,
    /// The command that shows the team.
    attach: String,
    /// The command that ends the team.
    shutdown: String,
}

/// Starts a host process for the run, and returns when the team runs. Sets `started` to the team's
/// name as soon as the team runs.
///
/// # Errors
/// Returns the error because of which the run did not start. If the user stops this command, the
/// host process ends before this function returns.
pub(crate) fn start(
    context: &Context,
    begin: Begin,
    how: RunArgs,
    started: &OnceCell<String>,
) -> Result<(), Failure> {
    let order = order_of(begin, how)?;
    let running = context.briefly(host_process(context, &order, Errors::Inherited))?;
    started.get_or_init(|| running.team.clone());
    let (root, word) = (context.root_flag(), shell_word(&running.team).into_owned());
    let answer = Answer {
        success: true,
        attach: format!("pitcrew{root} attach {word}"),
        shutdown: format!("pitcrew{root} shutdown {word}"),
        running,
    };
    context.output.answer(&answer, Answer::text)
}

/// Starts a host process for the run of a terminal interface. Returns the team's name when the team
/// runs. Warnings about the start are passed to the interface. If the future is dropped, the run does
/// not start.
///
/// # Errors
/// Returns the error because of which the run did not start.
pub(crate) async fn start_unseen(
    context: &Context,
    begin: Begin,
    how: RunArgs,
) -> Result<String, Failure> {
    let order = order_of(begin, how)?;
    Ok(host_process(context, &order, Errors::Remarks).await?.team)
}

/// Where the host process's standard error goes until the team runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errors {
    /// To the standard error of this process.
    Inherited,
    /// To the display that uses the terminal, as remarks.
    Remarks,
}

fn order_of(begin: Begin, how: RunArgs) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(&Order { begin, how }).map_err(|error| {
        Failure::usage(format!("the options cannot be passed to a process: {error}"))
    })
}

impl Answer {
    /// Returns the team's name for stdout. The rest goes to stderr, so that a script can use stdout.
    fn text(&self) -> String {
        let RunningTeam { team, pid, log } = &self.running;
        output::remark(&format!(
            "team {team} runs as process {pid}; `{}` shows it, `{}` ends it; its log is {}",
            self.attach,
            self.shutdown,
            log.display()
        ));
        printable(team).into_owned()
    }
}

/// Starts the host process and waits for its report.
async fn host_process(
    context: &Context,
    order: &[u8],
    errors: Errors,
) -> Result<RunningTeam, Failure> {
    let mut signals = Signals::listen()?;
    let mut command = command(context);
    if errors == Errors::Remarks {
        command.stderr(Stdio::piped());
    }
    let mut child = command.spawn().map_err(Failure::internal)?;
    let warnings = child.stderr.take();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let report = async {
        if let Some(mut stdin) = stdin {
            // If the host process ends before it has read the order, its exit status says more than
            // this error.
            let _is_reported_below = stdin.write_all(order).await;
        }
        report_beside(report(stdout), passed_on(warnings)).await
    };
    tokio::pin!(report);
    tokio::select! {
        report = &mut report => match report {
            Some(Report::Runs(running)) => Ok(running),
            Some(Report::Failed(document)) => Err(Failure::of_document(document)),
            None => Err(ended_early(child.wait().await.map_err(Failure::internal)?)),
        },
        signal = signals.next() => {
            end(&mut child, &mut signals).await?;
            let ran = match report.await {
                Some(Report::Runs(running)) => Some(running.team),
                Some(Report::Failed(_)) | None => None,
            };
            Err(stopped(context, signal, ran).await)
        }
    }
}

/// Returns the command that starts a host process with the settings of this command.
fn command(context: &Context) -> Command {
    let mut command = Command::new(&context.exe);
    if let Some(root) = &context.given_root {
        command.arg("--root").arg(root);
    }
    // Until the team runs, stderr is that of the starter: warnings about the start are for the user.
    command.arg(run_host::NAME).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Waits for a report, and carries out `other` until the report is there.
async fn report_beside(
    report: impl Future<Output = Option<Report>>,
    other: impl Future<Output = ()>,
) -> Option<Report> {
    tokio::pin!(report, other);
    tokio::select! {
        // What the process wrote before its report is passed on first.
        biased;
        () = &mut other => report.await,
        report = &mut report => report,
    }
}

/// Passes the lines of a host process's standard error to the display that uses the terminal.
async fn passed_on(stderr: Option<ChildStderr>) {
    let Some(stderr) = stderr else { return };
    let mut lines = BufReader::new(stderr.take(REPORT_MOST)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        output::remark(&line);
    }
}

/// Reads the report of a host process. Returns `None` if the host process ended without a report.
async fn report(stdout: Option<ChildStdout>) -> Option<Report> {
    let mut line = Vec::new();
    let mut stdout = BufReader::new(stdout?.take(REPORT_MOST));
    stdout.read_until(b'\n', &mut line).await.ok()?;
    Report::parse(&line)
}

/// Ends a host process whose team may not run yet. A second signal to this command kills it.
async fn end(child: &mut Child, signals: &mut Signals) -> Result<(), Failure> {
    send(child, Signal::TERM);
    tokio::select! {
        ended = child.wait() => return ended.map(drop).map_err(Failure::internal),
        _second = signals.next() => {}
    }
    send(child, Signal::KILL);
    child.wait().await.map(drop).map_err(Failure::internal)
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // This fails only if the process has just ended, which is the aim.
        let _sent_or_ended = kill_process(pid, signal);
    }
}

/// Builds the failure for a start that the user stopped. `ran` is the team, if it already ran.
async fn stopped(context: &Context, signal: EndSignal, ran: Option<String>) -> Failure {
    let failure = Failure::new(signal.failure(), "stopped before the team ran");
    let Some(team) = ran else { return failure };
    let is_there = match context.teams() {
        Ok(teams) => teams.open(&team).await.is_ok(),
        Err(_) => false,
    };
    match is_there {
        true => failure.hint(format!(
            "pitcrew{} run --resume {}",
            context.root_flag(),
            shell_word(&team)
        )),
        false => failure,
    }
}

/// Builds the failure for a host process that ended without a report, for example because it was
/// killed.
fn ended_early(status: ExitStatus) -> Failure {
    Failure::new(
        FailureKind::Internal,
        format!("the process of the run ended before the team ran ({status})"),
    )
}
