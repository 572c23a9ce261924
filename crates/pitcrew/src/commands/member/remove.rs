//! `pitcrew member remove`.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{AgentName, Member};
use pitcrew_team::Actor;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::linger;
use crate::running::Running;
use crate::selection::TeamChoice;
use crate::whereabouts::Whereabouts;

/// Take a member out of the team: its tasks are free again, its unread mail goes back to the senders
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The member
    #[arg(add = ArgValueCompleter::new(completing::members))]
    name: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Remove {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        let config = team.config().await?;
        let running = Running::of(&team, &config).await?;
        let all = Whereabouts::of(&team, &config, &running).await?;
        let is_it = |(member, _): &(&Member, &Whereabouts)| member.is_called(&self.name);
        let was_running = config.members.iter().zip(&all).find(is_it).is_some_and(|(_, it)| it.runs());
        let removed = team.remove_member(&Actor::User, &AgentName::foreign(&self.name)).await?;
        linger::until_kept(&team).await?;
        let answer = json!({
            "success": true,
            "message": format!("{} is no member of {} any more", self.name, team.name()),
            "was_running": was_running,
            "released_tasks": removed.released,
            "dead_messages": removed.dead,
        });
        let tasks: Vec<String> = removed.released.iter().map(|id| format!("#{id}")).collect();
        context.output.answer(&answer, |_| {
            let mut text = format!("{} is no member of {} any more", self.name, team.name());
            if was_running {
                text += "\nit was running; what runs it ends it now, and what it was doing stops there";
            }
            if !tasks.is_empty() {
                text += &format!("\nfree again: {}", tasks.join(" "));
            }
            if !removed.dead.is_empty() {
                text += &format!("\nunread messages returned to their senders: {}", removed.dead.len());
            }
            text
        })
    }
}
