//! Follows the host of a team from another process, and sends answers to it. A [`Following`] is one
//! connection. A [`HostLink`] connects again after the host was gone.

mod host_link;

use std::io;

use pitcrew_protocol::AgentName;
use pitcrew_runtime::control_socket::{self, ControlRequest, PROTOCOL, Stream};
use pitcrew_team::Team;
use serde::Deserialize;

use crate::asking::Chosen;
use crate::host::{HostEvent, HostState, Line, read_line};
use crate::lead::{LeadError, ask, failed, process_of};
use crate::text::printable;

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

/// The first answer of a host to a follower.
#[derive(Debug, Deserialize)]
struct Greeting {
    protocol: u64,
    version: String,
    run: String,
}

/// Follows the host of a team. Without `since`, or if the host no longer has the events since then,
/// the host first sends a snapshot.
///
/// Returns `None` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses, does not answer, or speaks another protocol.
pub async fn follow(team: &Team, since: Option<Since>) -> Result<Option<Following>, LeadError> {
    let Some((pid, folder)) = process_of(team).await? else { return Ok(None) };
    let (seq, run) = since.map(|Since { run, seq }| (seq, run)).unzip();
    let followed = control_socket::follow(&folder, seq, run).await;
    let (answer, stream) = followed.map_err(|error| failed(team, pid, error))?;
    let mut greeting: Greeting = serde_json::from_value(answer).map_err(|error| {
        failed(team, pid, control_socket::KnockError::Silent { path: folder, source: error.into() })
    })?;
    greeting.version = printable(&greeting.version).into_owned();
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
