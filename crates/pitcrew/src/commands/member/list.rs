//! `pitcrew member list`: lists the members of a team.

use std::collections::BTreeSet;

use pitcrew_protocol::{AgentName, Member, TeamConfig};
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::selection::TeamChoice;

/// List the team's members, the lead first
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    team: TeamChoice,
}

/// The result that `pitcrew member list` prints: the members as listed in the team's config.
#[derive(Debug, Serialize)]
struct Listed {
    members: Vec<Member>,
    total: usize,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.look(context).await?;
        let config = team.config().await?;
        let unsigned = team.unsigned_modes().await?;
        let listed = Listed { total: config.members.len(), members: config.members.clone() };
        context.output.answer(&listed, |_| table(&config, &unsigned))
    }
}

/// Formats the members as a table. No lead has signed the modes of `unsigned` members.
pub(crate) fn table(config: &TeamConfig, unsigned: &BTreeSet<AgentName>) -> String {
    let state = fold(TeamState::default(), &ViewEvent::Config(config));
    let rows: Vec<_> = state.agents.iter().map(|member| cells(member, unsigned)).collect();
    output::table(["MEMBER", "TYPE", "MODEL", "MODE", "RUNS IN", "WORKTREE"], &rows)
}

/// Formats the table row of a member: its name, type, model, permission mode, kind of backend, and
/// worktree.
pub(crate) fn cells(member: &AgentState, unsigned: &BTreeSet<AgentName>) -> [String; 6] {
    let mark = if unsigned.contains(&member.name) { " (not signed)" } else { "" };
    let text = |value: &Option<String>| {
        value.clone().filter(|v| !v.is_empty()).unwrap_or_else(|| "-".to_owned())
    };
    [
        member.name.to_string(),
        text(&member.agent_type),
        text(&member.model),
        text(&member.mode) + mark,
        text(&member.backend_type),
        text(&member.worktree),
    ]
}
