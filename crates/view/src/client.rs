//! Follows the host of a team from another process, and sends answers and other requests to it. A
//! [`Following`] is one connection. A [`HostLink`] connects again after the host was gone.

mod host_link;

use std::io;

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, PermissionMode};
use pitcrew_runtime::control_socket::{self, ControlRequest, ENDED_BY, Notifies, PROTOCOL, Stream};
use pitcrew_runtime::run::RunPermissions;
use pitcrew_team::Team;
use serde::Deserialize;
use serde_json::Value;

use crate::asking::Chosen;
use crate::host::{HostEvent, HostState, Line, read_line};
use crate::lead::{LeadError, ask, failed, process_of};
use crate::notification::Notification;
use crate::text::{in_one_line, printable};

pub use host_link::{HostLink, News};

/// The connection to a host that sends its events.
#[derive(Debug)]
pub struct Following {
    stream: Stream,
    greeting: Greeting,
    next_seq: u64,
    unknown: u64,
    is_over: bool,
}

/// What a host sends.
#[derive(Debug)]
pub enum FromHost {
    /// The state of the host. It replaces everything that was known before. It comes first, unless
    /// the follower gave a place to go on from. It also comes if the follower was too slow, so that
    /// the host no longer has the events between.
    Snapshot(Box<HostState>),
    /// The next event.
    Event(Box<HostEvent>),
    /// The connection has ended. After [`What::Ended`](crate::host::What::Ended), this is how a
    /// host ends. Otherwise the process of the host ended or the connection broke. The error says
    /// why, if the reason is known.
    Gone(Option<io::Error>),
}

/// The place in the events of a host from which a follower goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The id of the host's run ([`Following::run`]).
    pub run: String,
    /// The number of the first event that the follower does not have ([`Following::next_seq`]).
    pub seq: u64,
}

/// The decision about the plan of a teammate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanVerdict {
    /// The teammate may carry the plan out.
    Approved,
    /// The teammate must change the plan.
    SentBack {
        /// The changes that the plan needs.
        feedback: Option<String>,
    },
}

/// What a host says about the end of its team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamEnding {
    /// When the teammates that have not left are ended, in milliseconds since 1970. `None` if the
    /// team was ending already, or if an older version runs it.
    pub ended_by_ms: Option<i64>,
}

/// The place where a person can see a pane that was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PanePlace {
    /// The name of the place, such as `the tmux session work`.
    pub place: Option<String>,
    /// The command that switches to this place, as a list of words.
    pub command: Option<Vec<String>>,
    /// True if a terminal shows this place now.
    pub is_shown: Option<bool>,
}

/// The first answer of a host to a follower.
#[derive(Debug, Deserialize)]
struct Greeting {
    protocol: u64,
    version: String,
    run: String,
    /// The number of this follower, if it offered its terminal for notifications.
    #[serde(default)]
    follower: Option<u64>,
}

/// Follows the host of a team. Without `since`, or if the host no longer has the events since then,
/// the host first sends a snapshot.
///
/// Returns `None` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses, does not answer, or speaks another protocol.
pub async fn follow(team: &Team, since: Option<Since>) -> Result<Option<Following>, LeadError> {
    follow_as(team, since, Notifies::No).await
}

/// Follows the host of a team as [`follow`] does, and offers this process's terminal for
/// notifications. [`Following::shows`] says which notifications this process shows.
///
/// Returns `None` if no pitcrew process runs the team.
///
/// # Errors
/// The errors of [`follow`].
pub async fn follow_on_terminal(
    team: &Team,
    since: Option<Since>,
) -> Result<Option<Following>, LeadError> {
    follow_as(team, since, Notifies::OnTerminal).await
}

