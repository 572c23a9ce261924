//! Retries a member's action that failed because the member was missing from the config. A member
//! goes missing when a client overwrites the config with an old copy. The process that runs the
//! member then adds the member to the config again, and the action is tried once more.

use std::time::Duration;

use futures_util::StreamExt as _;
use pitcrew_protocol::{AgentName, ApiError, ErrorCode};
use pitcrew_team::{Actor, Team};
use tokio::time::{Instant, timeout_at};

/// Maximum time to wait until a missing member is in the config again. This is long enough: the
/// process that runs the member is woken at once and only has to write one file.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// Runs `act` for a member. If `act` failed because the member was missing from the config, waits
/// until the member is there again and runs `act` once more.
///
/// # Errors
/// The error of the last try.
pub(crate) async fn as_member<T, Acting: Future<Output = Result<T, ApiError>>>(
    team: &Team,
    actor: &Actor,
    act: impl Fn() -> Acting,
) -> Result<T, ApiError> {
    match (act().await, actor) {
        (Err(error), Actor::Member(name))
            if is_missing(&error, name) && is_put_back(team, name).await =>
        {
            act().await
        }
        (done, _) => done,
    }
}

/// Returns true if the error says that this member is not in the team.
fn is_missing(error: &ApiError, name: &AgentName) -> bool {
    let subject = error.details.get("agent").and_then(|agent| agent.as_str());
    error.code == ErrorCode::AgentNotFound && subject == Some(name.as_str())
}

/// Waits until the member is in the config again. Returns false at once if the member was removed,
/// and after [`BACK_WITHIN`] if the member is still missing.
async fn is_put_back(team: &Team, name: &AgentName) -> bool {
    let deadline = Instant::now() + BACK_WITHIN;
    let Ok(mut watch) = team.watch().await else { return false };
    loop {
        match (team.config().await, team.ended_members().await) {
            (Ok(config), _) if config.member(name.as_str()).is_some() => return true,
            // The member is missing but was not removed, so the process that runs it will add it
            // again.
            (Ok(_), Ok(ended)) if !ended.contains(name) => {}
            (_, _) => return false,
        }
        if !matches!(timeout_at(deadline, watch.next()).await, Ok(Some(_))) {
            return false;
        }
    }
}
