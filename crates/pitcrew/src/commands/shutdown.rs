//! `pitcrew shutdown`: ends a team that another process runs. If no process runs the team, stops
//! every process and pane that is left of the team. With `--member`, asks one member to shut down.

use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_process::identity::{ProcessIdentity, Signalled, Stopped};
use pitcrew_process::job::are_started_by_a_tool_of;
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, LEAD_NAME, SendMessageInput};
use pitcrew_runtime::control_socket::{ControlRequest, ENDING, KnockError, control_request};
use pitcrew_team::store::LeaseName;
use pitcrew_team::{Actor, SentView, SpawnRecord, Team, team_of};
use pitcrew_view::lead;
use pitcrew_view::member_status::MemberStatus;
use pitcrew_view::orphans::{Orphans, StoppedView};
use pitcrew_view::running::Running;
use rustix::process::Signal;
use serde::Serialize;
use serde_json::{Value, json};

use crate::completing;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::hosting::recorded::recorded_panes;
use crate::output::{printable, shell_word};
use crate::selection::{self, Purpose, TeamWord};

/// How long a process has to end after SIGTERM with `--force`. Then the process is killed.
const FORCE_GRACE: Duration = Duration::from_secs(3);

/// Shut a team down: ask the process that runs it, and wait for its end
///
/// Every teammate is asked to leave the team and gets time to do so. The team stays on disk, with
/// its lead, tasks and messages, and `pitcrew run --resume` goes on with it. To stop a run and keep
/// its teammates, press Ctrl-C where it runs, or use --force. If no process runs the team,
/// teammates that still run in processes and panes of their own are stopped. With --member, the
/// lead asks that teammate only, and the command does not wait for it, because the teammate may
/// have reasons to continue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew shutdown backend
  pitcrew shutdown backend --force      what hangs is stopped too
  pitcrew shutdown backend --member bob --reason \"the parser is done\"")]
pub(crate) struct Shutdown {
    #[command(flatten)]
    team: TeamWord,
    /// How long to wait for the end; the teammates get 5 s less to leave, but at least 20 s
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,
    /// Do not ask: stop all processes of the team, with SIGTERM and a moment later with SIGKILL,
    /// and close its panes
    #[arg(long, alias = "kill")]
    force: bool,
    /// Ask only this member to shut down
    #[arg(long, value_name = "NAME", conflicts_with_all = ["wait", "force"], add = ArgValueCompleter::new(completing::members))]
    member: Option<String>,
    /// The reason that the member named by --member is given
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    success: bool,
    message: String,
    /// The id of the process that ran the team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// The members that are still in the team. A later run can resume them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<AgentName>,
    /// The teammates, processes and panes that were stopped. The lead's process is not in this
    /// list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stopped: Vec<StoppedView>,
}

