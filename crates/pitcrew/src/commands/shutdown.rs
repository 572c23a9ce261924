//! `pitcrew shutdown`: ends a team that another process runs, and whatever is left of one that nobody runs; or one member.

use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{ApiError, ErrorCode, SendMessageInput};
use pitcrew_runtime::door::{Knock, KnockError, knock};
use pitcrew_runtime::identity::{ProcessIdentity, Signalled, Stopped};
use pitcrew_runtime::process::are_started_by_a_tool_of;
use pitcrew_store::{LeaseName, StoreError};
use pitcrew_team::{Actor, SentView, Team};
use rustix::process::Signal;
use serde::Serialize;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::lead;
use crate::leftovers::{Leftovers, StoppedView};
use crate::selection::{self, Purpose, TeamWord};

/// How long what is forced has to heed TERM before it is killed.
const FORCE_GRACE: Duration = Duration::from_secs(3);

/// Shut a team down: ask the process that runs it, and wait for its end
///
/// Every teammate is asked to leave the team and is given time to. The team stays on disk, with its lead, tasks and messages, and
/// `pitcrew run --resume` goes on with it. To stop a run and keep its teammates, press Ctrl-C where it runs, or use --force.
/// When no process runs the team, its teammates that still wait for one in processes and panes of their own are stopped.
/// With --member one teammate is asked, through its lead, and not waited for: it may have reasons to go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew shutdown backend
  pitcrew shutdown backend --force      what hangs is stopped too
  pitcrew shutdown backend --member bob")]
pub(crate) struct Shutdown {
    #[command(flatten)]
    team: TeamWord,
    /// How long to wait for the end; the teammates have all of it but 5 s to leave, and 20 s at least
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,
    /// Ask nobody: stop all that runs for the team, TERM first and KILL a moment later, and close its panes
    #[arg(long, alias = "kill")]
    force: bool,
    /// Ask this member only
    #[arg(long, value_name = "NAME", conflicts_with_all = ["wait", "force"], add = ArgValueCompleter::new(completing::members))]
    member: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    success: bool,
    message: String,
    /// The process that ran the team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// What else was stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stopped: Vec<StoppedView>,
}

impl Shutdown {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(member) = self.member {
            return context.briefly(ask(context, self.team.name(), member));
        }
        let answer = context.briefly(self.end(context))?;
        context.output.answer(&answer, Answer::text)?;
        if answer.success { Ok(()) } else { Err(Failure::told(FailureKind::Failed)) }
    }

    async fn end(&self, context: &Context) -> Result<Answer, Failure> {
        let team = selection::open(context, self.team.name(), Purpose::Change).await?;
        let pid = self.end_lead(&team).await?;
        let term = if self.force || pid.is_some() { FORCE_GRACE } else { self.patience() };
        let stopped = match still_there(&team).await? {
            true => Leftovers::of(context, &team).stop(term).await?,
            false => Vec::new(),
        };
        if pid.is_none() && stopped.is_empty() {
            let said = format!("no process runs team '{}'", team.name());
            return Err(ApiError::new(ErrorCode::InvalidStatus, said).with("team_name", team.name().as_str()).into());
        }
        let success = stopped.iter().all(|it| it.is_gone);
        let message = match success {
            true => format!("team {} is shut down", team.name()),
            false => format!("something of team {} still runs", team.name()),
        };
        Ok(Answer { success, message, pid, stopped })
    }

    /// Ends the process that runs the team, and says which that was; nothing when there is none.
    async fn end_lead(&self, team: &Team) -> Result<Option<u32>, Failure> {
        let holder = team.backend().lease_holder(team.dir(), &LeaseName::Run).await.map_err(Failure::internal)?;
        let Some(process) = holder.as_ref().map(ProcessIdentity::from) else { return Ok(None) };
        if self.force && is_agents(process) {
            let said = "a tool of an agent started this, and agents ask their lead by mail";
            return Err(ApiError::new(ErrorCode::PermissionDenied, said).into());
        }
        let is_asked = !self.force && is_asked(team, self.wait).await?;
        if !is_asked && signal(process)? == Signalled::Gone {
            return Ok(None);
        }
        if self.force {
            // The second one lets it kill what it owns, which it knows best; what hangs is stopped from here.
            let _gone_or_sent = signal(process)?;
            let ended = tokio::time::timeout(FORCE_GRACE, process.ended()).await;
            if ended.is_err() && process.stop(FORCE_GRACE).await == Stopped::StillRunning {
                let said = format!("process {} of team {} cannot be killed", process.pid, team.name());
                return Err(Failure::new(FailureKind::Failed, said));
            }
        } else if tokio::time::timeout(self.patience(), process.ended()).await.is_err() {
            let said = format!("process {} still runs team {} after {} s", process.pid, team.name(), self.wait);
            return Err(Failure::new(FailureKind::Failed, said).hint("--force does not wait for the agents"));
        }
        Ok(Some(process.pid))
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

/// Asks the lead to end its team; whether it could be asked. One that cannot be is stopped by a signal.
async fn is_asked(team: &Team, wait_seconds: u32) -> Result<bool, Failure> {
    let Some(folder) = team.backend().own_folder(team.dir()) else { return Ok(false) };
    match knock(&folder, &Knock::EndTeam { wait_seconds: Some(wait_seconds) }).await {
        Ok(_) => Ok(true),
        // An agent is not told how to end its own run.
        Err(KnockError::Refused(error)) if error.code == ErrorCode::PermissionDenied => Err(lead::refused(team, error)),
        Err(KnockError::Refused(error)) => Err(lead::refused(team, error).hint("--force asks nobody")),
        Err(KnockError::Closed { .. } | KnockError::Silent { .. }) => Ok(false),
    }
}

/// Asks one member to shut down: through the lead's process, or where no lead of ours signs, for ourselves.
async fn ask(context: &Context, team: Option<&str>, member: String) -> Result<(), Failure> {
    let team = selection::open(context, team, Purpose::Change).await?;
    let said = format!("{member} is asked to shut down");
    let request = Knock::Shutdown { member: member.clone(), reason: None };
    let answer = match lead::ask(&team, &request).await? {
        Some(answer) => answer,
        None => {
            let input = SendMessageInput::ShutdownRequest { recipient: member, content: None };
            let sent = team.send(&Actor::User, input, None).await;
            json!(SentView(&sent.map_err(|error| lead::without(&team, error))?))
        }
    };
    context.output.answer(&answer, |_| said)
}

/// Whether the team is still there; a lead may have deleted it when it ended.
async fn still_there(team: &Team) -> Result<bool, Failure> {
    match team.backend().team(team.dir()).await {
        Err(StoreError::NoTeam { .. }) => Ok(false),
        Ok(_) | Err(_) => Ok(true),
    }
}

/// Whether a command of an agent of the process asks. Where that cannot be told, it is the user.
pub(crate) fn is_agents(process: ProcessIdentity) -> bool {
    are_started_by_a_tool_of(process).unwrap_or(false)
}

fn signal(process: ProcessIdentity) -> Result<Signalled, Failure> {
    process.signal(Signal::INT).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => FailureKind::Denied,
            _ => FailureKind::Internal,
        };
        Failure::new(kind, format!("cannot signal {process}: {error}"))
    })
}

impl Answer {
    fn text(&self) -> String {
        let lines = self.stopped.iter().map(StoppedView::line);
        lines.chain([self.message.clone()]).collect::<Vec<_>>().join("\n")
    }
}
