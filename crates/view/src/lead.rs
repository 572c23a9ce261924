//! Sends requests to the process that leads a team, for actions that only the lead can sign.

use pitcrew_protocol::{ApiError, TeamName};
use pitcrew_runtime::control_socket::{ControlRequest, KnockError, LEAD_VERSION, control_request};
use pitcrew_team::Team;
use pitcrew_team::store::LeaseName;
use serde_json::Value;

use crate::error::ViewError;

/// The reason why a request to the lead of a team failed.
#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    /// The data about the team cannot be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The lead refused the request.
    #[error("{error}")]
    Refused {
        /// The name of the team.
        team: TeamName,
        /// The lead's answer.
        error: ApiError,
        /// The version of pitcrew that the lead runs, if that version does not know the request.
        lead_version: Option<String>,
    },
    /// A process leads the team and does not answer.
    #[error("{error}")]
    Unreachable {
        /// The name of the team.
        team: TeamName,
        /// The id of the process that leads the team.
        pid: u32,
        /// The reason why the process could not be reached.
        error: KnockError,
    },
    /// Only the lead of the team can sign this action, and no pitcrew process leads the team.
    #[error("{error}")]
    NeedsLead {
        /// The name of the team.
        team: TeamName,
        /// The error of the refused action.
        error: ApiError,
    },
}

/// Sends a request to the process that leads the team, and returns the answer. Returns `None` if no
/// pitcrew process leads the team. Then the caller acts without the lead.
///
/// # Errors
/// When the lead refuses the request or does not answer.
pub async fn ask(team: &Team, request: &ControlRequest) -> Result<Option<Value>, LeadError> {
    let holder = team
        .lease_holder(&LeaseName::Run)
        .await
        .map_err(|source| ViewError::Store { team: team.dir().clone(), source })?;
    let Some(holder) = holder.filter(|holder| holder.verify_key.is_some()) else { return Ok(None) };
    let Some(folder) = team.own_folder() else { return Ok(None) };
    match control_request(&folder, request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(KnockError::Refused(error)) => Err(refused(team, error)),
        Err(error @ (KnockError::Closed { .. } | KnockError::Silent { .. })) => {
            Err(LeadError::Unreachable { team: team.name().clone(), pid: holder.pid, error })
        }
    }
}

/// Creates the error for a request that the lead refused.
#[must_use]
pub fn refused(team: &Team, error: ApiError) -> LeadError {
    let lead_version = error.details.get(LEAD_VERSION).and_then(Value::as_str).map(str::to_owned);
    LeadError::Refused { team: team.name().clone(), error, lead_version }
}

/// Creates the error for an action that was tried without the lead.
#[must_use]
pub fn without(team: &Team, error: ApiError) -> LeadError {
    if error.details.contains_key("lead_signs") {
        LeadError::NeedsLead { team: team.name().clone(), error }
    } else {
        ViewError::Team(error).into()
    }
}
