//! `pitcrew member mode`: changes a member's permission mode.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{PermissionMode, Program};
use pitcrew_runtime::control_socket::ControlRequest;
use pitcrew_team::{Actor, SpawnRecord};
use pitcrew_view::lead;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::selection::TeamChoice;
use crate::settle;

/// Change a member's permission mode, also while it runs
///
/// The process that leads the team makes the change. Without such a process, the only possible
/// change is to plan mode, and only if pitcrew created the team.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew member mode bob acceptEdits")]
pub(crate) struct Mode {
    /// The member whose mode is changed
    #[arg(add = ArgValueCompleter::new(completing::members))]
    name: String,
    /// The new mode: default, acceptEdits, plan, delegate, dontAsk or bypassPermissions
    #[arg(add = ArgValueCompleter::new(completing::modes))]
    mode: String,
    #[command(flatten)]
    team: TeamChoice,
}

impl Mode {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open_of(context, &self.name).await?;
        let member = team.member(&self.name).await?;
        let is_client = SpawnRecord::of(&member).is_none_or(|it| it.program == Program::Claude);
        let name = member.name;
        if is_client && self.mode == PermissionMode::Delegate.as_str() {
            let message = format!("{name} is run by Claude Code, which has no mode \"delegate\"");
            return Err(Failure::usage(message).hint("a teammate of pitcrew has it"));
        }
        let request = ControlRequest::Mode { member: name.to_string(), mode: self.mode.clone() };
        if lead::ask(&team, &request).await?.is_none() {
            let set = team.set_mode(&Actor::User, &name, &self.mode).await;
            set.map_err(|error| lead::without(&team, error))?;
            settle::until_kept(&team).await?;
        }
        let takes_effect = if is_client { "when it is started again" } else { "now" };
        let answer =
            json!({"success": true, "name": name, "mode": self.mode, "takes_effect": takes_effect});
        context.output.answer(&answer, |_| {
            if is_client {
                return format!(
                    "mode {} is recorded for {name}; Claude Code takes its mode only when it is started again, or from the \
                     approval of its plan",
                    self.mode
                );
            }
            format!("{name} is in mode {} now", self.mode)
        })
    }
}
