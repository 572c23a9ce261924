//! `pitcrew team delete`.

use std::time::Duration;

use pitcrew_protocol::{TeamDeleted, TeamDir};
use pitcrew_runtime::identity::ProcessIdentity;
use pitcrew_store::{LeaseName, StoreError};
use pitcrew_team::{Actor, Team};

use crate::commands::shutdown::is_agents;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::leftovers::Leftovers;
use crate::output;
use crate::running::Running;
use crate::selection::{self, NamedTeam};

/// How long what still runs has to heed TERM before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(3);

/// Delete a team whose teammates are all gone; its journal and conversations go to the archive
///
/// With --force a team that nobody runs is deleted whatever is left of it: teammates that still run are stopped, only the
/// very processes and panes that were started for them, and half of a team is cleared away too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew team delete backend
  pitcrew team delete backend --force      after a crash")]
pub(crate) struct Delete {
    #[command(flatten)]
    team: NamedTeam,
    /// Stop what still runs for its teammates, release their tasks, and delete it even when its files are damaged
    #[arg(long)]
    force: bool,
}

impl Delete {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let deleted = if self.force { self.forced(context).await? } else { self.plain(context).await? };
        if deleted.success {
            return context.output.answer(&deleted, |deleted| deleted.message.clone());
        }
        Err(Failure::new(FailureKind::Conflict, deleted.message)
            .hint("`pitcrew shutdown` ends a running team; `pitcrew member remove NAME` removes one that is dead")
            .hint("`pitcrew team delete NAME --force` deletes it after a crash"))
    }

    async fn plain(&self, context: &Context) -> Result<TeamDeleted, Failure> {
        let team = selection::open(context, Some(self.team.name())).await?;
        refuse_session(&team).await?;
        Ok(team.delete(&Actor::User).await?)
    }

    async fn forced(&self, context: &Context) -> Result<TeamDeleted, Failure> {
        let teams = context.teams()?;
        let opened = teams.open(self.team.name()).await;
        let (team, is_whole) = match &opened {
            Ok(team) => (team.clone(), true),
            // A team whose config can be read is another one, whose name falls on the same folder.
            Err(error) if teams.backend().team(&TeamDir::of(self.team.name())).await.is_ok() => {
                return Err(error.clone().into());
            }
            Err(_) => (teams.at(&TeamDir::of(self.team.name()))?, false),
        };
        if is_whole {
            let config = team.config().await?;
            // Whoever holds the lease is told below, as far as it can be used.
            let running = Running::of(&team, &config).await.unwrap_or_else(|_| Running::without_lease(&config));
            refuse(&team, &running)?;
        }
        if stop_all(context, &team).await? && is_whole {
            for member in team.config().await?.teammates() {
                team.remove_member(&Actor::User, &member.name).await?;
            }
            return Ok(team.delete(&Actor::User).await?);
        }
        let files = context.files(&context.settings_with(&context.cwd, None)?)?;
        match (files.clear_away(team.dir()).map_err(Failure::internal)?, opened) {
            (Some(_), _) => Ok(TeamDeleted::done(team.name().as_str())),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(_)) => Ok(TeamDeleted::done(team.name().as_str())),
        }
    }
}

/// Refuses a team that a session of another client leads.
async fn refuse_session(team: &Team) -> Result<(), Failure> {
    refuse(team, &Running::of(team, team.config().await?.as_ref()).await?)
}

fn refuse(team: &Team, running: &Running) -> Result<(), Failure> {
    if let Running::BySession { .. } = running {
        let said = format!("team {} is {}", team.name(), running.text());
        return Err(Failure::new(FailureKind::Conflict, said).hint("a session deletes its team when it ends"));
    }
    Ok(())
}

/// Stops all that runs for a team that nobody runs; whether there is a team to speak of.
async fn stop_all(context: &Context, team: &Team) -> Result<bool, Failure> {
    let holder = match team.backend().lease_holder(team.dir(), &LeaseName::Run).await {
        Ok(holder) => holder,
        Err(StoreError::NoTeam { .. }) => return Ok(false),
        // Nobody holds what is no file, and nothing of ours is to be found behind a link.
        Err(StoreError::Corrupt { .. } | StoreError::NoFolder { .. }) => None,
        Err(error) => return Err(Failure::internal(error)),
    };
    if let Some(process) = holder.as_ref().map(ProcessIdentity::from).filter(ProcessIdentity::is_alive) {
        let said = format!("team {} is run by process {}", team.name(), process.pid);
        let hint = format!("`pitcrew shutdown {} --force` ends it", team.dir());
        let failure = Failure::new(FailureKind::Conflict, said);
        return Err(if is_agents(process) { failure } else { failure.hint(hint) });
    }
    // A record that cannot be read will not tell later either what else runs; it goes to the archive as it is.
    let Ok(stopped) = Leftovers::of(context, team).stop(TERM_GRACE).await else { return Ok(false) };
    stopped.iter().filter(|it| it.has_doubt()).for_each(|it| output::remark(&format!("warning: {}", it.line())));
    let stuck: Vec<String> = stopped.iter().filter(|it| !it.is_gone).map(|it| it.line()).collect();
    if stuck.is_empty() {
        return Ok(true);
    }
    Err(Failure::new(
        FailureKind::Failed,
        format!("not all of team {} could be stopped: {}", team.name(), stuck.join(", ")),
    ))
}
