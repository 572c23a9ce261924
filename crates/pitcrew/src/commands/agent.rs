//! `pitcrew agent`: one teammate of ours in a process of its own. What runs in a pane.

use std::path::PathBuf;

use pitcrew_protocol::{AgentId, AgentName, PermissionMode};
use pitcrew_runtime::identity::ProcessIdentity;
use pitcrew_runtime::run::{Entry, RunLimits};
use pitcrew_team::LeadKeys;
use pitcrew_view::asking::Questions;
use serde_json::{Map, Value};

use super::run::{OutputFormat, PermissionArgs, face, shown};
use crate::context::Context;
use crate::failure::Failure;
use crate::live::agent_screen;
use crate::live::signals::Signals;
use crate::live::watch::watch;
use crate::output::shell_word;
use crate::report;
use crate::run_options::{self, SoloPlan};
use crate::trusting;

/// Run one teammate in this terminal, as a pane does
///
/// On a terminal it shows what the teammate does, its mail, its task, tokens and cost. A line you type is a message to it, or
/// the answer to its question; Esc cuts its turn off; the first Ctrl-C ends it in order, the second at once.
///
/// The teammate is a member of the team already, put there by its lead; what it is to do is the first message in its inbox.
/// It asks its lead for permissions, and you too when you sit at its terminal: the first answer counts. It ends when it has
/// agreed to shut down. Started again after a crash, it goes on from its transcript. The flags are Claude Code's own, and are
/// taken without the word `agent` too, so that its lead can start pitcrew in place of another client.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew agent --team-name backend --agent-name bob
  pitcrew agent --agent-id bob@backend --model haiku --permission-mode acceptEdits
  CLAUDE_CODE_TEAMMATE_COMMAND=$(command -v pitcrew) claude --teammate-mode tmux")]
pub(crate) struct Agent {
    /// The team
    #[arg(long, value_name = "TEAM", required_unless_present = "agent_id")]
    team_name: Option<String>,
    /// The teammate
    #[arg(long, value_name = "NAME", required_unless_present = "agent_id")]
    agent_name: Option<String>,
    /// Both, as NAME@TEAM
    #[arg(long, value_name = "ID")]
    agent_id: Option<String>,
    /// Its color, where the team's config names none
    #[arg(long, value_name = "COLOR")]
    agent_color: Option<String>,
    /// The session of the lead
    #[arg(long, value_name = "UUID")]
    parent_session_id: Option<String>,
    /// The kind of agent it is, where the team's config names none
    #[arg(long, value_name = "TYPE")]
    agent_type: Option<String>,
    /// Its model; the last one counts [default: the one in the team's config]
    #[arg(long, value_name = "MODEL", overrides_with = "model")]
    model: Option<String>,
    /// Start in plan mode, where the team's config names no other
    #[arg(long)]
    plan_mode_required: bool,
    /// The key that the lead signs its frames with; a session's is of another form, and is not used
    #[arg(long, value_name = "KEY")]
    lead_verify_key: Option<String>,
    /// The lead's process, which has that key: until it has ended no other key counts
    #[arg(long, value_name = "PID.START", requires = "lead_verify_key", hide = true)]
    lead_process: Option<ProcessIdentity>,
    /// Model calls after which it ends
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// How to answer on stdout [default: text; json with --json]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// A settings file that counts as given on the command line
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Ask nobody, as a lead of another client says it: the same as --permission-mode bypassPermissions
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
        let (asks, questions) = self.permissions.asks(context, format, Questions::open);
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
        live_alone(context, plan, questions, format, &resume)
    }

    /// The command line's layer of settings. Nobody is asked for trust in a pane: its lead has settled that.
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

    /// The key of a lead of ours. What the signatures of a session are over is not known, so none is verified there.
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

    /// The member and its team.
    fn who(&self) -> Result<(String, String), Failure> {
        let id = match self.agent_id.as_deref() {
            None => None,
            Some(id) => Some(AgentId::split(id).ok_or_else(|| {
                Failure::usage(format!("{id:?} is no agent id"))
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

/// Runs one member until it has ended. One thread is enough for it, and `resume` starts it again after a stop.
pub(crate) fn live_alone(
    context: &Context,
    plan: SoloPlan,
    questions: Option<Questions>,
    format: OutputFormat,
    resume: &str,
) -> Result<(), Failure> {
    context.with_agents(|of_agents| {
        context.briefly(async {
            let signals = Signals::listen()?;
            let name = plan.name.clone();
            let (handle, team) = run_options::start_alone(context, plan).await?;
            of_agents.get_or_init(|| handle.team.clone());
            let watched = if context.has_terminal() && format != OutputFormat::StreamJson {
                agent_screen::watch(handle, team, AgentName::foreign(&name), signals, questions)
                    .await?
            } else {
                watch(handle, team, face(context, format, false), signals, questions).await?
            };
            let table = report::table(&watched.outcome);
            shown(watched, format, &table, Some(resume))
        })
    })
}
