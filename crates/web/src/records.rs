//! The state of a team, from its host or from its files.

use std::io::ErrorKind;
use std::time::Duration;

use pitcrew_runtime::control_socket::KnockError;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::client::{Following, FromHost, follow};
use pitcrew_view::host::HostState;
use pitcrew_view::lead::LeadError;
use pitcrew_view::recorded::of_files;
use pitcrew_view::running::Running;
use serde::Serialize;
use tokio::time::sleep;

use crate::failure::Failure;

/// How long a host may take for its first snapshot.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a reader waits before it tries again to reach a host that begins or ends.
const PAUSE: Duration = Duration::from_millis(50);

/// Where a team is and whether it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TeamStatus {
    /// A process runs the team.
    Running,
    /// Another client leads the team, and it is not known whether a process of it still runs.
    Unknown,
    /// The team is in its place, and no process runs it.
    Stopped,
    /// The team is in the archive.
    Archived,
}

impl TeamStatus {
    fn of(running: &Running) -> Self {
        match running {
            Running::ByPitcrew { .. } | Running::BySession { .. } => Self::Running,
            Running::Elsewhere { .. } | Running::Unknown => Self::Unknown,
            Running::Stale { .. } | Running::No => Self::Stopped,
        }
    }
}

/// Finds the process that runs a team. An archived team has none.
pub(crate) async fn running(records: &TeamRecords) -> Result<Option<Running>, Failure> {
    match records {
        TeamRecords::Live(team) => {
            Ok(Some(Running::of(team, team.config().await?.as_ref()).await?))
        }
        TeamRecords::Archived(..) => Ok(None),
    }
}

/// Returns where a team is and whether it runs.
pub(crate) fn status(running: Option<&Running>) -> TeamStatus {
    running.map_or(TeamStatus::Archived, TeamStatus::of)
}

/// The answer of a team's host.
#[derive(Debug)]
pub(crate) enum OfHost {
    /// The state.
    State(Box<HostState>),
    /// No pitcrew process runs the team, or it has just ended.
    NoHost,
    /// A pitcrew process runs the team and does not answer. It may be suspended.
    Silent,
}

/// Returns the state of a team: from its host if a pitcrew process runs it, else from its files.
///
/// # Errors
/// `not_running` if a pitcrew process runs the team and does not answer. The files do not know its
/// open questions, so they are not read in its place.
pub(crate) async fn state(records: &TeamRecords) -> Result<HostState, Failure> {
    match of_host(records, PATIENCE).await? {
        OfHost::State(state) => Ok(*state),
        OfHost::NoHost => Ok(of_files(records).await?),
        OfHost::Silent => Err(Failure::silent(records.config().await?.name.as_str())),
    }
}

/// Asks the host of a team for its state.
pub(crate) async fn of_host(records: &TeamRecords, patience: Duration) -> Result<OfHost, Failure> {
    let TeamRecords::Live(team) = records else { return Ok(OfHost::NoHost) };
    if !matches!(running(records).await?, Some(Running::ByPitcrew { .. })) {
        return Ok(OfHost::NoHost);
    }
    let asked = async {
        let Some(mut following) = followed(team).await? else { return Ok(OfHost::NoHost) };
        Ok(match following.next().await {
            FromHost::Snapshot(state) => OfHost::State(state),
            FromHost::Event(_) | FromHost::Gone(_) => OfHost::NoHost,
        })
    };
    match tokio::time::timeout(patience, asked).await {
        Err(_late) => Ok(OfHost::Silent),
        Ok(Err(LeadError::Unreachable { error: KnockError::Silent { .. }, .. })) => {
            Ok(OfHost::Silent)
        }
        Ok(answer) => Ok(answer?),
    }
}

/// Follows the host of a team. A host has its lease before it opens its socket, and closes the socket
/// before it gives the lease back. Meanwhile this function tries again.
async fn followed(team: &Team) -> Result<Option<Following>, LeadError> {
    loop {
        match follow(team, None).await {
            Err(LeadError::Unreachable { error, .. }) if is_passing(&error) => sleep(PAUSE).await,
            followed => return followed,
        }
    }
}

/// Whether the host begins or ends. A host that ends also breaks the connections that wait for it.
fn is_passing(error: &KnockError) -> bool {
    match error {
        KnockError::Closed { .. } => true,
        KnockError::Silent { source, .. } => source.kind() != ErrorKind::TimedOut,
        KnockError::Refused(_) => false,
    }
}