impl Shutdown {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(member) = self.member {
            return context.briefly(ask(context, self.team.name(), member, self.reason));
        }
        if self.reason.is_some() {
            return Err(Failure::usage("--reason is for one member, which --member names"));
        }
        let answer = context.briefly(self.end(context))?;
        context.output.answer(&answer, Answer::text)?;
        if answer.success { Ok(()) } else { Err(Failure::told(FailureKind::Failed)) }
    }

    async fn end(&self, context: &Context) -> Result<Answer, Failure> {
        let team = selection::open(context, self.team.name(), Purpose::Change).await?;
        let lead = self.end_lead(&team).await?;
        // How long the remaining processes get to end. If a lead ran the team until now, it has
        // already given its teammates time to end, so the processes get only a short time. With
        // `--force`, the time is short too.
        let term = if self.force || lead.is_some() { FORCE_GRACE } else { self.patience() };
        let stopped = match team.is_gone().await {
            true => Vec::new(),
            false => match Orphans::of(&team, recorded_panes(context)).stop(term).await {
                // The lead is able to delete its team at any time. In that case the team's records
                // are gone.
                Err(_) if team.is_gone().await => Vec::new(),
                stopped => stopped?,
            },
        };
        if lead.is_none() && stopped.is_empty() {
            return Err(nobody_to_end(context, &team).await?);
        }
        let members = left_in(&team).await;
        let is_gone = stopped.iter().all(|it| it.is_gone);
        let was_ended =
            self.force || lead.as_ref().is_none_or(LeadEnd::ends_team) || members.is_empty();
        let message = match is_gone {
            true => context.with_root_flag(&ended_so(&team, lead.as_ref(), &members, was_ended)),
            false => format!("something of team {} still runs", team.name()),
        };
        let pid = lead.map(|lead| lead.pid);
        Ok(Answer { success: is_gone && was_ended, message, pid, members, stopped })
    }

    /// Ends the process that runs the team. Returns how the process ended, or `None` if no process
    /// runs the team.
    async fn end_lead(&self, team: &Team) -> Result<Option<LeadEnd>, Failure> {
        let holder = team.lease_holder(&LeaseName::Run).await.map_err(Failure::internal)?;
        let Some(process) = holder.as_ref().map(|holder| ProcessIdentity::from(holder.process()))
        else {
            return Ok(None);
        };
        // An agent must not kill its own run. If a tool of an agent of this run started this
        // command, the command fails.
        if self.force && is_agents(process) {
            let said = "a tool of an agent started this, and agents ask their lead by mail";
            return Err(ApiError::new(ErrorCode::PermissionDenied, said).into());
        }
        let answer = if self.force { None } else { asked(team, self.wait).await? };
        let is_asked = answer.is_some();
        // With `--force` the lead was not asked to end, and without `--force` the lead possibly
        // could not be asked. In both cases this process sends the lead SIGINT, the signal of
        // Ctrl-C.
        if !is_asked && signal(process)? == Signalled::Gone {
            return Ok(None);
        }
        if self.force {
            // This is the second SIGINT. On the second SIGINT, the lead kills the processes that it
            // started. If the lead hangs, the code below kills the lead.
            let _gone_or_sent = signal(process)?;
            let ended = tokio::time::timeout(FORCE_GRACE, process.ended()).await;
            if ended.is_err() && process.stop(FORCE_GRACE).await == Stopped::StillRunning {
                let said =
                    format!("process {} of team {} cannot be killed", process.pid, team.name());
                return Err(Failure::new(FailureKind::Failed, said));
            }
        } else if tokio::time::timeout(self.patience(), process.ended()).await.is_err() {
            let said = format!(
                "process {} still runs team {} after {} s",
                process.pid,
                team.name(),
                self.wait
            );
            return Err(Failure::new(FailureKind::Failed, said)
                .hint("--force does not wait for the agents"));
        }
        let ending = answer
            .as_ref()
            .and_then(|answer| answer.get(ENDING))
            .and_then(Value::as_str)
            .map(str::to_owned);
        Ok(Some(LeadEnd { pid: process.pid, is_asked, ending }))
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

/// How the process that ran the team ended.
struct LeadEnd {
    pid: u32,
    /// Whether this command asked the lead to end the team. Otherwise a signal stopped the lead.
    is_asked: bool,
    /// The reason why the lead was already ending its run when this command asked it. `None` if the
    /// lead was not ending its run yet.
    ending: Option<String>,
}

impl LeadEnd {
    /// Returns whether the lead asked its teammates to leave the team.
    fn ends_team(&self) -> bool {
        self.is_asked && self.ending.is_none()
    }
}

/// Describes the result for the user when all processes of the team have ended.
fn ended_so(team: &Team, lead: Option<&LeadEnd>, members: &[AgentName], was_ended: bool) -> String {
    let name = team.name();
    let names: Vec<&str> = members.iter().map(AgentName::as_str).collect();
    let goes_on = format!("`pitcrew run --resume {}` goes on with them", shell_word(name.as_str()));
    let ending = lead.and_then(|lead| lead.ending.as_ref());
    match (ending, was_ended) {
        (None, true) if members.is_empty() => format!("team {name} is shut down"),
        (Some(ending), true) if members.is_empty() => {
            format!("team {name} was ending already, and has ended: {ending}")
        }
        (_, true) => {
            format!("team {name} runs no more; still in it: {}; {goes_on}", names.join(", "))
        }
        (Some(ending), false) => {
            let said = format!(
                "the run of team {name} was ending already ({ending}), and its teammates were not asked to leave"
            );
            format!("{said}; still in it: {}; {goes_on}", names.join(", "))
        }
        (None, false) => {
            let said = format!(
                "the run of team {name} could not be asked, and it has ended; its teammates were not asked to leave"
            );
            format!("{said}; still in it: {}; {goes_on}", names.join(", "))
        }
    }
}

/// Returns the teammates that pitcrew started and that are still in the team. The list is empty if
/// the team no longer exists.
async fn left_in(team: &Team) -> Vec<AgentName> {
    let Ok(config) = team.config().await else { return Vec::new() };
    config
        .teammates()
        .filter(|member| SpawnRecord::of(member).is_some())
        .map(|member| member.name.clone())
        .collect()
}

/// Builds the error for a team of which no process runs, so that nothing can be ended.
async fn nobody_to_end(context: &Context, team: &Team) -> Result<Failure, Failure> {
    if team.is_gone().await {
        // The team was deleted or archived after this command had opened the team. Opening the team
        // again fails, and that error says where the team is now.
        return Ok(
            match selection::open(context, Some(team.name().as_str()), Purpose::Change).await {
                Err(failure) => failure,
                Ok(_) => Failure::new(
                    FailureKind::Conflict,
                    format!("team {} was made anew just now", team.name()),
                ),
            },
        );
    }
    let config = team.config().await?;
    let running = Running::of(team, &config).await?;
    let all = MemberStatus::of(team, &config, &running).await?;
    let said = match &running {
        Running::No | Running::ByPitcrew { .. } => {
            format!("no process runs team '{}'", team.name())
        }
        Running::BySession { .. }
        | Running::Stale { .. }
        | Running::Elsewhere { .. }
        | Running::Unknown => {
            format!(
                "team '{}' is {}; no run of pitcrew started any of it",
                team.name(),
                running.text()
            )
        }
    };
    let error =
        ApiError::new(ErrorCode::InvalidStatus, said).with("team_name", team.name().as_str());
    let failure = Failure::from(error);
    let alive =
        all.iter().filter(|it| it.runs() && !it.name().as_str().eq_ignore_ascii_case(LEAD_NAME));
    let alive: Vec<String> = alive
        .map(|it| {
            it.pid().map_or_else(
                || it.name().to_string(),
                |pid| format!("{} as process {pid}", it.name()),
            )
        })
        .collect();
    let failure = match alive.is_empty() {
        true => failure,
        false => failure.hint(format!("these run: {}", printable(&alive.join(", ")))),
    };
    Ok(match running {
        Running::BySession { .. } | Running::Elsewhere { .. } | Running::Unknown => {
            failure.hint("the client that leads it can end it")
        }
        Running::No | Running::ByPitcrew { .. } | Running::Stale { .. } => failure,
    })
}

/// Asks the lead to end its team, and returns the lead's answer. Returns `None` if the lead cannot
/// be asked. The caller then stops the lead by a signal.
async fn asked(team: &Team, wait_seconds: u32) -> Result<Option<Value>, Failure> {
    let Some(folder) = team.own_folder() else { return Ok(None) };
    match control_request(&folder, &ControlRequest::EndTeam { wait_seconds: Some(wait_seconds) })
        .await
    {
        Ok(answer) => Ok(Some(answer)),
        // An agent started this command, so the lead refused the request. The error has no hint
        // about `--force`, because an agent must not learn how to end its own run.
        Err(KnockError::Refused(error)) if error.code == ErrorCode::PermissionDenied => {
            Err(lead::refused(team, error).into())
        }
        Err(KnockError::Refused(error)) => {
            Err(Failure::from(lead::refused(team, error)).hint("--force asks nobody"))
        }
        Err(KnockError::Closed { .. } | KnockError::Silent { .. }) => Ok(None),
    }
}

/// Asks one member to shut down. The process of the lead sends this request, because the lead must
/// sign it. If no pitcrew process leads the team, this command sends the request itself.
async fn ask(
    context: &Context,
    team: Option<&str>,
    member: String,
    reason: Option<String>,
) -> Result<(), Failure> {
    let team = selection::open(context, team.or_else(|| team_of(&member)), Purpose::Change).await?;
    let said = format!("{member} is asked to shut down");
    let request = ControlRequest::Shutdown { member: member.clone(), reason: reason.clone() };
    let answer = match lead::ask(&team, &request).await? {
        Some(answer) => answer,
        None => {
            let input = SendMessageInput::ShutdownRequest { recipient: member, content: reason };
            let sent = team.send(&Actor::User, input, None).await;
            let config = team.config().await?;
            let is_led_here =
                matches!(Running::of(&team, &config).await?, Running::BySession { .. });
            let failed = |error: ApiError| match Failure::from(lead::without(&team, error)) {
                failure if is_led_here => failure.hint("ask for it in that session itself"),
                failure => failure,
            };
            json!(SentView(&sent.map_err(failed)?))
        }
    };
    context.output.answer(&answer, |_| said)
}

/// Returns whether a tool of an agent that runs in `process` started the current pitcrew command.
/// Returns `false` if this cannot be found out.
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
