//! Asking the process that leads a team for what only it can sign.

use pitcrew_protocol::ApiError;
use pitcrew_runtime::control_socket::{ControlRequest, KnockError, LEAD_VERSION, control_request};
use pitcrew_store::LeaseName;
use pitcrew_team::Team;
use serde_json::Value;

use crate::failure::{Failure, FailureKind};
use crate::output::shell_word;

/// Asks the lead of the team; `None` when no process of ours leads it, so that the caller acts for itself.
///
/// # Errors
/// What the lead refused, or that it does not answer.
pub(crate) async fn ask(team: &Team, request: &ControlRequest) -> Result<Option<Value>, Failure> {
    let holder = team.lease_holder(&LeaseName::Run).await.map_err(Failure::internal)?;
    let Some(holder) = holder.filter(|holder| holder.verify_key.is_some()) else { return Ok(None) };
    let Some(folder) = team.own_folder() else { return Ok(None) };
    match control_request(&folder, request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(KnockError::Refused(error)) => Err(refused(team, error)),
        Err(error @ (KnockError::Closed { .. } | KnockError::Silent { .. })) => {
            let hint = format!(
                "process {} leads team {} and must be asked; is it just starting, or ending?",
                holder.pid,
                team.name()
            );
            Err(Failure::new(FailureKind::Failed, error).hint(hint))
        }
    }
}

/// The failure of a request that the lead refused; a lead of another version may not know the request.
pub(crate) fn refused(team: &Team, error: ApiError) -> Failure {
    let lead = error.details.get(LEAD_VERSION).and_then(Value::as_str).map(str::to_owned);
    let failure = Failure::from(error);
    match lead {
        Some(lead) => failure.hint(format!(
            "the process that leads team {} runs pitcrew {lead}, and this is {}; the same version understands it",
            team.name(),
            env!("CARGO_PKG_VERSION")
        )),
        None => failure,
    }
}

/// The failure of an act that was tried without the lead.
pub(crate) fn without(team: &Team, error: ApiError) -> Failure {
    let needs_lead = error.details.contains_key("lead_signs");
    let failure = Failure::from(error);
    if needs_lead {
        failure.hint(format!(
            "`pitcrew run --resume {}` starts its lead again",
            shell_word(team.name().as_str())
        ))
    } else {
        failure
    }
}
