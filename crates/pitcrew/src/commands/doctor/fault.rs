//! A fault: what is shown of it, and what mends it.

use pitcrew_protocol::{AgentName, MessageId, TeamDir};
use pitcrew_runtime::identity::ProcessIdentity;
use pitcrew_runtime::sandbox::Unfinished;
use pitcrew_runtime::supervision::TaggedPane;
use pitcrew_runtime::worktree::{Worktree, Worktrees};
use pitcrew_store::{Damage, Keep};
use pitcrew_team::{Started, Team};

use super::report::Finding;
use super::rooms::Rooms;
use super::{files, mail, overwritten, planted, processes, records, tasks, worktrees};
use crate::failure::Failure;

/// Something that is wrong.
pub(super) struct Fault {
    pub(super) finding: Finding,
    pub(super) remedy: Option<Remedy>,
}

/// What mends a fault.
pub(super) enum Remedy {
    /// The store does.
    Files(Damage),
    /// What another program undid is put back.
    PutBack(TeamDir),
    /// What a member's dead process left is cleared away.
    ClearAway { team: Team, name: AgentName, started: Box<Started> },
    /// A pane is closed.
    ClosePane(Box<TaggedPane>),
    /// What a dead process left running is stopped.
    StopLeft(ProcessIdentity),
    /// What cannot be read of a document is taken out of it.
    TakeOutEntries { team: Team, document: &'static str },
    /// The tasks of somebody who is no member are put back into the pool.
    FreeTasks { team: Team, owner: AgentName },
    /// Mail for nobody is noted as dead.
    GiveUpMail { team: Team, name: AgentName, ids: Vec<MessageId> },
    /// A worktree without a member is removed when it holds nothing of its own.
    FinishWorktree(Worktrees, Worktree),
    /// What a command of a killed run made is put aside.
    PutAside(Unfinished),
}

/// What came of a remedy.
pub(super) enum Mended {
    /// It was mended so.
    Done(String),
    /// It is as it was, for this reason.
    Left(String),
}

impl Fault {
    /// A fault that only a person can mend.
    pub(super) fn left_to_a_person(finding: Finding) -> Self {
        Self { finding, remedy: None }
    }

    /// What is to be known and is no fault.
    pub(super) fn note(mut finding: Finding) -> Self {
        finding.is_note = true;
        Self { finding, remedy: None }
    }

    /// A fault with its remedy, and what that does.
    pub(super) fn mended_by(remedy: Remedy, does: &str, mut finding: Finding) -> Self {
        finding.repair = Some(does.to_owned());
        Self { finding, remedy: Some(remedy) }
    }

    /// Mends it, and says in its finding what came of that. A remedy that fails leaves the fault, and the others go on.
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
            Self::PutAside(command) => Ok(planted::put_aside(command)),
        }
    }
}
