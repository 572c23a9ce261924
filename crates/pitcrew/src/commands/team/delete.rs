//! `pitcrew team delete`: deletes a team.

use std::path::PathBuf;
use std::time::Duration;

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_process::worktree::Finished;
use pitcrew_protocol::{AgentName, Member, MessageId, TaskId, TeamConfig, TeamDeleted, TeamDir};
use pitcrew_team::store::{LeaseName, StoreError};
use pitcrew_team::{Actor, Team};
use pitcrew_view::member_status::MemberStatus;
use pitcrew_view::orphans::{Orphans, StoppedView};
use pitcrew_view::running::Running;
use serde::Serialize;

use crate::commands::shutdown::is_agents;
use crate::context::Context;
use crate::failure::{Failure, FailureKind, chain};
use crate::hosting::recorded::recorded_panes;
use crate::output::{self, in_one_line, printable, shell_word};
use crate::selection::{self, NamedTeam, Purpose};

/// How long a process has to end after SIGTERM. Then the process is killed.
const TERM_GRACE: Duration = Duration::from_secs(3);

/// Delete a team whose teammates are all gone; its journal and conversations go to the archive
///
/// With --force, a team that no process runs is deleted in any state. Teammates that still run are
/// stopped, but only the processes and panes that were started for them. A damaged or incomplete
/// team folder is removed too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew team delete backend
  pitcrew team delete backend --force      after a crash")]
pub(crate) struct Delete {
    #[command(flatten)]
    team: NamedTeam,
    /// Stop teammates that still run, release their tasks, and delete the team even if its files
    /// are damaged
    #[arg(long)]
    force: bool,
}

/// The result that `pitcrew team delete` prints. It lists the members that were removed, and the
/// worktrees that were kept. The answer of the API has no such fields. To keep the same format, a
/// field is omitted when its list is empty.
#[derive(Debug, Serialize)]
struct Deleted {
    #[serde(flatten)]
    answer: TeamDeleted,
    /// The members that the command removed before it deleted the team.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed_members: Vec<RemovedMember>,
    /// The teammates, processes and panes that were stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stopped: Vec<StoppedView>,
    /// The worktrees that were kept, because they contain work that would be lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_worktrees: Vec<KeptWorktree>,
}

#[derive(Debug, Serialize)]
struct RemovedMember {
    name: AgentName,
    /// The tasks that have no owner any more.
    released_tasks: Vec<TaskId>,
    /// The unread messages that will not be delivered.
    dead_messages: Vec<MessageId>,
}

#[derive(Debug, Serialize)]
struct KeptWorktree {
    member: AgentName,
    path: PathBuf,
    /// The reason why the worktree was kept.
    reason: String,
}

impl From<TeamDeleted> for Deleted {
    fn from(answer: TeamDeleted) -> Self {
        Self {
            answer,
            removed_members: Vec::new(),
            stopped: Vec::new(),
            kept_worktrees: Vec::new(),
        }
    }
}

impl Deleted {
    fn text(&self) -> String {
        let kept = self.kept_worktrees.iter().map(|KeptWorktree { member, path, reason }| {
            let (member, path) = (printable(member.as_str()), path.to_string_lossy());
            format!("\nkept {member}'s worktree {}: {}", printable(&path), printable(reason))
        });
        let names: Vec<String> =
            self.removed_members.iter().map(|member| in_one_line(member.name.as_str())).collect();
        let removed =
            (!names.is_empty()).then(|| format!("\nmembers removed: {}", names.join(", ")));
        std::iter::once(self.answer.message.clone()).chain(removed).chain(kept).collect()
    }
}

