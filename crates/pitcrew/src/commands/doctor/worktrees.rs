//! The check of worktrees: those of this repository that no member has.

use std::path::PathBuf;

use pitcrew_protocol::TeamDir;
use pitcrew_runtime::worktree::{Finished, Worktree, WorktreeError};

use super::check::unchecked;
use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::Rooms;
use crate::failure::Failure;

/// Looks for worktrees at none of the `live` paths. Whose team cannot be read may have a member yet, and is passed over.
pub(super) async fn look(rooms: &Rooms, live: &[PathBuf], unread: &[TeamDir]) -> Vec<Fault> {
    let orphans = match rooms.worktrees.orphans(live).await {
        Ok(orphans) => orphans,
        // A folder that is in no repository has no worktrees.
        Err(WorktreeError::NotARepository { .. }) => return Vec::new(),
        Err(error) => return vec![unchecked("the worktrees", &Failure::internal(error))],
    };
    let is_known = |worktree: &Worktree| !unread.contains(&TeamDir::of(&worktree.team));
    orphans.into_iter().filter(is_known).map(fault).collect()
}

fn fault(it: Worktree) -> Fault {
    let detail = format!("worktree of {}, who is no member, on branch {}", it.member, it.branch);
    let finding = Finding::new("orphaned_worktree", detail).in_team(&TeamDir::of(&it.team)).at(&it.path);
    Fault::mended_by(Remedy::FinishWorktree(it), "removed if it holds nothing of its own", finding)
}

pub(super) async fn finish(rooms: &Rooms, worktree: &Worktree) -> Result<Mended, Failure> {
    Ok(match rooms.worktrees.finish(worktree).await.map_err(Failure::internal)? {
        Finished::Removed => Mended::Done("removed; it held nothing of its own".to_owned()),
        Finished::Kept { reason } => Mended::Left(reason.to_string()),
    })
}
