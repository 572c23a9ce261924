//! Resolves the names of members that users, models and other clients give. No other module does
//! this.
//!
//! The name of a member is accepted in any letter case, as `@name` and as `name@team`. The part
//! `team` may be the team's own name, its folder's name, or the name that its lead asked for.

use pitcrew_protocol::{AgentId, Member, TeamConfig, TeamDir};

use crate::Team;
use crate::asked::asked_name;

/// Finds the member that `given` means.
pub(crate) fn member<'a>(given: &str, config: &'a TeamConfig) -> Option<&'a Member> {
    config.member(bare_name(given, config))
}

/// Removes a leading `@`, and this team's name in the form `@team` at the end, from `given`. A name
/// with another team at the end stays unchanged, so that it matches no member here.
pub(crate) fn bare_name<'a>(given: &'a str, config: &TeamConfig) -> &'a str {
    let name = given.trim();
    let name = name.strip_prefix('@').unwrap_or(name);
    match AgentId::split(name) {
        Some((bare, team)) if goes_by(team, config) => bare,
        Some(_) | None => name,
    }
}

/// Whether `team` means the team of this config: its own name, or the name that its lead asked for.
pub(crate) fn goes_by(team: &str, config: &TeamConfig) -> bool {
    let dir = TeamDir::of(team);
    dir == config.name.dir() || asked_name(config).is_some_and(|asked| asked.dir() == dir)
}

/// Returns the team in a name of the form `name@team`.
#[must_use]
pub fn team_of(member: &str) -> Option<&str> {
    let name = member.trim();
    AgentId::split(name.strip_prefix('@').unwrap_or(name)).map(|(_, team)| team)
}

impl Team {
    /// Removes a leading `@`, and this team's name in the form `@team` at the end, from `given`.
    /// The result need not be the name of a member.
    pub async fn bare_name(&self, given: &str) -> String {
        self.config()
            .await
            .map_or_else(|_| given.to_owned(), |config| bare_name(given, &config).to_owned())
    }
}
