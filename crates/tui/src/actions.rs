//! Carries out the actions that reach the team: requests to its host, messages, and reads of its
//! files.

mod ending;
mod requests;

use std::error::Error;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, LocalBoxFuture};
use pitcrew_protocol::{AgentName, MessageId, PermissionMode, SendMessageInput};
use pitcrew_team::store::LogName;
use pitcrew_team::{Actor, Team, TeamRecords};
use pitcrew_view::asking::Chosen;
use pitcrew_view::changes::{self, MemberChanges, Worktrees};
use pitcrew_view::client;
use pitcrew_view::conversation::Conversation;
use pitcrew_view::lead::LeadError;
use pitcrew_view::text::printable;

use crate::app::{Done, Request};

/// About how many bytes of a transcript are read. A conversation has far fewer on most days, and more
/// would take too long to lay out again after each tool call.
const TRANSCRIPT_BYTES: u64 = 1024 * 1024;

/// How long the teammates get to leave when the user ends the team.
const LEAVE_SECONDS: u32 = 60;

/// How long a request to the host waits for its answer before the user learns of the wait.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// Why a request could not be carried out, if there is no host.
const NO_HOST: &str = "no process runs the team";

/// An action that reaches the team.
#[derive(Debug)]
pub(crate) enum Outside {
    /// Answer a permission request.
    Answer(Box<Chosen>),
    /// Send a message of the user.
    Send {
        /// The receiver.
        to: AgentName,
        /// The text.
        text: String,
    },
    /// Interrupt the turn of an agent.
    Interrupt(AgentName),
    /// Change the permission mode of an agent.
    ChangeMode {
        /// The agent.
        member: AgentName,
        /// The new mode.
        mode: PermissionMode,
    },
    /// Give an agent another model.
    ChangeModel {
        /// The agent.
        member: AgentName,
        /// The name of the new model.
        model: String,
    },
    /// Replace the conversation of an agent by a summary.
    Compact(AgentName),
    /// Make a request to the host.
    Request(Request),
    /// Ask every teammate to leave, and end the team.
    EndTeam,
    /// Stop the run at once.
    StopRun,
    /// Read from the team's records how its last run ended.
    ReadEnd,
    /// Read the end of an agent's transcript.
    Read(AgentName),
    /// Read what each member of the team has changed.
    ReadChanges(Worktrees),
    /// Read both versions of a changed file.
    ReadVersions {
        /// The changes of the member.
        changes: Box<MemberChanges>,
        /// The file.
        file: String,
        /// The worktrees of the team.
        worktrees: Worktrees,
    },
    /// Merge the changes of a member.
    Merge(Box<MemberChanges>, Worktrees),
}

impl Outside {
    /// Whether the action is a request to the host, which answers at once if nothing is wrong.
    fn is_request(&self) -> bool {
        match self {
            Self::Answer(_)
            | Self::Interrupt(_)
            | Self::ChangeMode { .. }
            | Self::ChangeModel { .. }
            | Self::Compact(_)
            | Self::Request(
                Request::Permissions | Request::AnswerPlan { .. } | Request::ShutDown(_),
            )
            | Self::EndTeam
            | Self::StopRun => true,
            Self::Request(
                // A teammate and a pane take a while to start.
                Request::Spawn { .. }
                | Request::ShowPane(_)
                | Request::HidePane(_)
                | Request::Plans,
            )
            | Self::Send { .. }
            | Self::ReadEnd
            | Self::Read(_)
            | Self::ReadChanges(_)
            | Self::ReadVersions { .. }
            | Self::Merge(..) => false,
        }
    }
}

/// What there is to report about an action.
pub(crate) enum Progress<'a> {
    /// The action was carried out.
    Done(Done),
    /// The host has not answered yet. The future returns the result.
    Slow(LocalBoxFuture<'a, Done>),
}

/// Carries out an action. If a request to the host gets no answer for a while, this function returns
/// the rest of the work, so that the user learns of the wait.
pub(crate) async fn begin<'a>(team: Team, action: Outside) -> Progress<'a> {
    if !action.is_request() {
        return Progress::Done(done(team, action).await);
    }
    let work = done(team, action).boxed_local();
    match futures_util::future::select(work, Box::pin(tokio::time::sleep(SLOW_AFTER))).await {
        Either::Left((done, _)) => Progress::Done(done),
        Either::Right(((), work)) => Progress::Slow(work),
    }
}

