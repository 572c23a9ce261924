//! The check of worktrees that belong to no member. The check covers this repository and the
//! repositories in which teams work.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pitcrew_process::worktree::{Finished, Worktree, WorktreeError, Worktrees};
use pitcrew_protocol::TeamDir;

use super::check::unchecked;
use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::Rooms;
use crate::failure::Failure;

/// Finds worktrees whose path is not in `live`. Worktrees of the `unread` teams are skipped,
/// because the members of these teams are not known.
///
/// The search covers the repositories of the working folder, of the members' `folders`, and of the
/// worktrees below the root. A worktree below the root can exist after its member and team are
/// gone, so these worktrees are searched too.
pub(super) async fn look(
    rooms: &Rooms,
    live: &[PathBuf],
    folders: &BTreeSet<PathBuf>,
    unread: &[TeamDir],
) -> Vec<Fault> {
    let elsewhere = folders.iter().cloned().chain(rooms.worktrees.existing());
    let elsewhere = elsewhere
        .filter(|folder| folder.is_dir())
        .map(|folder| rooms.worktrees.in_repository_of(folder));
    let (mut faults, mut seen) = (Vec::new(), BTreeSet::new());
    for worktrees in std::iter::once(rooms.worktrees.clone()).chain(elsewhere) {
        let orphans = match worktrees.common_folder().await {
            // Several folders can belong to the same repository. Each repository is checked once.
            Ok(repository) if seen.contains(&repository) => continue,
            Ok(repository) => {
                seen.insert(repository);
                worktrees.orphans(live).await
            }
            Err(error) => Err(error),
        };
        match orphans {
            Ok(orphans) => {
                let known =
                    orphans.into_iter().filter(|it| !unread.contains(&TeamDir::of(&it.team)));
                // Git cannot remove the worktree in which git itself runs. The repair therefore
                // runs git in the main checkout.
                let main = worktrees.in_main_checkout().await;
                faults.extend(known.map(|it| fault(&main, it)));
            }
            // A folder outside of any repository has no worktrees.
            Err(WorktreeError::NotARepository { .. }) => {}
            Err(error) => faults.push(unchecked("the worktrees", &Failure::internal(error))),
        }
    }
    faults
}

fn fault(worktrees: &Worktrees, it: Worktree) -> Fault {
    let detail =
        format!("worktree of {}, which is not a member, on branch {}", it.member, it.branch);
    let finding =
        Finding::new("orphaned_worktree", detail).in_team(&TeamDir::of(&it.team)).at(&it.path);
    Fault::mended_by(
        Remedy::FinishWorktree(worktrees.clone(), it),
        "removed if it contains no work that exists nowhere else",
        finding,
    )
}

pub(super) async fn finish(worktrees: &Worktrees, worktree: &Worktree) -> Result<Mended, Failure> {
    Ok(match worktrees.finish(worktree).await.map_err(Failure::internal)? {
        Finished::Removed => Mended::Done("removed; all its work exists elsewhere too".to_owned()),
        Finished::Kept { reason } => Mended::Left(reason.to_string()),
    })
}