impl Delete {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let deleted = if self.force {
            self.forced(context).await?
        } else {
            self.plain(context).await?.into()
        };
        if deleted.answer.success {
            return context.output.answer(&deleted, Deleted::text);
        }
        let team = shell_word(self.team.name());
        let removes = format!("`pitcrew member remove NAME --team {team}` removes a dead member");
        let removes = match self.is_led_elsewhere(context).await {
            true => removes,
            false => format!("`pitcrew shutdown {team}` ends a running team; {removes}"),
        };
        Err(Failure::new(FailureKind::Conflict, deleted.answer.message)
            .hint(removes)
            .hint(format!("`pitcrew team delete {team} --force` deletes it after a crash")))
    }

    /// Returns whether pitcrew cannot end the team, because another client leads it, another client
    /// led it until it died, or the leader is not known. Returns `false` if the team cannot be
    /// read.
    async fn is_led_elsewhere(&self, context: &Context) -> bool {
        let looked = async {
            let team = selection::open(context, Some(self.team.name()), Purpose::Change).await?;
            Ok::<_, Failure>(Running::of(&team, team.config().await?.as_ref()).await?)
        };
        match looked.await {
            Ok(Running::ByPitcrew { .. } | Running::No) | Err(_) => false,
            Ok(
                Running::BySession { .. }
                | Running::Stale { .. }
                | Running::Elsewhere { .. }
                | Running::Unknown,
            ) => true,
        }
    }

    async fn plain(&self, context: &Context) -> Result<TeamDeleted, Failure> {
        let team = selection::open(context, Some(self.team.name()), Purpose::Change).await?;
        refuse_session(&team).await?;
        Ok(team.delete(&Actor::User).await?)
    }

    async fn forced(&self, context: &Context) -> Result<Deleted, Failure> {
        let teams = context.teams()?;
        let opened = teams.open(self.team.name()).await;
        let (team, is_whole) = match &opened {
            Ok(team) => (team.clone(), true),
            // The team could not be opened, but the config in its folder can be read. Then the
            // folder belongs to another team, whose name maps to the same folder name. This folder
            // must not be deleted.
            Err(error) if teams.config_in(&TeamDir::of(self.team.name())).await.is_ok() => {
                return Err(error.clone().into());
            }
            Err(_) => (teams.at(&TeamDir::of(self.team.name()))?, false),
        };
        if is_whole {
            let config = team.config().await?;
            // If the lease of the team cannot be read, the state is computed without the lease.
            // `stop_all` below reads the lease again and handles the error.
            let running = Running::of(&team, &config)
                .await
                .unwrap_or_else(|_| Running::without_lease(&config));
            refuse(&team, &running)?;
            refuse_living(&team, &config, &running).await?;
        }
        // If the config is readable, each member is removed separately. Otherwise the members are
        // not known, and the code further below removes the whole folder.
        if let Some(stopped) = stop_all(context, &team).await?.filter(|_| is_whole) {
            let (mut removed_members, mut kept_worktrees) = (Vec::new(), Vec::new());
            for member in team.config().await?.teammates() {
                let removed = team.remove_member(&Actor::User, &member.name).await?;
                removed_members.push(RemovedMember {
                    name: member.name.clone(),
                    released_tasks: removed.released,
                    dead_messages: removed.dead,
                });
                kept_worktrees.extend(clear_worktree(context, member).await?);
            }
            let mut answer = team.delete(&Actor::User).await?;
            if !kept_worktrees.is_empty() {
                answer.message = format!("Cleaned up directories for team \"{}\"", team.name());
            }
            return Ok(Deleted { answer, removed_members, stopped, kept_worktrees });
        }
        let files = context.files(&context.usable_settings())?;
        match (files.clear_away(team.dir()).map_err(Failure::internal)?, opened) {
            (Some(_), _) => Ok(TeamDeleted::done(team.name().as_str()).into()),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(_)) => Ok(TeamDeleted::done(team.name().as_str()).into()),
        }
    }
}

/// Removes the worktree of a removed member. If work would be lost, the worktree is kept and
/// returned together with the reason.
async fn clear_worktree(
    context: &Context,
    member: &Member,
) -> Result<Option<KeptWorktree>, Failure> {
    let Some(path) =
        member.worktree_path.as_deref().map(PathBuf::from).filter(|path| path.exists())
    else {
        return Ok(None);
    };
    let settings = context.usable_settings();
    let worktrees = context.worktrees(&context.cwd).with_ignored(settings.ignored_files());
    // Git cannot remove the worktree in which git itself runs, and the user may call this command
    // inside that worktree. Git therefore runs in the main checkout.
    let worktrees = worktrees.in_repository_of(path.clone()).in_main_checkout().await;
    let finished = match worktrees.open(&path).await {
        Ok(worktree) => worktrees.finish(&worktree).await,
        Err(error) => Err(error),
    };
    let reason = match finished {
        Ok(Finished::Removed) => return Ok(None),
        Ok(Finished::Kept { reason }) => reason.to_string(),
        Err(error) => chain(&error),
    };
    Ok(Some(KeptWorktree { member: member.name.clone(), path, reason }))
}