/// Carries out an action, and returns its result.
async fn done(team: Team, action: Outside) -> Done {
    match action {
        Outside::Answer(chosen) => {
            let result = of_host(client::answer(&team, &chosen).await);
            Done::Answered { chosen, result }
        }
        Outside::Send { to, text } => {
            let result = sent(&team, &to, &text).await;
            Done::Sent { to, text, result }
        }
        Outside::Interrupt(agent) => {
            let member = (agent != AgentName::lead()).then_some(&agent);
            Done::Told(match of_host(client::interrupt(&team, member).await) {
                Ok(()) => format!("you interrupt {agent}"),
                Err(reason) => format!("not interrupted: {reason}"),
            })
        }
        Outside::ChangeMode { member, mode } => {
            Done::Told(match of_host(client::set_mode(&team, &member, mode).await) {
                Ok(()) => format!("{member} is now in mode {mode}"),
                Err(reason) => format!("the mode of {member} is not changed: {reason}"),
            })
        }
        Outside::ChangeModel { member, model } => {
            Done::Told(match of_host(client::set_model(&team, &member, &model).await) {
                // The event of the change says it.
                Ok(()) => format!("{member} gets the model {}", printable(&model)),
                Err(reason) => format!("the model of {member} is not changed: {reason}"),
            })
        }
        Outside::Compact(agent) => {
            let member = (agent != AgentName::lead()).then_some(&agent);
            Done::Told(match of_host(client::compact(&team, member).await) {
                Ok(()) => format!("{agent}'s conversation is being summarised"),
                Err(reason) => format!("{agent}'s conversation is not summarised: {reason}"),
            })
        }
        Outside::Request(request) => requests::done(&team, request).await,
        Outside::EndTeam => {
            let ending = client::end_team(&team, Some(LEAVE_SECONDS)).await;
            Done::Ending(match ending {
                Ok(Some(ending)) => Ok(ending),
                Ok(None) => Err(NO_HOST.to_owned()),
                Err(error) => Err(chain(&error)),
            })
        }
        Outside::StopRun => Done::Stopping(of_host(client::stop_run(&team).await)),
        Outside::ReadEnd => ending::of_last_run(&team).await,
        Outside::Read(agent) => {
            let recorded = recorded(&team, &agent).await;
            Done::Read { agent, recorded }
        }
        Outside::ReadChanges(worktrees) => {
            let all = changes::of_team(&TeamRecords::Live(team), &worktrees).await;
            let changed = |all: Vec<MemberChanges>| all.into_iter().filter(MemberChanges::is_any);
            Done::Changes(all.map(|all| changed(all).collect()).map_err(|error| chain(&error)))
        }
        Outside::ReadVersions { changes, file, worktrees } => {
            let result = changes::versions(&changes, &file, &worktrees).await;
            let result = result.map_err(|error| chain(&error));
            Done::Versions { author: changes.author, file, result }
        }
        Outside::Merge(changes, worktrees) => {
            let result = changes::accept(&team, &changes, &worktrees).await;
            let result = result.map_err(|error| chain(&error));
            Done::Merged { author: changes.author, result }
        }
    }
}

/// Returns the result of a request. A request is not carried out if there is no host.
fn of_host(result: Result<bool, LeadError>) -> Result<(), String> {
    match result {
        Ok(true) => Ok(()),
        Ok(false) => Err(NO_HOST.to_owned()),
        Err(error) => Err(chain(&error)),
    }
}

async fn sent(team: &Team, to: &AgentName, text: &str) -> Result<MessageId, String> {
    let (recipient, content) = (to.to_string(), text.to_owned());
    let message = SendMessageInput::Message { recipient, content, summary: None };
    let sent = team.send(&Actor::User, message, None).await.map_err(|error| chain(&error))?;
    let receipt = sent.receipts.into_iter().next();
    receipt.map(|receipt| receipt.id).ok_or_else(|| "it has no receiver".to_owned())
}

/// Returns the end of an agent's transcript. Returns `None` if it cannot be read.
async fn recorded(team: &Team, agent: &AgentName) -> Option<Conversation> {
    let log = LogName::Transcript(agent.clone());
    let lines = match team.log_end(&log, TRANSCRIPT_BYTES).await {
        Ok(lines) => lines,
        // A completed team has gone into the archive.
        Err(_no_team) => archived(team, agent).await?,
    };
    Conversation::of_transcript(&lines).ok()
}

/// Returns the end of an agent's transcript from the newest archive of the team.
async fn archived(team: &Team, agent: &AgentName) -> Option<Vec<String>> {
    let mut lines = newest_archive(team).await?.transcript(agent).await.ok()?;
    let mut bytes = 0;
    let fits = |line: &&String| {
        bytes += line.len() as u64;
        bytes <= TRANSCRIPT_BYTES
    };
    let kept = lines.iter().rev().take_while(fits).count();
    Some(lines.split_off(lines.len() - kept))
}

/// Returns the newest archive of the team.
async fn newest_archive(team: &Team) -> Option<TeamRecords> {
    let teams = team.teams();
    let archived = teams.find_archived(team.name().as_str()).await.ok()??;
    Some(TeamRecords::Archived(teams.clone(), Box::new(archived)))
}

/// Joins the texts of an error and of its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = format!(": {error}");
        if !text.ends_with(&more) {
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