async fn follow_as(
    team: &Team,
    since: Option<Since>,
    notifies: Notifies,
) -> Result<Option<Following>, LeadError> {
    let Some((pid, folder)) = process_of(team).await? else { return Ok(None) };
    let (seq, run) = since.map(|Since { run, seq }| (seq, run)).unzip();
    let followed = control_socket::follow(&folder, seq, run, notifies).await;
    let (answer, stream) = followed.map_err(|error| failed(team, pid, error))?;
    let mut greeting: Greeting = serde_json::from_value(answer).map_err(|error| {
        failed(team, pid, control_socket::KnockError::Silent { path: folder, source: error.into() })
    })?;
    greeting.version = printable(&greeting.version).into_owned();
    // The id becomes a line of other formats, such as that of event streams.
    greeting.run = in_one_line(&greeting.run);
    if greeting.protocol != PROTOCOL {
        let Greeting { protocol, version, .. } = greeting;
        return Err(LeadError::OtherProtocol { team: team.name().clone(), protocol, version });
    }
    let next_seq = seq.unwrap_or_default();
    Ok(Some(Following { stream, greeting, next_seq, unknown: 0, is_over: false }))
}

/// Answers a permission request that is open in the team's host.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses the answer or does not answer.
pub async fn answer(team: &Team, chosen: &Chosen) -> Result<bool, LeadError> {
    let Chosen { question, choice } = chosen;
    let request = ControlRequest::Answer {
        question: question.id.clone(),
        digest: question.question.digest().clone(),
        choice: choice.clone(),
    };
    Ok(ask(team, &request).await?.is_some())
}

/// Interrupts the current turn of the lead, or of a member that runs in the lead's process.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn interrupt(team: &Team, member: Option<&AgentName>) -> Result<bool, LeadError> {
    let request = ControlRequest::Interrupt { member: member.map(AgentName::to_string) };
    Ok(ask(team, &request).await?.is_some())
}

/// Changes the permission mode of a member.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn set_mode(
    team: &Team,
    member: &AgentName,
    mode: PermissionMode,
) -> Result<bool, LeadError> {
    let (member, mode) = (member.to_string(), mode.as_str().to_owned());
    Ok(ask(team, &ControlRequest::Mode { member, mode }).await?.is_some())
}

/// Gives a member another model, from its next model call on. A member in a process of its own
/// keeps its model, and the host refuses.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn set_model(team: &Team, member: &AgentName, model: &str) -> Result<bool, LeadError> {
    let request = ControlRequest::Model { member: member.to_string(), model: model.to_owned() };
    Ok(ask(team, &request).await?.is_some())
}

/// Asks the lead, or a member that runs in the lead's process, to replace its conversation by a
/// summary. The event `compacted` reports the result.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn compact(team: &Team, member: Option<&AgentName>) -> Result<bool, LeadError> {
    let request = ControlRequest::Compact { member: member.map(AgentName::to_string) };
    Ok(ask(team, &request).await?.is_some())
}

/// Returns the permission rules in force, and what a person has granted in this run. Returns `None`
/// if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn permissions(team: &Team) -> Result<Option<RunPermissions>, LeadError> {
    let answer = ask(team, &ControlRequest::Permissions).await?;
    answer.map(serde_json::from_value).transpose().map_err(|error| {
        let says = format!("the permissions have a form that this pitcrew does not know: {error}");
        let error = ApiError::new(ErrorCode::InternalError, says);
        LeadError::Refused { team: team.name().clone(), error, lead_version: None }
    })
}

/// Adds a teammate. `input` has the fields of the lead's own spawn tool. Returns the new member as
/// the host describes it, or `None` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses, when the teammate does not start, or when the host does not answer.
pub async fn spawn(team: &Team, input: Value) -> Result<Option<Value>, LeadError> {
    ask(team, &ControlRequest::Spawn { input }).await
}

/// Approves the plan of a teammate, or sends it back. `feedback` has the changes that the plan
/// needs.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn answer_plan(
    team: &Team,
    (request, member): (&str, &AgentName),
    verdict: PlanVerdict,
) -> Result<bool, LeadError> {
    let (approve, feedback) = match verdict {
        PlanVerdict::Approved => (true, None),
        PlanVerdict::SentBack { feedback } => (false, feedback),
    };
    let (request, member) = (request.to_owned(), member.to_string());
    let request = ControlRequest::Plan { request, member, approve, feedback };
    Ok(ask(team, &request).await?.is_some())
}

