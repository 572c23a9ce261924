//! `pitcrew member show`.

use clap_complete::engine::ArgValueCompleter;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::pane_of;
use crate::selection::TeamChoice;

/// Bring a member's hidden pane back into view
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew member show bob")]
pub(crate) struct Show {
    /// The member
    #[arg(add = ArgValueCompleter::new(completing::members))]
    name: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        let (panes, pane) = pane_of(context, &team, &self.name).await?;
        panes.show(&pane).await.map_err(Failure::internal)?;
        team.set_hidden(&pane.0, false).await?;
        let answer = json!({"success": true, "name": self.name, "pane": pane.0, "hidden": false});
        context.output.answer(&answer, |_| format!("{} is in view", self.name))
    }
}
