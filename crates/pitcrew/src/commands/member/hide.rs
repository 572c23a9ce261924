//! `pitcrew member hide`: hides a member's pane.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_runtime::member_pane;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::{pane_failure, pane_of};
use crate::selection::TeamChoice;

/// Hide a member's pane; the member keeps running
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew member hide bob")]
pub(crate) struct Hide {
    /// The member whose pane is hidden
    #[arg(add = ArgValueCompleter::new(completing::members))]
    name: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Hide {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open_of(context, &self.name).await?;
        let name = team.member(&self.name).await?.name;
        let (panes, pane) = pane_of(context, &team, &name).await?;
        let hidden = member_pane::hide(&team, panes.as_ref(), &pane).await;
        hidden.map_err(|error| pane_failure(name.as_str(), error))?;
        let answer = json!({"success": true, "name": name, "pane": pane.0, "hidden": true});
        context.output.answer(&answer, |_| {
            format!("{name}'s pane is hidden, and {name} goes on; `pitcrew member show` takes the pane out again")
        })
    }
}
