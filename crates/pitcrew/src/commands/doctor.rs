//! `pitcrew doctor`: what crashes left behind, below the root and in this repository.
//!
//! What is wrong with files is the store's to know; here it is put together with what only looks wrong beside the rest:
//! members whose process is gone, mail for nobody, worktrees without a member.

mod reference;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_protocol::{AgentName, MessageId, TeamConfig, TeamDir};
use pitcrew_runtime::identity::{ProcessIdentity, Stopped};
use pitcrew_runtime::supervision::{PaneClosed, RecordedPanes, TaggedPane, left_running, stop_member};
use pitcrew_runtime::worktree::{Finished, Worktree, Worktrees};
use pitcrew_store::{Event, FileBackend, LeaseName, Leaving};
use pitcrew_team::{Actor, SpawnRecord, Started, Team, Teams};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::printable;

/// Look for what crashes left behind: stale locks, torn files, processes, panes, dead members, their mail and worktrees
///
/// Changes nothing without --repair. Ends with 1 while something is left to do. A team that was killed can be gone on
/// with (`pitcrew run --resume TEAM`); do that first, for a repair lets its dead members go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew doctor --repair
  pitcrew doctor --reference      does the installed claude write anything that pitcrew does not know?")]
pub(crate) struct Doctor {
    /// Mend what can be mended; what is taken out is kept in the archive
    #[arg(long)]
    repair: bool,
    /// Compare instead what the reference client wrote below the root with what is known of it: fields of configs, members,
    /// messages, frames and tasks, and their order. Ends with 1 when there is something new
    #[arg(long, conflicts_with = "repair")]
    reference: bool,
}

/// How long an orphan has to heed TERM before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(3);

/// What is wrong, and what is needed to mend it.
enum Fault {
    Left(Leaving),
    Started {
        team: Team,
        name: AgentName,
        started: Box<Started>,
    },
    /// A pane with the tag of the team that no record tells of.
    Pane {
        team: Team,
        pane: TaggedPane,
    },
    LeftRunning {
        team: Team,
        owner: ProcessIdentity,
        processes: Vec<ProcessIdentity>,
    },
    DeadMember {
        team: Team,
        name: AgentName,
    },
    DeadMail {
        team: Team,
        name: AgentName,
        ids: Vec<MessageId>,
    },
    Orphan(Worktree),
}

/// What is shown of it.
#[derive(Debug, Serialize)]
struct Finding {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    detail: String,
    /// What was done about it; null while it is as it was.
    repaired: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<Finding>,
    total: usize,
    left: usize,
}

impl Doctor {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        if self.reference {
            return context.briefly(reference::run(context));
        }
        let report = context.briefly(self.report(context))?;
        context.output.answer(&report, Report::text)?;
        if report.left == 0 {
            return Ok(());
        }
        Err(Failure::told(FailureKind::Failed))
    }

    async fn report(&self, context: &Context) -> Result<Report, Failure> {
        let rooms = Rooms::open(context)?;
        let mut findings = Vec::new();
        for fault in rooms.faults().await? {
            let mut finding = Finding::of(&fault);
            if self.repair {
                finding.repaired = rooms.mend(fault).await?;
            }
            findings.push(finding);
        }
        let left = findings.iter().filter(|finding| finding.repaired.is_none()).count();
        Ok(Report { total: findings.len(), left, findings })
    }
}

/// Where the doctor looks.
struct Rooms {
    files: FileBackend,
    teams: Teams,
    worktrees: Worktrees,
    panes: RecordedPanes,
}

impl Rooms {
    fn open(context: &Context) -> Result<Self, Failure> {
        let settings = context.settings_with(&context.cwd, None)?;
        let panes = RecordedPanes::below(&context.root);
        let worktrees = Worktrees::new(&context.cwd, Worktrees::folder_below(&context.root));
        Ok(Self { files: context.files(&settings)?, teams: context.teams_with(&settings)?, worktrees, panes })
    }

