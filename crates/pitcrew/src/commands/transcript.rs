//! `pitcrew transcript`: shows the conversation of an agent.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{AgentName, LEAD_NAME, TeamConfig};
use pitcrew_team::TeamRecords;
use pitcrew_view::conversation::{Conversation, recorded};
use serde::Serialize;

mod drawn;

use drawn::drawn;

use crate::completing;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::{self, FAINT, STRONG, printable, shell_word};
use crate::selection::AnyTeamChoice;

/// Show the conversation of an agent as it reads, of a team that runs or is finished
///
/// A tool call is one line, and so is its result. --full shows whole inputs and results, and the
/// thoughts of the model. The conversation of a Claude Code teammate is shown if that client
/// recorded it below the root.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew transcript bob
  pitcrew transcript team-lead --team backend --full
  pitcrew transcript bob --json            the parts of the conversation as one document")]
pub(crate) struct Transcript {
    /// The agent, a member or former member of the team
    #[arg(default_value = LEAD_NAME, add = ArgValueCompleter::new(completing::members))]
    agent: String,
    /// Show whole inputs and results of tool calls, and the thoughts of the model
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    team: AnyTeamChoice,
}

/// The result that `pitcrew transcript` prints.
#[derive(Debug, Serialize)]
struct Shown {
    team: String,
    agent: AgentName,
    /// The program that recorded the conversation.
    program: &'static str,
    #[serde(flatten)]
    conversation: Conversation,
}

impl Transcript {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let records = self.team.records_of(context, &self.agent).await?;
        let config = records.config().await?;
        let agent = records.member(&self.agent).await?;
        let Some((program, conversation)) =
            conversation(context, &records, &config, &agent).await?
        else {
            return Err(none_recorded(&agent, config.name.as_str()));
        };
        let unread = conversation.unread_lines.len();
        if unread > 0 {
            output::remark(&format!(
                "warning: {unread} of the conversation's lines cannot be read and are left out"
            ));
        }
        let shown = Shown { team: config.name.to_string(), agent, program, conversation };
        context.output.answer(&shown, |shown| shown.text(self.full))
    }
}

/// Returns the conversation of an agent, and the program that recorded it.
pub(crate) async fn conversation(
    context: &Context,
    records: &TeamRecords,
    config: &TeamConfig,
    agent: &AgentName,
) -> Result<Option<(&'static str, Conversation)>, Failure> {
    Ok(recorded(records, config, agent, &context.root).await?)
}

/// Builds the error for an agent without a recorded conversation.
pub(crate) fn none_recorded(agent: &AgentName, team: &str) -> Failure {
    let said = format!("no conversation of {} is recorded", printable(agent.as_str()));
    Failure::new(FailureKind::NotFound, said).hint(format!(
        "`pitcrew inbox {} --team {}` shows its mail while the team is there, `pitcrew log {}` what it did",
        shell_word(agent.as_str()),
        shell_word(team),
        shell_word(team),
    ))
}

impl Shown {
    fn text(&self, is_full: bool) -> String {
        let (agent, team) = (printable(self.agent.as_str()), printable(&self.team));
        let heading = format!(
            "{STRONG}{agent} of {team}{STRONG:#}  {FAINT}recorded by {}{FAINT:#}",
            self.program
        );
        if self.conversation.parts.is_empty() {
            return format!("{heading}\nnothing was said yet");
        }
        format!("{heading}\n\n{}", drawn(&self.conversation, is_full))
    }
}
