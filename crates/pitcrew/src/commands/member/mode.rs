//! `pitcrew member mode`.

use pitcrew_protocol::AgentName;
use pitcrew_runtime::door::Knock;
use pitcrew_team::Actor;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::selection::TeamChoice;
use crate::{lead, linger};

/// Change a member's permission mode, also while it runs
///
/// The process that leads the team is asked to; when none does, a team of ours can be set to plan only.
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
        let request = Knock::Mode { member: self.name.clone(), mode: self.mode.clone() };
        if lead::ask(&team, &request).await?.is_none() {
            let set = team.set_mode(&Actor::User, &AgentName::foreign(&self.name), &self.mode).await;
            set.map_err(|error| lead::without(&team, error))?;
            linger::until_kept(&team).await?;
        }
        let answer = json!({"success": true, "name": self.name, "mode": self.mode});
        context.output.answer(&answer, |_| format!("{} is in mode {} now", self.name, self.mode))
    }
}
