//! `pitcrew doctor`: what crashes left behind, below the root and in this repository.
//!
//! What is wrong with files is the store's to know; here it is put together with what only looks wrong beside the rest:
//! members whose process is gone, mail for nobody, worktrees without a member.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{AgentName, MessageId, TeamDir};
use pitcrew_runtime::worktree::{Finished, Worktree, Worktrees};
use pitcrew_store::{Event, FileBackend, Leaving};
use pitcrew_team::{Actor, SpawnRecord, Team, Teams};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::printable;

/// Look for what crashes left behind: stale locks, torn files, dead members, their unread mail and worktrees
///
/// Changes nothing without --repair. Ends with 1 while something is left to do. A team that was killed can be gone on
/// with (`pitcrew run --resume TEAM`); do that first, for a repair lets its dead members go.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Mend what can be mended; what is taken out is kept in the archive
    #[arg(long)]
    repair: bool,
}

/// What is wrong, and what is needed to mend it.
enum Fault {
    Left(Leaving),
    DeadMember { team: Team, name: AgentName },
    DeadMail { team: Team, name: AgentName, ids: Vec<MessageId> },
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
}

impl Rooms {
    fn open(context: &Context) -> Result<Self, Failure> {
        let settings = context.settings_with(&context.cwd, None)?;
        let worktrees = Worktrees::new(&context.cwd, Worktrees::folder_below(&context.root));
        Ok(Self { files: context.files(&settings)?, teams: context.teams_with(&settings)?, worktrees })
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
                self.faults_of(&team, &mut faults).await?;
            }
        }
        // A folder that is in no repository has no worktrees.
        let orphans = self.worktrees.orphans(&worktrees).await.unwrap_or_default();
        faults.extend(orphans.into_iter().map(Fault::Orphan));
        Ok(faults)
    }

    async fn faults_of(&self, team: &Team, faults: &mut Vec<Fault>) -> Result<(), Failure> {
        let config = team.config().await?;
        let holder = team.backend().lease_holder(team.dir()).await.map_err(Failure::internal)?;
        if holder.is_none() {
            let dead = config.teammates().filter(|member| SpawnRecord::of(member).is_some());
            faults.extend(dead.map(|member| Fault::DeadMember { team: team.clone(), name: member.name.clone() }));
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

    /// Mends a fault and says what was done; nothing when only a person can.
    async fn mend(&self, fault: Fault) -> Result<Option<String>, Failure> {
        match fault {
            // A team without a config is no team: what it was is for a person to say.
            Fault::Left(Leaving::Torn { path, .. }) if is_config(&path) => Ok(None),
            Fault::Left(leaving) => {
                let moved = self.files.mend(&leaving).map_err(Failure::internal)?;
                Ok(Some(moved.map_or_else(|| "removed".to_owned(), |place| format!("moved to {}", place.display()))))
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