/// Returns an error if a session of another client leads the team.
async fn refuse_session(team: &Team) -> Result<(), Failure> {
    refuse(team, &Running::of(team, team.config().await?.as_ref()).await?)
}

fn refuse(team: &Team, running: &Running) -> Result<(), Failure> {
    if let Running::BySession { .. } = running {
        let said = format!("team {} is {}", team.name(), running.text());
        return Err(Failure::new(FailureKind::Conflict, said)
            .hint("a session deletes its team when it ends"));
    }
    Ok(())
}

/// Returns an error if the client session that led the team is dead, but a teammate that pitcrew
/// did not start still runs. pitcrew does not end such a teammate, and without this check it would
/// continue without a team.
async fn refuse_living(team: &Team, config: &TeamConfig, running: &Running) -> Result<(), Failure> {
    if !matches!(running, Running::Stale { .. }) {
        return Ok(());
    }
    let started = team.started().await.unwrap_or_default();
    let all = MemberStatus::of(team, config, running).await?;
    let living = all.iter().filter(|it| it.runs() && !started.contains_key(it.name()));
    let living: Vec<(&AgentName, u32)> =
        living.filter_map(|it| Some((it.name(), it.pid()?))).collect();
    if living.is_empty() {
        return Ok(());
    }
    let named: Vec<String> =
        living.iter().map(|(name, pid)| format!("{name} (process {pid})")).collect();
    let pids: Vec<String> = living.iter().map(|(_, pid)| pid.to_string()).collect();
    let said = format!(
        "teammates of team {} still run, which pitcrew did not start: {}",
        team.name(),
        named.join(", ")
    );
    Err(Failure::new(FailureKind::Conflict, said).hint(format!(
        "end them where they are, or by `kill {}`; then delete the team",
        pids.join(" ")
    )))
}

/// Stops all processes of a team that no process leads, and returns what was stopped. Returns `None`
/// if the team does not exist, or if its records cannot be read.
async fn stop_all(context: &Context, team: &Team) -> Result<Option<Vec<StoppedView>>, Failure> {
    let holder = match team.lease_holder(&LeaseName::Run).await {
        Ok(holder) => holder,
        Err(StoreError::NoTeam { .. }) => return Ok(None),
        // Each of these errors means that no process holds the lease. `Corrupt`: the lease is not a
        // regular file, so it cannot be held. `NoFolder`: the team folder is a link, and pitcrew
        // starts no process in such a folder.
        Err(StoreError::Corrupt { .. } | StoreError::NoFolder { .. }) => None,
        Err(error) => return Err(Failure::internal(error)),
    };
    if let Some(process) = holder
        .as_ref()
        .map(|holder| ProcessIdentity::from(holder.process()))
        .filter(ProcessIdentity::is_alive)
    {
        let said = format!("team {} is run by process {}", team.name(), process.pid);
        let hint =
            format!("`pitcrew shutdown {} --force` ends it", shell_word(team.name().as_str()));
        let failure = Failure::new(FailureKind::Conflict, said);
        // An agent gets no hint, because it must not learn how to end the run to which it belongs.
        return Err(if is_agents(process) { failure } else { failure.hint(hint) });
    }
    // If the team's records of its processes cannot be read, no process can be stopped, and a later
    // attempt would fail in the same way. The caller then moves the whole folder to the archive.
    let Ok(stopped) = Orphans::of(team, recorded_panes(context)).stop(TERM_GRACE).await else {
        return Ok(None);
    };
    stopped
        .iter()
        .filter(|it| it.has_doubt())
        .for_each(|it| output::remark(&format!("warning: {}", it.line())));
    let stuck: Vec<String> = stopped.iter().filter(|it| !it.is_gone).map(|it| it.line()).collect();
    if stuck.is_empty() {
        return Ok(Some(stopped));
    }
    Err(Failure::new(
        FailureKind::Failed,
        format!("not all of team {} could be stopped: {}", team.name(), stuck.join(", ")),
    ))
}
