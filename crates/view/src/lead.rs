//! Sends requests to the process that leads a team. Some actions need the signature of the lead,
//! and only that process can sign them.

use std::path::PathBuf;

use pitcrew_protocol::{ApiError, TeamName};
use pitcrew_runtime::control_socket::{
    ControlRequest, KnockError, LEAD_VERSION, PROTOCOL, control_request,
};
use pitcrew_team::Team;
use pitcrew_team::store::LeaseName;
use serde_json::Value;

use crate::error::ViewError;

/// The reason why a request to the lead of a team failed.
#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    /// The data about the team could not be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The lead of the team refused the request.
    #[error("{error}")]
    Refused {
        /// The name of the team.
        team: TeamName,
        /// The error that the lead answered.
        error: ApiError,
        /// The version of pitcrew in the lead's process, if that version does not know the request.
        /// Otherwise `None`.
        lead_version: Option<String>,
    },
    /// A process leads the team, but it does not answer.
    #[error("{error}")]
    Unreachable {
        /// The name of the team.
        team: TeamName,
        /// The id of the process that leads the team.
        pid: u32,
        /// The reason why the process could not be reached.
        error: KnockError,
    },
    /// The lead's pitcrew sends its events in a form that this version cannot read.
    #[error(
        "team {team} is run by pitcrew {version}, which speaks protocol {protocol} of the event \
         stream; this is pitcrew {own}, which speaks protocol {known}",
        own = env!("CARGO_PKG_VERSION"),
        known = PROTOCOL
    )]
    OtherProtocol {
        /// The name of the team.
        team: TeamName,
        /// The protocol of the lead's pitcrew.
        protocol: u64,
        /// The version of the lead's pitcrew.
        version: String,
    },
    /// The action needs the lead's signature, and no pitcrew process leads the team.
    #[error("{error}")]
    NeedsLead {
        /// The name of the team.
        team: TeamName,
        /// The error from the attempt to do the action without the lead.
        error: ApiError,
    },
}

/// Sends a request to the process that leads the team, and returns the answer. Returns `None` if no
/// pitcrew process leads the team. The caller then does the action without the lead.
///
/// # Errors
/// When the lead refuses the request or does not answer.
pub async fn ask(team: &Team, request: &ControlRequest) -> Result<Option<Value>, LeadError> {
    let Some((pid, folder)) = process_of(team).await? else { return Ok(None) };
    let answer = control_request(&folder, request).await;
    answer.map(Some).map_err(|error| failed(team, pid, error))
}

/// Returns the id of the pitcrew process that leads the team, and the folder of its control socket.
/// Returns `None` if no pitcrew process leads the team.
pub(crate) async fn process_of(team: &Team) -> Result<Option<(u32, PathBuf)>, LeadError> {
    let holder = team
        .lease_holder(&LeaseName::Run)
        .await
        .map_err(|source| ViewError::Store { team: team.dir().clone(), source })?;
    let holder = holder.filter(|holder| holder.verify_key.is_some());
    Ok(holder.and_then(|holder| Some((holder.pid, team.own_folder()?))))
}

/// Creates the error for a request that the process `pid` did not carry out.
pub(crate) fn failed(team: &Team, pid: u32, error: KnockError) -> LeadError {
    match error {
        KnockError::Refused(error) => refused(team, error),
        error @ (KnockError::Closed { .. } | KnockError::Silent { .. }) => {
            LeadError::Unreachable { team: team.name().clone(), pid, error }
        }
    }
}

/// Creates the error for a request that the lead of the team refused.
#[must_use]
pub fn refused(team: &Team, error: ApiError) -> LeadError {
    let lead_version = error.details.get(LEAD_VERSION).and_then(Value::as_str).map(str::to_owned);
    LeadError::Refused { team: team.name().clone(), error, lead_version }
}

/// Creates the error for an action that failed without the lead of the team.
#[must_use]
pub fn without(team: &Team, error: ApiError) -> LeadError {
    if error.details.contains_key("lead_signs") {
        LeadError::NeedsLead { team: team.name().clone(), error }
    } else {
        ViewError::Team(error).into()
    }
}