    async fn faults(&self) -> Result<Vec<Fault>, Failure> {
        let mut faults: Vec<Fault> =
            self.files.leavings().map_err(Failure::internal)?.into_iter().map(Fault::Left).collect();
        let mut worktrees = Vec::new();
        for dir in self.teams.backend().teams().await.map_err(Failure::internal)? {
            // A team that cannot be read is among the files' faults.
            let Ok(team) = self.teams.open(dir.as_str()).await else { continue };
            let config = team.config().await?;
            worktrees.extend(config.members.iter().filter_map(|m| m.worktree_path.as_ref()).map(PathBuf::from));
            // Other clients' teams have no lease of ours, and nobody but they knows who is alive in them.
            if config.members.first().is_some_and(|lead| SpawnRecord::of(lead).is_some()) {
                // A record that is torn is told as such, and what it would tell is known when it is mended.
                let is_torn = |fault: &Fault| match fault {
                    Fault::Left(Leaving::Torn { path, .. }) => {
                        team.file().parent().is_some_and(|it| path.starts_with(it))
                    }
                    Fault::Left(_)
                    | Fault::Started { .. }
                    | Fault::Pane { .. }
                    | Fault::LeftRunning { .. }
                    | Fault::DeadMember { .. }
                    | Fault::DeadMail { .. }
                    | Fault::Orphan(_) => false,
                };
                let is_damaged = faults.iter().any(is_torn);
                match self.faults_of(&team, &mut faults).await {
                    Err(error) if !is_damaged => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        // A folder that is in no repository has no worktrees.
        let orphans = self.worktrees.orphans(&worktrees).await.unwrap_or_default();
        faults.extend(orphans.into_iter().map(Fault::Orphan));
        Ok(faults)
    }

    async fn faults_of(&self, team: &Team, faults: &mut Vec<Fault>) -> Result<(), Failure> {
        let config = team.config().await?;
        let holder = team.backend().lease_holder(team.dir(), &LeaseName::Run).await.map_err(Failure::internal)?;
        if holder.is_none() {
            self.unled(team, &config, faults).await?;
        }
        for name in self.files.inboxes(team.dir()).map_err(Failure::internal)? {
            let has_reader = config.members.iter().any(|member| member.name.inbox_file() == name.inbox_file());
            // A torn inbox is among the files' faults.
            let Ok(unread) = team.unread(&name).await else { continue };
            if !has_reader && !unread.is_empty() {
                let ids = unread.into_iter().map(|mail| mail.id).collect();
                faults.push(Fault::DeadMail { team: team.clone(), name, ids });
            }
        }
        Ok(())
    }

    /// What is wrong with members when nobody leads the team.
    async fn unled(&self, team: &Team, config: &TeamConfig, faults: &mut Vec<Fault>) -> Result<(), Failure> {
        let started = team.started().await?;
        for (owner, processes) in left_running(team).await? {
            faults.push(Fault::LeftRunning { team: team.clone(), owner, processes });
        }
        let is_recorded =
            |pane: &TaggedPane| started.values().any(|started| started.pane.as_ref() == Some(&pane.place));
        let unknown = self.panes.of_team(team).await?.into_iter().filter(|pane| !is_recorded(pane));
        faults.extend(unknown.map(|pane| Fault::Pane { team: team.clone(), pane }));
        let mut dead = Vec::new();
        for member in config.teammates().filter(|member| SpawnRecord::of(member).is_some()) {
            let lease = team.backend().lease_holder(team.dir(), &LeaseName::of_member(&member.name)).await;
            // One that runs without anybody having started it has joined by itself.
            let has_joined = lease.map_err(Failure::internal)?.is_some() && !started.contains_key(&member.name);
            if !has_joined {
                dead.push(Fault::DeadMember { team: team.clone(), name: member.name.clone() });
            }
        }
        // What runs for a member is stopped before the member goes.
        faults.extend(started.into_iter().map(|(name, started)| Fault::Started {
            team: team.clone(),
            name,
            started: Box::new(started),
        }));
        faults.extend(dead);
        Ok(())
    }

    /// Mends a fault and says what was done; nothing when only a person can.
    async fn mend(&self, fault: Fault) -> Result<Option<String>, Failure> {
        match fault {
            // A team without a config is no team: what it was is for a person to say.
            Fault::Left(Leaving::Torn { path, .. }) if is_config(&path) => Ok(None),
            Fault::Left(leaving) => {
                let moved = self.files.mend(&leaving).map_err(Failure::internal)?;
                Ok(Some(moved.map_or_else(|| "removed".to_owned(), |place| format!("moved to {}", place.display()))))
            }
            Fault::Started { team, name, started } => {
                let stopped = stop_member(&team, &self.panes, TERM_GRACE, (name, *started)).await?;
                Ok(stopped.is_gone().then(|| "stopped".to_owned()))
            }
            Fault::Pane { pane, .. } => Ok((pane.close().await == PaneClosed::Closed).then(|| "closed".to_owned())),
            Fault::LeftRunning { owner, .. } => {
                Ok((owner.stop(TERM_GRACE).await != Stopped::StillRunning).then(|| "stopped".to_owned()))
            }
            Fault::DeadMember { team, name } => {
                let removed = team.remove_member(&Actor::User, &name).await?;
                let (tasks, mail) = (removed.released.len(), removed.dead.len());
                Ok(Some(format!("removed; {tasks} tasks are free again, {mail} unread messages told as dead")))
            }
            Fault::DeadMail { team, name, ids } => {
                let dead = |id: &MessageId| Event::MessageDead {
                    id: id.clone(),
                    to: name.clone(),
                    reason: format!("{name} is no member"),
                };
                team.note(ids.iter().map(dead)).await;
                let acknowledged = team.backend().acknowledge(team.dir(), &name.inbox_file(), &ids).await;
                acknowledged.map_err(Failure::internal)?;
                Ok(Some("told as dead".to_owned()))
            }
            Fault::Orphan(worktree) => match self.worktrees.finish(&worktree).await.map_err(Failure::internal)? {
                Finished::Removed => Ok(Some("removed; it held nothing of its own".to_owned())),
                Finished::Kept { .. } => Ok(None),
            },
        }
    }
}

impl Finding {
    fn of(fault: &Fault) -> Self {
        let finding = |kind, team: Option<&TeamDir>, path: Option<&Path>, detail: String| Self {
            kind,
            team: team.map(TeamDir::to_string),
            path: path.map(Path::to_owned),
            detail,
            repaired: None,
        };
        match fault {
            Fault::Left(Leaving::StaleLock { path }) => finding("stale_lock", None, Some(path), String::new()),
            Fault::Left(Leaving::Unfinished { path }) => finding("unfinished", None, Some(path), String::new()),
            Fault::Left(Leaving::Torn { path, reason }) => finding("torn", None, Some(path), reason.clone()),
            Fault::Left(Leaving::HalfArchived { team, path }) => {
                finding("half_archived", Some(team), Some(path), "its tasks are not in the archive yet".to_owned())
            }
            Fault::Started { team, name, started } => {
                let is_alive = started.process.map(ProcessIdentity::from).is_some_and(|process| process.is_alive());
                let process = started.process.map(|process| format!("process {}", process.pid));
                let pane = started.pane.as_ref().map(|pane| format!("pane {pane}"));
                let what = process.into_iter().chain(pane).collect::<Vec<_>>().join(" in ");
                let state = if is_alive { "runs on" } else { "has ended and is not cleared away" };
                let detail = format!("{what} of {name} {state}; nobody leads the team");
                finding("orphaned_process", Some(team.dir()), None, detail)
            }
            Fault::Pane { team, pane } => {
                let whose = pane.tag.agent.as_ref().map(|agent| format!(" of {agent}")).unwrap_or_default();
                let detail = format!("pane {}{whose} is no member's; nobody leads the team", pane.place);
                finding("orphaned_pane", Some(team.dir()), None, detail)
            }
            Fault::LeftRunning { team, owner, processes } => {
                let pids = processes.iter().map(|process| process.pid.to_string()).collect::<Vec<_>>().join(", ");
                let detail = format!("left running by {owner}, which is dead: {pids}");
                finding("orphaned_command", Some(team.dir()), None, detail)
            }
            Fault::DeadMember { team, name } => {
                let detail = format!("{name} has no process; nobody runs the team");
                finding("dead_member", Some(team.dir()), None, detail)
            }
            Fault::DeadMail { team, name, ids } => {
                let detail = format!("{} unread messages for {name}, who is no member", ids.len());
                finding("dead_mail", Some(team.dir()), None, detail)
            }
            Fault::Orphan(it) => {
                let detail = format!("worktree of {}, who is no member, on branch {}", it.member, it.branch);
                let team = TeamDir::of(&it.team);
                finding("orphaned_worktree", Some(&team), Some(&it.path), detail)
            }
        }
    }
}

fn is_config(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config.json")
}

impl Report {
    fn text(&self) -> String {
        if self.findings.is_empty() {
            return "all is well".to_owned();
        }
        let lines = self.findings.iter().map(|finding| {
            let team = finding.team.as_ref().map(|team| format!(" in team {team}")).unwrap_or_default();
            let path = finding.path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default();
            let detail = if finding.detail.is_empty() { String::new() } else { format!(": {}", finding.detail) };
            let done = finding.repaired.as_ref().map(|done| format!(" -> {done}")).unwrap_or_default();
            printable(&format!("{}{team}{path}{detail}{done}", finding.kind.replace('_', " "))).into_owned()
        });
        let mut text = lines.collect::<Vec<_>>().join("\n");
        text += &format!("\n{} found, {} left", self.total, self.left);
        text
    }
}
