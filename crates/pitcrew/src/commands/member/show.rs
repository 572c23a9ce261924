//! `pitcrew member show`: shows a member's hidden pane again.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_runtime::member_pane;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::{pane_failure, pane_of};
use crate::output::{printable, shell_word};
use crate::selection::TeamChoice;

/// Show a member's hidden pane again
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew member show bob")]
pub(crate) struct Show {
    /// The member whose pane is shown
    #[arg(add = ArgValueCompleter::new(completing::members))]
    name: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.look_of(context, &self.name).await?;
        let name = team.member(&self.name).await?.name;
        let (panes, pane) = pane_of(context, &team, &name).await?;
        let shown = member_pane::show(&team, panes.as_ref(), &pane).await;
        let view = shown.map_err(|error| pane_failure(name.as_str(), error))?;
        let command = view.as_ref().map(|view| {
            view.command
                .iter()
                .map(|word| shell_word(word).into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        });
        let answer = json!({
            "success": true, "name": name, "pane": pane.0, "hidden": false,
            "place": view.as_ref().map(|view| &view.place), "command": command,
            "is_shown": view.as_ref().map(|view| view.is_shown),
        });
        context.output.answer(&answer, |_| match (&view, &command) {
            (Some(view), Some(command)) => {
                let place = printable(&view.place);
                match view.is_shown {
                    true => format!("{name} is in view in {place}; `{command}` goes there"),
                    false => {
                        format!("{name}'s pane is in {place}, which no terminal shows now; `{command}` goes there")
                    }
                }
            }
            // The terminal did not report the pane's location.
            (_, _) => format!("{name}'s pane is hidden no more"),
        })
    }
}
