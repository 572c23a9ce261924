//! A fault that `pitcrew doctor` found: the finding to show and the remedy that repairs it.

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_process::sandbox::Unfinished;
use pitcrew_process::worktree::{Worktree, Worktrees};
use pitcrew_protocol::{AgentName, MessageId, TeamDir};
use pitcrew_runtime::supervision::TaggedPane;
use pitcrew_team::store::{Damage, Keep};
use pitcrew_team::{Started, Team};

use super::report::Finding;
use super::rooms::Rooms;
use super::{files, mail, overwritten, planted, processes, records, tasks, worktrees};
use crate::failure::Failure;

/// One problem that a check found.
pub(super) struct Fault {
    pub(super) finding: Finding,
    pub(super) remedy: Option<Remedy>,
}

/// The way to repair a fault.
pub(super) enum Remedy {
    /// The store repairs the damaged file.
    Files(Damage),
    /// Restores the changes that another program overwrote.
    PutBack(TeamDir),
    /// Stops the processes that a dead member's process left running, closes the member's pane, and
    /// removes the records about them. A process that does not belong to pitcrew is not stopped.
    ClearAway { team: Team, name: AgentName, started: Box<Started> },
    /// Closes a terminal pane.
    ClosePane(Box<TaggedPane>),
    /// Stops the processes that a dead agent process left running.
    StopLeft(ProcessIdentity),
    /// Removes the unreadable entries of one of the team's documents.
    TakeOutEntries { team: Team, document: &'static str },
    /// Releases the tasks of an owner that is not a member of the team.
    FreeTasks { team: Team, owner: AgentName },
    /// Marks messages as dead, because their recipient is not a member.
    GiveUpMail { team: Team, name: AgentName, ids: Vec<MessageId> },
    /// Removes a worktree that belongs to no member. The worktree stays if work in it would be
    /// lost.
    FinishWorktree(Worktrees, Worktree),
    /// Ends the creation or removal of a worktree whose process has died.
    RecoverWorktree(Worktrees, Worktree),
    /// Moves files that a command of a killed run created. At their new place, the files have no
    /// effect.
    PutAside(Unfinished),
}

/// The result of applying a remedy.
pub(super) enum Mended {
    /// The fault was repaired. The text says how.
    Done(String),
    /// The fault was not repaired. The text says why.
    Left(String),
}

impl Fault {
    /// Builds a fault that only a person can repair.
    pub(super) fn left_to_a_person(finding: Finding) -> Self {
        Self { finding, remedy: None }
    }

    /// Builds a note: the user is informed, and nothing needs a repair.
    pub(super) fn note(mut finding: Finding) -> Self {
        finding.is_note = true;
        Self { finding, remedy: None }
    }

    /// Builds a fault that `remedy` can repair. `does` describes the effect of the remedy for the
    /// user.
    pub(super) fn mended_by(remedy: Remedy, does: &str, mut finding: Finding) -> Self {
        finding.repair = Some(does.to_owned());
        Self { finding, remedy: Some(remedy) }
    }

    /// Applies the remedy and writes the result into the finding. If the remedy fails, the fault
    /// stays unrepaired, and the remedies of other faults still run.
    pub(super) async fn repaired(self, rooms: &Rooms, keep: &mut Keep) -> Finding {
        let Self { mut finding, remedy } = self;
        let Some(remedy) = remedy else { return finding };
        match remedy.apply(rooms, keep).await {
            Ok(Mended::Done(done)) => finding.repaired = Some(done),
            Ok(Mended::Left(why)) => finding.left_because = Some(why),
            Err(error) => finding.left_because = Some(error.chain()),
        }
        finding
    }
}

impl Remedy {
    async fn apply(self, rooms: &Rooms, keep: &mut Keep) -> Result<Mended, Failure> {
        match self {
            Self::Files(damage) => files::repair(rooms, &damage, keep),
            Self::PutBack(team) => overwritten::put_back(rooms, &team),
            Self::ClearAway { team, name, started } => {
                processes::clear_away(rooms, &team, name, *started).await
            }
            Self::ClosePane(pane) => Ok(processes::close(&pane).await),
            Self::StopLeft(owner) => Ok(processes::stop_left(owner).await),
            Self::TakeOutEntries { team, document } => {
                records::take_out(rooms, &team, document, keep).await
            }
            Self::FreeTasks { team, owner } => tasks::free(&team, &owner).await,
            Self::GiveUpMail { team, name, ids } => mail::give_up(&team, &name, &ids).await,
            Self::FinishWorktree(repository, worktree) => {
                worktrees::finish(&repository, &worktree).await
            }
            Self::RecoverWorktree(repository, worktree) => {
                worktrees::recover(&repository, worktree).await
            }
            Self::PutAside(command) => Ok(planted::put_aside(command)),
        }
    }
}
