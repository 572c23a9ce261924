//! Finds members by the names that users, models and other clients give. No other module interprets
//! these names.
//!
//! The name of a member is accepted in any letter case, as `@name` and as `name@team`. The part
//! `team` is the team's own name, its folder's name, or the name that its lead asked for.

use pitcrew_protocol::{AgentId, Member, TeamConfig, TeamDir};

use crate::Team;
use crate::asked::asked_name;

/// Finds the member that `given` means.
pub(crate) fn member<'a>(given: &str, config: &'a TeamConfig) -> Option<&'a Member> {
    config.member(bare_name(given, config))
}

/// Removes a leading `@` and a trailing `@team` from `given`, if `team` names this team. A name
/// with another team at the end stays unchanged, so that it matches no member of this team.
pub(crate) fn bare_name<'a>(given: &'a str, config: &TeamConfig) -> &'a str {
    let name = given.trim();
    let name = name.strip_prefix('@').unwrap_or(name);
    match AgentId::split(name) {
        Some((bare, team)) if goes_by(team, config) => bare,
        Some(_) | None => name,
    }
}

/// Whether `team` means the team of this config. `team` may be the team's own name, the name of the
/// team's folder, or the name that the team's lead asked for.
pub(crate) fn goes_by(team: &str, config: &TeamConfig) -> bool {
    let dir = TeamDir::of(team);
    dir == config.name.dir() || asked_name(config).is_some_and(|asked| asked.dir() == dir)
}

/// Returns the part `team` of a name in the form `name@team`.
#[must_use]
pub fn team_of(member: &str) -> Option<&str> {
    let name = member.trim();
    AgentId::split(name.strip_prefix('@').unwrap_or(name)).map(|(_, team)| team)
}

impl Team {
    /// Removes a leading `@` and a trailing `@team` from `given`, if `team` names this team. The
    /// result may be a name that no member has.
    pub async fn bare_name(&self, given: &str) -> String {
        self.config()
            .await
            .map_or_else(|_| given.to_owned(), |config| bare_name(given, &config).to_owned())
    }
}
