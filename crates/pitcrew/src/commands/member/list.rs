//! `pitcrew member list`.

use pitcrew_protocol::{Member, PermissionMode};
use pitcrew_team::{KnownMode, SpawnRecord};
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

/// The answer: the members as the team's config holds them.
#[derive(Debug, Serialize)]
struct Listed {
    members: Vec<Member>,
    total: usize,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let members = self.team.look(context).await?.config().await?.members.clone();
        let listed = Listed { total: members.len(), members };
        context.output.answer(&listed, |listed| table(&listed.members))
    }
}

/// The members as a table.
pub(crate) fn table(members: &[Member]) -> String {
    let rows: Vec<_> = members.iter().map(cells).collect();
    output::table(["MEMBER", "TYPE", "MODEL", "MODE", "RUNS IN", "WORKTREE"], &rows)
}

/// What the config says of a member: its name, type, model, mode, kind of place, and worktree.
pub(crate) fn cells(member: &Member) -> [String; 6] {
    let text = |value: &Option<String>| {
        value.clone().filter(|v| !v.is_empty()).unwrap_or_else(|| "-".to_owned())
    };
    [
        member.name.to_string(),
        text(&member.agent_type),
        text(&member.model),
        text(&mode_of(member)),
        text(&member.backend_type),
        text(&member.worktree_path),
    ]
}

/// The mode of a member: the one on record, or the one that its client was started in.
fn mode_of(member: &Member) -> Option<String> {
    let planning =
        || member.plan_mode_required.filter(|it| *it).map(|_| PermissionMode::Plan.to_string());
    let is_client = || SpawnRecord::of(member).is_some() && !SpawnRecord::is_run_by_us(member);
    let of_client = || is_client().then(|| KnownMode::of_another_client(member).mode().to_owned());
    member.mode.clone().or_else(planning).or_else(of_client)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_mode_of_a_client_is_the_one_it_was_started_in_until_another_is_on_record() {
        for (more, mode) in [
            (json!({"pitcrew": {"program": "claude"}}), "default"),
            (json!({"pitcrew": {"program": "claude", "mode": "acceptEdits"}}), "acceptEdits"),
            (
                json!({"pitcrew": {"program": "claude", "mode": "acceptEdits"}, "planModeRequired": true}),
                "plan",
            ),
            (
                json!({"pitcrew": {"program": "claude", "mode": "acceptEdits"}, "mode": "default"}),
                "default",
            ),
            (json!({}), "-"),
        ] {
            let mut member = json!({"agentId": "bob@crew", "name": "bob", "joinedAt": 1, "cwd": "/", "subscriptions": []});
            member.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let member: Member = serde_json::from_value(member).unwrap();
            assert_eq!(cells(&member)[3], mode, "{more}");
        }
    }
}
