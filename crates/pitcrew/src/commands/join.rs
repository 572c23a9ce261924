//! `pitcrew join`: adds a pitcrew agent to a team that another process leads.

use std::path::PathBuf;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_runtime::run::{Entry, RunLimits};

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
/// The agent adds itself to the team, tells the lead about it, claims free tasks, and acts on its
/// messages. It asks the lead for permissions, and you too if you are at its terminal: the first
/// answer counts. When the lead asks it to shut down and it agrees, it leaves the team. The first
/// Ctrl-C stops it cleanly; the same command resumes it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew join backend --as reviewer
  pitcrew join backend --as tester --model openai/qwen3 --allow 'Bash(cargo test:*)'")]
pub(crate) struct Join {
    #[command(flatten)]
    team: NamedTeam,
    /// The agent's name in the team
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    /// The agent's model [default: the model from the settings, else one that the environment
    /// offers]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    model: Option<String>,
    /// The agent's type [default: general-purpose]
    #[arg(long, value_name = "TYPE")]
    agent_type: Option<String>,
    /// The number of model calls after which the agent ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// The cost after which the agent ends; refused if the price of its model is not known, unless
    /// --max-turns is given too
    #[arg(long, value_name = "USD", value_parser = super::run::dollars)]
    max_cost_usd: Option<f64>,
    /// More instructions for the agent
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    /// The format of the answer on stdout [default: text; json with --json]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// A settings file with the same precedence as the command line
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
        let person = PermissionArgs::person_here(context, format);
        let (asks, asked) = self.permissions.asks(person);
        context.briefly(async {
            // Prints a warning if the team's lead does not read its inbox. If the team does not
            // exist, nothing is printed here, because the attempt to join (below) reports that
            // error.
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
        live_alone(context, plan, asked, format, &resume)
    }
}
