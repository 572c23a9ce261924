//! `pitcrew team lead`: shows the process that leads a team. With `--take-over`, this process
//! becomes the lead in place of a dead lead.

use clap_complete::engine::ArgValueCompleter;
use jiff::Timestamp;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::AgentName;
use pitcrew_runtime::run::Begin;
use pitcrew_team::store::{LeaseHolder, LeaseName};
use pitcrew_team::team_of;
use pitcrew_view::running::Running;
use serde::Serialize;

use crate::commands::run::RunArgs;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{printable, shell_word};
use crate::selection::{self, Purpose};

/// Show who leads a team, or take over from a lead that is dead
///
/// With --take-over the team continues from where its lead died. It continues with the lead's own
/// conversation, or with --as with that of a member, who then is the lead and no longer a teammate.
/// A lead that is alive cannot be replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew team lead backend
  pitcrew team lead backend --take-over
  pitcrew team lead backend --take-over --as reviewer \"finish the review, then stop\"")]
pub(crate) struct Lead {
    /// The team [default: the one that runs in this repository, else the one that was stopped here]
    #[arg(add = ArgValueCompleter::new(completing::teams))]
    team: Option<String>,
    /// A new instruction for the lead; the only positional argument if --team names the team
    #[arg(requires = "take_over")]
    goal: Option<String>,
    /// The team, instead of the positional argument
    #[arg(id = "team_by_flag", long = "team", short = 't', value_name = "TEAM",
        add = ArgValueCompleter::new(completing::teams))]
    by_flag: Option<String>,
    /// Take over the team and run it; its lead must be dead
    #[arg(long)]
    take_over: bool,
    /// The member whose conversation becomes the lead's [default: the lead's own]
    #[arg(long = "as", value_name = "MEMBER", requires = "take_over", add = ArgValueCompleter::new(completing::members))]
    member: Option<String>,
    #[command(flatten)]
    how: RunArgs,
}

/// The result that `pitcrew team lead` prints.
#[derive(Debug, Serialize)]
struct Led {
    team: String,
    /// The pitcrew process that leads the team, otherwise the last pitcrew process that led it.
    /// `None` if pitcrew never led the team.
    lead: Option<Leading>,
    /// The process or client that runs the team now, as far as known.
    run_by: Running,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Leading {
    pid: u32,
    alive: bool,
    since: Option<String>,
    /// Whether the lead signs its protocol messages.
    signed: bool,
}

impl Lead {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let (team, goal) = match (self.by_flag, self.team, self.goal) {
            (None, word, goal) => (word, goal),
            // If `--team` names the team, the only positional argument is the new instruction.
            (Some(team), goal, None) if goal.is_none() || self.take_over => (Some(team), goal),
            (Some(team), _, _) => {
                return Err(Failure::usage(format!(
                    "the team is named twice; --team names {}",
                    printable(&team)
                )));
            }
        };
        if !self.take_over {
            let led = context.briefly(led(context, team.as_deref()))?;
            return context.output.answer(&led, Led::text);
        }
        let team = team.as_deref().or_else(|| self.member.as_deref().and_then(team_of));
        let team = context.briefly(async {
            Ok(selection::open(context, team, Purpose::Change).await?.dir().clone())
        })?;
        let member = self.member.as_deref().map(AgentName::foreign);
        self.how.run(context, Begin::TakeOver { team: team.to_string(), member, goal })
    }
}

async fn led(context: &Context, team: Option<&str>) -> Result<Led, Failure> {
    let team = selection::open(context, team, Purpose::Look).await?;
    let run = LeaseName::Run;
    let holder = team.lease_holder(&run).await.map_err(Failure::internal)?;
    let last = team.last_holder(&run).await.map_err(Failure::internal)?;
    let alive =
        holder.as_ref().is_some_and(|holder| ProcessIdentity::from(holder.process()).is_alive());
    let run_by = Running::of(&team, team.config().await?.as_ref()).await?;
    Ok(Led {
        team: team.name().to_string(),
        lead: holder.or(last).map(|holder| Leading::of(&holder, alive)),
        run_by,
    })
}

impl Leading {
    fn of(holder: &LeaseHolder, alive: bool) -> Self {
        let since = Timestamp::from_millisecond(holder.since_ms).ok().map(|at| format!("{at:.3}"));
        Self { pid: holder.pid, alive, since, signed: holder.verify_key.is_some() }
    }
}

impl Led {
    fn text(&self) -> String {
        let (team, word) = (printable(&self.team), shell_word(&self.team));
        match &self.lead {
            Some(Leading { pid, alive: true, since, signed }) => {
                let since =
                    since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
                let signed =
                    if *signed { "its frames are signed" } else { "its frames are not signed" };
                format!("team {team} is led by process {pid}{since}; {signed}")
            }
            _ if self.run_by != Running::No => format!("team {team} is {}", self.run_by.text()),
            Some(Leading { pid, .. }) => format!(
                "nobody leads team {team}; process {pid} did\n\
                 `pitcrew team lead {word} --take-over` goes on with it, with --as MEMBER under a member"
            ),
            None => format!(
                "team {team} has had no lead yet; `pitcrew run --resume {word}` starts its lead"
            ),
        }
    }
}
