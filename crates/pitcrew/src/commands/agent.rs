//! `pitcrew agent`: runs one pitcrew teammate in a process of its own, usually in a pane.

use std::path::PathBuf;

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{AgentId, AgentName, PermissionMode};
use pitcrew_runtime::run::{Ask, Entry, RunLimits};
use pitcrew_team::LeadKeys;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::run::{OutputFormat, PermissionArgs, face, shown};
use crate::context::Context;
use crate::failure::Failure;
use crate::live::agent_screen;
use crate::live::signals::Signals;
use crate::live::watch::watch;
use crate::notifier::Notifier;
use crate::output::shell_word;
use crate::report::{self, Work};
use crate::run_options::{self, SoloPlan};
use crate::telemetry::Telemetry;
use crate::trusting;

/// Run one teammate in this terminal, as a pane does
///
/// On a terminal it shows the teammate's work, mail, task, tokens and cost. A line you type is a
/// message to the teammate, or the answer to its question. Esc interrupts its turn. The first
/// Ctrl-C ends it cleanly, the second ends it at once.
///
/// The teammate must already be a member of the team: its lead adds it and puts its instructions
/// into its inbox as the first message. It asks its lead for permissions, and you too if you are at
/// its terminal: the first answer counts. It ends after it has agreed to shut down. Started again
/// after a crash, it goes on from its transcript. The flags are those of Claude Code and also work
/// without the word `agent`, so that a Claude Code lead can start pitcrew in place of its own
/// client.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew agent --team-name backend --agent-name bob
  pitcrew agent --agent-id bob@backend --model haiku --permission-mode acceptEdits
  CLAUDE_CODE_TEAMMATE_COMMAND=$(command -v pitcrew) claude --teammate-mode tmux")]
pub(crate) struct Agent {
    /// The name of the team
    #[arg(long, value_name = "TEAM", required_unless_present = "agent_id")]
    team_name: Option<String>,
    /// The name of the teammate
    #[arg(long, value_name = "NAME", required_unless_present = "agent_id")]
    agent_name: Option<String>,
    /// The names of the teammate and its team, as NAME@TEAM
    #[arg(long, value_name = "ID")]
    agent_id: Option<String>,
    /// The teammate's color, used if the team's config has none
    #[arg(long, value_name = "COLOR")]
    agent_color: Option<String>,
    /// The session id of the lead
    #[arg(long, value_name = "UUID")]
    parent_session_id: Option<String>,
    /// The teammate's agent type, used if the team's config has none
    #[arg(long, value_name = "TYPE")]
    agent_type: Option<String>,
    /// The teammate's model; the last --model counts [default: the one in the team's config]
    #[arg(long, value_name = "MODEL", overrides_with = "model")]
    model: Option<String>,
    /// Start in plan mode, unless the team's config has another mode
    #[arg(long)]
    plan_mode_required: bool,
    /// The key that verifies the lead's signatures; ignored if a Claude Code session leads the
    /// team, as its keys have another format
    #[arg(long, value_name = "KEY")]
    lead_verify_key: Option<String>,
    /// The lead's process that owns the key; no other key is accepted until that process has ended
    #[arg(long, value_name = "PID.START", requires = "lead_verify_key", hide = true)]
    lead_process: Option<ProcessIdentity>,
    /// The number of model calls after which the teammate ends
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// The format of the answer on stdout [default: text; json with --json]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// A settings file with the same precedence as the command line
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Ask for no permissions; the name that a Claude Code lead uses for --permission-mode
    /// bypassPermissions
    #[arg(long, conflicts_with = "permission_mode")]
    dangerously_skip_permissions: bool,
    #[command(flatten)]
    permissions: PermissionArgs,
}

