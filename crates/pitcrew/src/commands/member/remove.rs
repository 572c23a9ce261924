//! `pitcrew member remove`: removes a member from its team.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{AgentName, Member, Program};
use pitcrew_team::{Actor, SpawnRecord, Team};
use pitcrew_view::member_status::{MemberStatus, ProcessState};
use pitcrew_view::running::Running;
use serde_json::json;

use crate::completing;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::shell_word;
use crate::selection::TeamChoice;
use crate::settle;

/// Remove a member from the team: its tasks are released, the senders of its unread mail are told
///
/// If another client started the member, this does not end the member, and its lead does not learn
/// of it. So --force is needed while that client may still run.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The member to remove
    #[arg(add = ArgValueCompleter::new(completing::members))]
    name: String,
    #[command(flatten)]
    team: TeamChoice,
    /// Remove the member from the team's files even if another client may still run it
    #[arg(long)]
    force: bool,
}

impl Remove {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open_of(context, &self.name).await?;
        let (config, name) = (team.config().await?, team.bare_name(&self.name).await);
        let running = Running::of(&team, &config).await?;
        let all = MemberStatus::of(&team, &config, &running).await?;
        let is_it = |(member, _): &(&Member, &MemberStatus)| member.is_called(&name);
        let member = config.members.iter().zip(&all).find(is_it);
        let outlives = member.and_then(|(member, state)| Outlives::of(member, state, &running));
        if let Some(outlives) = outlives.as_ref().filter(|_| !self.force) {
            outlives.may_be_removed(&name, &team, &running)?;
        }
        let was_running = member.is_some_and(|(_, it)| it.runs());
        let removed = team.remove_member(&Actor::User, &AgentName::foreign(&name)).await?;
        settle::until_kept(&team).await?;
        let answer = json!({
            "success": true,
            "message": format!("{name} is no longer a member of {}", team.name()),
            "was_running": was_running,
            "released_tasks": removed.released,
            "dead_messages": removed.dead,
        });
        let tasks: Vec<String> = removed.released.iter().map(|id| format!("#{id}")).collect();
        context.output.answer(&answer, |_| {
            let mut text = format!("{name} is no longer a member of {}", team.name());
            match outlives {
                Some(outlives) => text += &format!("\n{}", outlives.text(&team)),
                None if was_running => {
                    text += "\nit was running; its process ends it now, in the middle of its work";
                }
                None => {}
            }
            if !tasks.is_empty() {
                text += &format!("\nfree again: {}", tasks.join(" "));
            }
            if !removed.dead.is_empty() {
                text += &format!(
                    "\nunread messages that will not be delivered: {}",
                    removed.dead.len()
                );
                text += "; their senders in the team are informed";
            }
            text
        })
    }
}

/// A member whose process still runs, or possibly still runs, after the member is removed from the
/// team.
enum Outlives {
    /// Another client started the member, and the member still runs.
    OfClient { pid: Option<u32> },
    /// Another client started the member. It is not known whether the member still runs.
    Unknown,
    /// An earlier pitcrew run started the reference client for the member, and that client still
    /// runs.
    OfEndedRun { pid: Option<u32> },
}

impl Outlives {
    fn of(member: &Member, state: &MemberStatus, running: &Running) -> Option<Self> {
        let pid = state.pid();
        match (SpawnRecord::of(member).map(|record| record.program), state.state()) {
            (_, ProcessState::Gone | ProcessState::NotRunning) => None,
            (None, ProcessState::Running | ProcessState::Starting | ProcessState::Late) => {
                Some(Self::OfClient { pid })
            }
            (None, ProcessState::Unknown) => Some(Self::Unknown),
            // A pitcrew member reads the config and ends by itself when the config no longer lists
            // the member.
            (Some(Program::Pitcrew), _) => None,
            (Some(Program::Claude), ProcessState::Unknown) => None,
            (
                Some(Program::Claude),
                ProcessState::Running | ProcessState::Starting | ProcessState::Late,
            ) => match running {
                Running::ByPitcrew { .. } => None,
                Running::BySession { .. }
                | Running::Stale { .. }
                | Running::Elsewhere { .. }
                | Running::No
                | Running::Unknown => Some(Self::OfEndedRun { pid }),
            },
        }
    }

    /// Returns an error if another client started the member and may still run the member.
    fn may_be_removed(&self, name: &str, team: &Team, running: &Running) -> Result<(), Failure> {
        let said = match self {
            Self::OfClient { .. } | Self::Unknown => {
                format!("{name} is a teammate of another client, {}", self.state())
            }
            // An earlier run of pitcrew started the reference client of this member. `pitcrew
            // shutdown` can still end that client after the member is removed, so the removal is
            // allowed.
            Self::OfEndedRun { .. } => return Ok(()),
        };
        let failure = Failure::new(FailureKind::Conflict, said);
        let failure = match running {
            Running::No | Running::Stale { .. } => failure,
            Running::ByPitcrew { .. }
            | Running::BySession { .. }
            | Running::Elsewhere { .. }
            | Running::Unknown => {
                let team = shell_word(team.name().as_str());
                failure.hint(format!(
                    "its lead can have it leave; `pitcrew send --team {team} team-lead` can ask for that"
                ))
            }
        };
        Err(failure
            .hint("--force takes it out of the team's files only: it is not ended, and its lead does not learn of it"))
    }

    fn state(&self) -> String {
        match self {
            Self::OfClient { pid: Some(pid) } | Self::OfEndedRun { pid: Some(pid) } => {
                format!("and runs as process {pid}")
            }
            Self::OfClient { pid: None } | Self::OfEndedRun { pid: None } => "and runs".to_owned(),
            Self::Unknown => "and whether it runs is not known".to_owned(),
        }
    }

    /// Tells the user which process still runs, or may still run, after the member was removed.
    fn text(&self, team: &Team) -> String {
        let team = shell_word(team.name().as_str()).into_owned();
        match self {
            Self::OfClient { .. } => {
                format!("it is a teammate of another client, {}: nothing ended it", self.state())
            }
            Self::Unknown => {
                "whether it runs is not known: another client started it, and nothing ended it"
                    .to_owned()
            }
            Self::OfEndedRun { .. } => {
                format!(
                    "its client was started by an earlier run, {}; `pitcrew shutdown {team}` ends it",
                    self.state()
                )
            }
        }
    }
}
