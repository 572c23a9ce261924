//! The config entry of a new member: its name, its color and the fields of its spawn.

use pitcrew_protocol::{
    AgentName, ApiError, BACKEND_IN_PROCESS, Color, ErrorCode, Member, TeamConfig,
};

use super::spawn::SpawnMember;
use crate::actor::one_form;
use crate::new_name::is_confusable;
use crate::ours::SpawnRecord;

pub(super) fn spawned_by<'a>(config: &'a TeamConfig, call: Option<&str>) -> Option<&'a Member> {
    let call = call?;
    config
        .members
        .iter()
        .find(|m| SpawnRecord::of(m).is_some_and(|record| record.call.as_deref() == Some(call)))
}

/// Builds a member with the fields that the recordings of the reference client have. The new name
/// differs from the names of all members and former members. A member with a former member's name
/// would take over that member's conversation and mail.
pub(super) fn new_member(
    config: &TeamConfig,
    ended: &[AgentName],
    asked: &AgentName,
    spawn: &SpawnMember,
    record: &SpawnRecord,
    now_ms: i64,
) -> Result<Member, ApiError> {
    let known = || config.members.iter().map(|m| &m.name).chain(ended);
    let name = asked.deduplicated(|name| {
        known().any(|k| k.as_str().to_lowercase() == name.as_str().to_lowercase())
    });
    check_free(config, ended, &name)?;
    let backend = spawn.backend_type.clone().unwrap_or_else(|| BACKEND_IN_PROCESS.to_owned());
    // In the recordings of the reference client, an in-process member has the word `in-process`
    // instead of a pane id.
    let pane = if backend == BACKEND_IN_PROCESS { BACKEND_IN_PROCESS } else { "" };
    Ok(Member {
        agent_id: Some(name.id_in(&config.name)),
        name,
        agent_type: Some(spawn.agent_type.clone()),
        model: Some(spawn.model.clone()),
        prompt: Some(spawn.prompt.clone()),
        color: Some(next_color(config).as_str().to_owned()),
        plan_mode_required: Some(spawn.plan_mode_required),
        joined_at_ms: Some(now_ms),
        tmux_pane_id: Some(pane.to_owned()),
        cwd: Some(spawn.cwd.clone()),
        subscriptions: Some(Vec::new()),
        backend_type: Some(backend),
        worktree_path: spawn.worktree_path.clone(),
        mode: None,
        is_active: None,
        foreign: record.clone().into_foreign()?,
    })
}

/// Refuses `name` if a member or former member has the same name or the same inbox, or a name that
/// looks the same.
pub(crate) fn check_free(
    config: &TeamConfig,
    ended: &[AgentName],
    name: &AgentName,
) -> Result<(), ApiError> {
    let known = || config.members.iter().map(|m| &m.name).chain(ended);
    let is_alike = |known: &&AgentName| is_confusable(known.as_str(), name.as_str());
    // A name with the same inbox is first, because its error says more.
    let other = known().find(|known| one_form(known, name)).or_else(|| known().find(is_alike));
    let Some(other) = other else { return Ok(()) };
    let message = if other == name {
        format!("Agent '{name}' is, or was, in team '{}'", config.name)
    } else if !one_form(other, name) {
        format!("Agent '{name}' could be confused with '{other}', which is, or was, in the team")
    } else {
        format!("Agent '{name}' would share the inbox '{}' with '{other}'", name.inbox_file())
    };
    Err(ApiError::new(ErrorCode::AgentAlreadyExists, message)
        .with("name", name.as_str())
        .with("existing_agent", other.as_str()))
}

/// Returns the color that follows the color of the newest teammate.
pub(crate) fn next_color(config: &TeamConfig) -> Color {
    let last = config.teammates().filter_map(|m| m.color.as_deref()).last();
    let place = last.and_then(|last| Color::ALL.iter().position(|color| color.as_str() == last));
    Color::of_teammate(place.map_or(0, |place| place + 1))
}
