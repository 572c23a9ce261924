//! `pitcrew member mode`.

use pitcrew_protocol::AgentName;
use pitcrew_team::Actor;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::linger;
use crate::selection::TeamChoice;

/// Change a member's permission mode, also while it runs
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew member mode bob acceptEdits")]
pub(crate) struct Mode {
    /// The member
    name: String,
    /// default, acceptEdits, plan, delegate, dontAsk or bypassPermissions
    mode: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Mode {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        team.set_mode(&Actor::User, &AgentName::foreign(&self.name), &self.mode).await?;
        linger::until_kept(&team).await?;
        let answer = json!({"success": true, "name": self.name, "mode": self.mode});
        context.output.answer(&answer, |_| format!("{} is in mode {} now", self.name, self.mode))
    }
}
