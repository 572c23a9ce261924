//! Finds the recorded conversation of an agent of a team, whichever program runs the agent.

use std::path::Path;

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, LEAD_NAME, TeamConfig};
use pitcrew_runtime::{client_conversation, member_conversation};
use pitcrew_team::{SpawnRecord, TeamRecords};

use super::Conversation;

/// Returns the conversation of an agent, and the name of the program that recorded it. Returns
/// `None` if no conversation is recorded. `root` is the folder below which clients record theirs.
///
/// # Errors
/// `team_not_found`, and `internal_error` for a transcript that cannot be read.
pub async fn recorded(
    records: &TeamRecords,
    config: &TeamConfig,
    agent: &AgentName,
    root: &Path,
) -> Result<Option<(&'static str, Conversation)>, ApiError> {
    let lines = records.transcript(agent).await?;
    if !lines.is_empty() {
        let read = Conversation::of_transcript(&lines);
        let newer = |error| ApiError::new(ErrorCode::InternalError, format!("{error}"));
        return Ok(Some(("pitcrew", read.map_err(newer)?)));
    }
    let conversation = recorded_by_client(records, config, agent, (root, u64::MAX)).await?;
    Ok(conversation.map(|conversation| ("claude", conversation)))
}

/// Returns the conversation of an agent that another client recorded, or about its last `most`
/// bytes. `root` is the folder below which clients record theirs.
///
/// # Errors
/// `team_not_found`, and `internal_error` for a record that cannot be read.
pub async fn recorded_by_client(
    records: &TeamRecords,
    config: &TeamConfig,
    agent: &AgentName,
    (root, most): (&Path, u64),
) -> Result<Option<Conversation>, ApiError> {
    let recorded = records.client_conversation(agent).await?.map(|recorded| recorded.id);
    // The conversation of another client's lead is the session of the team.
    let is_its_lead = config
        .member(LEAD_NAME)
        .is_some_and(|lead| lead.name == *agent && SpawnRecord::of(lead).is_none());
    let session = config.lead_session_id.clone().filter(|_| is_its_lead);
    // The config does not have the conversations of its members.
    let found = || {
        let member = config.member(agent.as_str()).filter(|it| SpawnRecord::of(it).is_none())?;
        member_conversation(root, config.name.as_str(), member, most)
    };
    let text = match recorded.or(session) {
        Some(id) => client_conversation(root, &id, most),
        None => found(),
    };
    Ok(text.map(|text| Conversation::of_client(&text)))
}
