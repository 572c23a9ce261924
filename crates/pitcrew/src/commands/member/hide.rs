//! `pitcrew member hide`.

use clap_complete::engine::ArgValueCompleter;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::{pane_failure, pane_of};
use crate::selection::TeamChoice;

/// Take a member's pane out of view; the member goes on
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew member hide bob")]
pub(crate) struct Hide {
    /// The member
    #[arg(add = ArgValueCompleter::new(completing::members))]
    name: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Hide {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        let (panes, pane) = pane_of(context, &team, &self.name).await?;
        panes.hide(&pane).await.map_err(|error| pane_failure(&self.name, error))?;
        team.set_hidden(&pane.0, true).await?;
        let answer = json!({"success": true, "name": self.name, "pane": pane.0, "hidden": true});
        context.output.answer(&answer, |_| {
            format!(
                "{}'s pane is hidden, and {} goes on; `pitcrew member show` takes the pane out again",
                self.name, self.name
            )
        })
    }
}