/// Asks one teammate to leave the team. The teammate may refuse.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn shut_down(
    team: &Team,
    member: &AgentName,
    reason: Option<String>,
) -> Result<bool, LeadError> {
    let request = ControlRequest::Shutdown { member: member.to_string(), reason };
    Ok(ask(team, &request).await?.is_some())
}

/// Ends one teammate at once and for good, without asking it.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn stop_member(team: &Team, member: &AgentName) -> Result<bool, LeadError> {
    let request = ControlRequest::StopMember { member: member.to_string() };
    Ok(ask(team, &request).await?.is_some())
}

/// Stops the run at once. Its teammates stay in the team, and a later run continues with them.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn stop_run(team: &Team) -> Result<bool, LeadError> {
    Ok(ask(team, &ControlRequest::StopRun).await?.is_some())
}

/// Asks every member to leave, and then ends the run. `wait_seconds` is how long the caller waits for
/// the end.
///
/// Returns `None` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn end_team(
    team: &Team,
    wait_seconds: Option<u32>,
) -> Result<Option<TeamEnding>, LeadError> {
    let answer = ask(team, &ControlRequest::EndTeam { wait_seconds }).await?;
    Ok(answer
        .map(|answer| TeamEnding { ended_by_ms: answer.get(ENDED_BY).and_then(Value::as_i64) }))
}

/// Hides the pane of a member. The member continues.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn hide_pane(team: &Team, member: &AgentName) -> Result<bool, LeadError> {
    let request = ControlRequest::HidePane { member: member.to_string() };
    Ok(ask(team, &request).await?.is_some())
}

/// Shows the hidden pane of a member again. Returns the place where a person can see it, or `None`
/// if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses or does not answer.
pub async fn show_pane(team: &Team, member: &AgentName) -> Result<Option<PanePlace>, LeadError> {
    let request = ControlRequest::ShowPane { member: member.to_string() };
    let answer = ask(team, &request).await?;
    // A host that describes the place in another way has shown the pane all the same.
    Ok(answer.map(|answer| serde_json::from_value(answer).unwrap_or_default()))
}

impl Following {
    /// Waits for the next thing from the host. After [`FromHost::Gone`], it returns `Gone` again.
    /// It is cancel-safe.
    pub async fn next(&mut self) -> FromHost {
        while !self.is_over {
            let line = match self.stream.next().await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => return self.gone(error),
            };
            match read_line(&line) {
                Ok(Line::Snapshot(state)) => {
                    self.next_seq = state.next_seq;
                    return FromHost::Snapshot(state);
                }
                Ok(Line::Event(event)) => {
                    self.next_seq = event.seq.saturating_add(1);
                    return FromHost::Event(event);
                }
                Ok(Line::Unknown(seq)) => {
                    self.unknown += 1;
                    self.next_seq = seq.map_or(self.next_seq, |seq| seq.saturating_add(1));
                }
                Err(error) => return self.gone(error.into()),
            }
        }
        self.is_over = true;
        FromHost::Gone(None)
    }

    fn gone(&mut self, error: io::Error) -> FromHost {
        self.is_over = true;
        FromHost::Gone(Some(error))
    }

    /// Returns true if this process must show a notification on its terminal. Only one follower of
    /// the host gets true.
    #[must_use]
    pub fn shows(&self, notification: &Notification) -> bool {
        self.greeting.follower.is_some() && notification.follower == self.greeting.follower
    }

    /// Returns the id of the host's run.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.greeting.run
    }

    /// Returns the version of pitcrew in the host.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.greeting.version
    }

    /// Returns the number of the first event that was not received yet.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns the place from which to follow again after the connection has ended.
    #[must_use]
    pub fn since(&self) -> Since {
        Since { run: self.greeting.run.clone(), seq: self.next_seq }
    }

    /// Returns how many lines were skipped because only a newer version knows them.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.unknown
    }
}
