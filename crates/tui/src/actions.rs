//! Carries out the actions that reach the team: requests to its host, messages, and reads of its
//! files.

mod requests;

use std::error::Error;

use pitcrew_protocol::{AgentName, MessageId, PermissionMode, SendMessageInput};
use pitcrew_runtime::control_socket::ControlRequest;
use pitcrew_team::store::LogName;
use pitcrew_team::{Actor, Team, TeamRecords};
use pitcrew_view::asking::Chosen;
use pitcrew_view::changes::{self, MemberChanges, Worktrees};
use pitcrew_view::conversation::Conversation;
use pitcrew_view::lead::LeadError;
use pitcrew_view::text::printable;
use pitcrew_view::{client, lead};

use crate::app::{Done, Request};

/// About how many bytes of a transcript are read. A conversation has far fewer on most days, and more
/// would take too long to lay out again after each tool call.
const TRANSCRIPT_BYTES: u64 = 1024 * 1024;

/// How long the teammates get to leave when the user ends the team.
const LEAVE_SECONDS: u32 = 60;

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

/// Carries out an action, and returns its result.
pub(crate) async fn done(team: Team, action: Outside) -> Done {
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
            let request = ControlRequest::EndTeam { wait_seconds: Some(LEAVE_SECONDS) };
            Done::Ending(asked(&team, &request).await)
        }
        Outside::Read(agent) => {
            let recorded = recorded(&team, &agent).await;
            Done::Read { agent, recorded }
        }
        Outside::ReadChanges(worktrees) => {
            let all = changes::of_team(&TeamRecords::Live(team), &worktrees).await;
            Done::Changes(all.map_err(|error| chain(&error)))
        }
        Outside::ReadVersions { changes, file, worktrees } => {
            let result = changes::versions(&changes, &file, &worktrees).await;
            let result = result.map_err(|error| chain(&error));
            Done::Versions { author: changes.author, file, result }
        }
        Outside::Merge(changes, worktrees) => {
            let result = changes::accept(&changes, &worktrees).await;
            let result = result.map_err(|error| chain(&error));
            Done::Merged { author: changes.author, result }
        }
    }
}

async fn asked(team: &Team, request: &ControlRequest) -> Result<(), String> {
    of_host(lead::ask(team, request).await.map(|answer| answer.is_some()))
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
    let lines = team.log_end(&log, TRANSCRIPT_BYTES).await.ok()?;
    Conversation::of_transcript(&lines).ok()
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
