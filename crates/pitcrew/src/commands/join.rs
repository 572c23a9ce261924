//! `pitcrew join`: one of our agents becomes a member of a team that somebody else leads.

use std::path::PathBuf;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_runtime::run::{Entry, RunLimits};
use pitcrew_view::asking::Questions;

use super::agent::live_alone;
use super::run::{OutputFormat, PermissionArgs};
use super::send::lead_does_not_read;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, shell_word};
use crate::run_options::{self, SoloPlan};
use crate::selection::NamedTeam;

/// Join a team as a teammate, whoever leads it: a Claude Code session, or pitcrew
///
/// The agent adds itself to the team, tells the lead that it is there, takes free tasks, and works on what it is sent. It
/// asks the lead for permissions, and you too when you sit at its terminal: the first answer counts. When the lead asks it
/// to shut down and it agrees, it leaves the team. The first Ctrl-C stops it in order; the same command goes on from there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew join backend --as reviewer
  pitcrew join backend --as tester --model openai/qwen3 --allow 'Bash(cargo test:*)'")]
pub(crate) struct Join {
    #[command(flatten)]
    team: NamedTeam,
    /// The name it goes by in the team
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    /// Its model [default: the settings', else what the environment offers]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    model: Option<String>,
    /// The kind of agent it is [default: general-purpose]
    #[arg(long, value_name = "TYPE")]
    agent_type: Option<String>,
    /// Model calls after which it ends
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Cost after which it ends; refused where nobody knows what its model costs, unless the turns are limited too
    #[arg(long, value_name = "USD", value_parser = super::run::dollars)]
    max_cost_usd: Option<f64>,
    /// More instructions for it
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    /// How to answer on stdout [default: text; json with --json]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// A settings file that counts as given on the command line
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    permissions: PermissionArgs,
}

impl Join {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let format = OutputFormat::chosen(self.output_format, context);
        let resume = format!(
            "pitcrew join {} --as {}",
            shell_word(self.team.name()),
            shell_word(&self.name)
        );
        let (asks, questions) = self.permissions.asks(context, format, Questions::open);
        context.briefly(async {
            // A team that is not there is told when it is joined.
            if let Ok(team) = context.teams()?.open(self.team.name()).await
                && let Some(warning) = lead_does_not_read(&team).await
            {
                output::remark(&format!("warning: {warning}"));
            }
            Ok(())
        })?;
        let folder =
            context.briefly(run_options::member_folder(context, self.team.name(), &self.name))?;
        let mut settings = self.permissions.settings(self.settings.as_deref())?;
        self.permissions.settle_trust(context, &folder, format, &mut settings)?;
        let plan = SoloPlan {
            settings,
            mode: self.permissions.mode(),
            team: self.team.name().to_owned(),
            name: self.name,
            entry: Entry::Joins,
            model: self.model,
            agent_type: self.agent_type,
            color: None,
            session_id: None,
            asks,
            limits: RunLimits {
                max_turns: self.max_turns,
                max_cost_usd: self.max_cost_usd,
                max_teammates: None,
            },
            append_system_prompt: self.append_system_prompt,
            lead_key: None,
            lead_process: None,
        };
        live_alone(context, plan, questions, format, &resume)
    }
}
