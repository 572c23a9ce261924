//! Permission modes by their names on the wire, as the team's config has them.

use pitcrew_protocol::Member;
use pitcrew_team::SpawnRecord;

use crate::gate::PermissionMode;

/// Reads a mode as the wire names it.
pub(crate) fn mode_named(name: &str) -> Option<PermissionMode> {
    serde_json::from_value(name.into()).ok()
}

/// Whether the config says anything of a member's mode.
pub(crate) fn says_mode(member: &Member) -> bool {
    member.mode.is_some()
        || member.plan_mode_required == Some(true)
        || SpawnRecord::of(member).is_some_and(|record| record.mode.is_some())
}