impl Agent {
    pub(crate) fn run(mut self, context: &Context) -> Result<(), Failure> {
        if self.dangerously_skip_permissions {
            self.permissions.permission_mode =
                Some(PermissionMode::BypassPermissions.as_str().to_owned());
        }
        let (name, team) = self.who()?;
        let format = OutputFormat::chosen(self.output_format, context);
        let resume = format!(
            "pitcrew agent --team-name {} --agent-name {}",
            shell_word(&team),
            shell_word(&name)
        );
        let person = PermissionArgs::person_here(context, format);
        let (asks, asked) = self.permissions.asks(person);
        let settings = self.settings(context, &team, &name)?;
        let lead_key = self.lead_key(context, &team)?;
        let plan = SoloPlan {
            team,
            name,
            entry: Entry::Placed,
            settings,
            mode: if self.plan_mode_required {
                Some(PermissionMode::Plan.to_string())
            } else {
                self.permissions.mode()
            },
            model: self.model,
            agent_type: self.agent_type,
            color: self.agent_color,
            session_id: self.parent_session_id,
            asks,
            limits: RunLimits { max_turns: self.max_turns, ..RunLimits::default() },
            append_system_prompt: None,
            lead_key,
            lead_process: self.lead_process,
        };
        live_alone(context, plan, asked, format, &resume)
    }

    /// Builds the layer of settings that comes from the command line. This process never asks the
    /// user whether the folder is trusted, because the lead has already asked.
    fn settings(
        &self,
        context: &Context,
        team: &str,
        name: &str,
    ) -> Result<Map<String, Value>, Failure> {
        let mut layer = self.permissions.settings(self.settings.as_deref())?;
        if self.permissions.trust {
            let folder = context.briefly(run_options::member_folder(context, team, name))?;
            trusting::for_this_run(context, &folder, &mut layer)?;
        }
        Ok(layer)
    }

    /// Returns the key that verifies the signatures of a pitcrew lead. Returns `None` if a Claude
    /// Code session leads the team. It is not known which bytes such a session signs, so its
    /// signatures are not verified.
    fn lead_key(&self, context: &Context, team: &str) -> Result<Option<LeadKeys>, Failure> {
        let Some(key) = &self.lead_verify_key else { return Ok(None) };
        let is_session = context.briefly(async {
            let config = context.teams()?.open(team).await?.config().await?;
            Ok(config.is_session_dialect())
        })?;
        if is_session {
            return Ok(None);
        }
        key.parse().map(Some).map_err(|error| Failure::usage(format!("--lead-verify-key: {error}")))
    }

    /// Returns the name of the member and the name of its team.
    fn who(&self) -> Result<(String, String), Failure> {
        let id = match self.agent_id.as_deref() {
            None => None,
            Some(id) => Some(AgentId::split(id).ok_or_else(|| {
                Failure::usage(format!("{id:?} is not an agent id"))
                    .hint("an agent id is NAME@TEAM, such as bob@backend")
            })?),
        };
        let part = |given: &Option<String>, in_id: Option<&str>| match (given, in_id) {
            (Some(given), Some(in_id)) if given != in_id => Err(Failure::usage(format!(
                "--agent-id says {in_id:?}, and another flag says {given:?}"
            ))),
            (Some(given), _) => Ok(given.clone()),
            (None, in_id) => Ok(in_id.unwrap_or_default().to_owned()),
        };
        Ok((part(&self.agent_name, id.map(|id| id.0))?, part(&self.team_name, id.map(|id| id.1))?))
    }
}

/// Runs one member on a single thread until the member has ended. `resume` is the command that
/// starts the member again.
pub(crate) fn live_alone(
    context: &Context,
    plan: SoloPlan,
    asked: Option<mpsc::Receiver<Ask>>,
    format: OutputFormat,
    resume: &str,
) -> Result<(), Failure> {
    context.with_agents(|of_agents| {
        context.briefly(async {
            let signals = Signals::listen()?;
            let name = plan.name.clone();
            let (handle, team) = run_options::start_alone(context, plan).await?;
            // At the end, `with_agents` removes the team's records of processes that have ended. It
            // reads the team's name from `of_agents`.
            of_agents.get_or_init(|| handle.team.clone());
            let watched = if context.has_terminal() && format != OutputFormat::StreamJson {
                agent_screen::watch(handle, team, AgentName::foreign(&name), signals, asked).await?
            } else {
                // The process of the lead notifies the user, and sends the telemetry of the team.
                let observers = (Notifier::silent(), Telemetry::default());
                watch(handle, team, face(context, format, false), signals, asked, observers).await?
            };
            let table = report::table(&watched.outcome);
            shown(watched, format, (&table, &Work::default()), Some(resume))
        })
    })
}
