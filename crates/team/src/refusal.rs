//! Builds the API errors of operations. Each error has the details that the caller needs to correct
//! the call.

use std::collections::BTreeSet;
use std::time::Duration;

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, FORMAT_VERSION, NameError, Rate, TeamConfig, counted, nearest,
};
use pitcrew_store::StoreError;

/// The error for malformed input.
pub(crate) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

/// The error for a call that the caller is not allowed to make.
pub(crate) fn denied(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::PermissionDenied, message)
}

/// The error for a call that does not fit the current state.
pub(crate) fn wrong_state(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidStatus, message)
}

/// The error for a failure in a lower layer, such as the store.
pub(crate) fn internal(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InternalError, message)
}

/// The error for a pitcrew file that a later version of pitcrew wrote.
pub(crate) fn newer(path: &str, version: u64) -> ApiError {
    let message = format!(
        "{path} is of version {version}, written by a newer pitcrew; this one reads up to version {FORMAT_VERSION}"
    );
    internal(message).with("path", path).with("version", version)
}

pub(crate) fn bad_name(name: &str, error: &NameError) -> ApiError {
    let shown: String = name.chars().take(120).collect();
    invalid(error.to_string()).with("name", shown)
}

/// Refuses a text with more than `limit` characters.
pub(crate) fn check_length(field: &str, text: &str, limit: u32) -> Result<(), ApiError> {
    let got = text.chars().count();
    if u64::from(limit) >= got as u64 {
        return Ok(());
    }
    let message = format!("{field} has {}; at most {limit} are allowed", counted(got, "character"));
    Err(invalid(message).with("field", field).with("limit", limit).with("got", got))
}

/// Refuses a text that is empty or only white space.
pub(crate) fn check_filled(field: &str, text: &str) -> Result<(), ApiError> {
    if text.trim().is_empty() {
        return Err(invalid(format!("{field} is empty")).with("field", field));
    }
    Ok(())
}

/// Refuses to add one more `what` if the present number `there` has reached `limit`.
pub(crate) fn check_count(what: &str, limit: u32, there: usize) -> Result<(), ApiError> {
    if there < usize::try_from(limit).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let message = format!("there are {there} {what}; at most {limit} are allowed");
    Err(ApiError::new(ErrorCode::RateLimit, message).with("limit", limit).with("got", there))
}

/// The error for a full inbox: `to` already has `unread` messages. If `of_sender` is given, only
/// messages of that sender are counted.
pub(crate) fn inbox_full(
    to: &AgentName,
    of_sender: Option<&str>,
    unread: usize,
    most: usize,
) -> ApiError {
    const SETTING: &str = "pitcrew.limits.unreadMessages";
    let of = of_sender.map_or(String::new(), |sender| format!(" of {sender}"));
    let message = format!(
        "Agent '{to}' has {unread} unread messages{of}; at most {most} are allowed (`{SETTING}` in the settings)"
    );
    ApiError::new(ErrorCode::RateLimit, message)
        .with("agent", to.as_str())
        .with("limit", most)
        .with("got", unread)
        .with("setting", SETTING)
}

pub(crate) fn too_soon(what: &str, setting: &str, rate: Rate, retry_after: Duration) -> ApiError {
    let wait_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
    let message = format!(
        "at most {} {what} in {} s are allowed (pitcrew.limits.{setting} in the settings); try again in {} s",
        rate.count,
        rate.seconds,
        wait_ms.div_ceil(1000)
    );
    ApiError::new(ErrorCode::RateLimit, message)
        .with("limit", rate.count)
        .with("window_seconds", rate.seconds)
        .with("retry_after_ms", wait_ms)
}

pub(crate) fn unknown_agent(config: &TeamConfig, given: &str) -> ApiError {
    let valid: Vec<&str> = config.members.iter().map(|m| m.name.as_str()).collect();
    no_such_agent(given, &valid, &format!("is not in team '{}'", config.name))
}

/// The error for a name that no member and no former member of the team has.
pub(crate) fn no_agent_ever(config: &TeamConfig, given: &str, valid: &[&str]) -> ApiError {
    no_such_agent(given, valid, &format!("is not, and was never, in team '{}'", config.name))
}

fn no_such_agent(given: &str, valid: &[&str], fault: &str) -> ApiError {
    let near = nearest(given, valid.iter().copied());
    let hint = near.as_ref().map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    let message = format!("Agent '{given}' {fault}{hint}");
    let error = ApiError::new(ErrorCode::AgentNotFound, message)
        .with("agent", given)
        .with("valid_agents", valid.to_vec());
    match near {
        Some(near) => error.with("did_you_mean", near),
        None => error,
    }
}

pub(crate) fn unknown_team(given: &str, available: Vec<String>) -> ApiError {
    let near = nearest(given, available.iter().map(String::as_str));
    let hint = near.as_ref().map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    let message = format!("Team '{given}' does not exist{hint}");
    let error = ApiError::new(ErrorCode::TeamNotFound, message)
        .with("team_name", given)
        .with("available_teams", available);
    match near {
        Some(near) => error.with("did_you_mean", near),
        None => error,
    }
}

/// Converts an error of the store into an API error.
pub(crate) fn of_store(error: StoreError) -> ApiError {
    match error {
        StoreError::NoTeam { team } => unknown_team(team.as_str(), Vec::new()),
        StoreError::TeamTaken { team, name } => {
            let message = format!("Team folder '{team}' is taken by team '{name}'");
            ApiError::new(ErrorCode::TeamAlreadyExists, message)
                .with("existing_team", name)
                .with("folder", team.as_str())
        }
        StoreError::Corrupt { path, reason } => {
            let path = path.display().to_string();
            let error = internal(format!("{path} is not readable: {reason}"));
            error.with("path", path).with("reason", reason).with("corrupt", true)
        }
        StoreError::NoFolder { ref path, .. } => internal(error.to_string())
            .with("path", path.display().to_string())
            .with("no_folder", true),
        StoreError::Locked { path, waited_ms, holder } => {
            let path = path.display().to_string();
            let by = holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default();
            let error = internal(format!("{path} stayed locked for {waited_ms} ms{by}"));
            error.with("path", path).with("waited_ms", waited_ms).with("held_by", holder)
        }
        StoreError::NotHeld { .. } => internal(error.to_string()),
        StoreError::Io { action, path, source } => {
            let path = path.display().to_string();
            let reason = source.to_string();
            let error = internal(format!("cannot {action} {path}: {reason}"));
            let error = error.with("path", path).with("reason", reason);
            match source.raw_os_error() {
                Some(number) => error.with("os_error", number),
                None => error,
            }
        }
        StoreError::Refused(error) => error,
    }
}

/// The error for a name that no team has as its own name, but that the leads of several teams asked
/// for.
pub(crate) fn asked_by_several(given: &str, names: &BTreeSet<String>) -> ApiError {
    let listed = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let said = format!(
        "No team is named '{given}', and the leads of several asked for that name: {listed}; name one of these"
    );
    ApiError::new(ErrorCode::InvalidRequest, said).with("team", given)
}
