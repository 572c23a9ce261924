//! Whom a name means: the one reading of the names of members that users, models and other clients give.
//!
//! A member goes by its name in any case, by `@name`, and by `name@team`, where the team goes by its own name, its folder's
//! or the one that its lead asked for.

use pitcrew_protocol::{AgentId, Member, TeamConfig, TeamDir};

use crate::Team;
use crate::asked::asked_name;

/// The member that `given` means.
pub(crate) fn member<'a>(given: &str, config: &'a TeamConfig) -> Option<&'a Member> {
    config.member(bare_name(given, config))
}

/// `given` without a leading `@` and without the name of this team behind. A name with another team's stays whole, so that
/// it means nobody here.
pub(crate) fn bare_name<'a>(given: &'a str, config: &TeamConfig) -> &'a str {
    let name = given.trim();
    let name = name.strip_prefix('@').unwrap_or(name);
    match AgentId::split(name) {
        Some((bare, team)) if goes_by(team, config) => bare,
        Some(_) | None => name,
    }
}

/// Whether the team of this config goes by the name: its own, or the one that its lead asked for.
pub(crate) fn goes_by(team: &str, config: &TeamConfig) -> bool {
    let dir = TeamDir::of(team);
    dir == config.name.dir() || asked_name(config).is_some_and(|asked| asked.dir() == dir)
}

/// The team in a member's name of the form `name@team`.
#[must_use]
pub fn team_of(member: &str) -> Option<&str> {
    let name = member.trim();
    AgentId::split(name.strip_prefix('@').unwrap_or(name)).map(|(_, team)| team)
}

impl Team {
    /// The name in `given`, which may have a leading `@` and this team's name behind, whether it is a member's or not.
    pub async fn bare_name(&self, given: &str) -> String {
        self.config()
            .await
            .map_or_else(|_| given.to_owned(), |config| bare_name(given, &config).to_owned())
    }
}
