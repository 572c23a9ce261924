//! The check of worktrees that belong to no member, and of what pitcrew leaves alone beside them. The
//! check covers this repository and the repositories in which teams work.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pitcrew_process::worktree::{Finished, Leftover, Worktree, WorktreeError, Worktrees};
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
        let looked = match worktrees.common_folder().await {
            // Several folders can belong to the same repository. Each repository is checked once.
            Ok(repository) if seen.contains(&repository) => continue,
            Ok(repository) => {
                seen.insert(repository);
                in_repository(&worktrees, live, unread).await
            }
            Err(error) => Err(error),
        };
        match looked {
            Ok(found) => faults.extend(found),
            // A folder outside of any repository has no worktrees.
            Err(WorktreeError::NotARepository { .. }) => {}
            Err(error) => faults.push(unchecked("the worktrees", &Failure::internal(error))),
        }
    }
    faults.extend(rooms.worktrees.without_repository().into_iter().map(|(it, repository)| {
        let detail = format!(
            "the repository {} of this worktree of {} is gone or another one; the worktree is kept; \
             remove the folder by hand if you do not need it",
            repository.display(),
            it.member
        );
        let team = TeamDir::of(&it.team);
        let finding = Finding::new("worktree_without_repository", detail);
        Fault::left_to_a_person(finding.in_team(&team).at(&it.path))
    }));
    faults
}

async fn in_repository(
    worktrees: &Worktrees,
    live: &[PathBuf],
    unread: &[TeamDir],
) -> Result<Vec<Fault>, WorktreeError> {
    let orphans = worktrees.orphans(live).await?.into_iter();
    let known = orphans.filter(|it| !unread.contains(&TeamDir::of(&it.team)));
    let leftovers = worktrees.leftovers().await?;
    // Git cannot remove the worktree in which git itself runs. The repair therefore runs git in the
    // main checkout.
    let main = worktrees.in_main_checkout().await;
    let faults = known.map(|it| fault(&main, it));
    let left = leftovers.into_iter().map(|it| left(&main, it, live));
    Ok(faults.chain(left).collect())
}

/// Builds the fault or note about something that pitcrew does not remove by itself.
fn left(worktrees: &Worktrees, it: Leftover, live: &[PathBuf]) -> Fault {
    match it {
        Leftover::Unfinished(it) => {
            let detail = format!("the creation or removal of {}'s worktree was cut off", it.member);
            let team = TeamDir::of(&it.team);
            let finding = Finding::new("unfinished_worktree", detail).in_team(&team).at(&it.path);
            let remedy = Remedy::RecoverWorktree(worktrees.clone(), it);
            Fault::mended_by(remedy, "ended, or taken back if nobody has used it", finding)
        }
        Leftover::Unrecorded { path, claim } => unrecorded(&path, claim, live),
        Leftover::Unlisted(it) => {
            let detail = format!(
                "git does not list this worktree of {} any more, so it is kept; remove the folder \
                 by hand if you do not need it",
                it.member
            );
            let team = TeamDir::of(&it.team);
            let finding = Finding::new("unlisted_worktree", detail).in_team(&team).at(&it.path);
            Fault::left_to_a_person(finding)
        }
        Leftover::Earlier { path, claim } => {
            let detail = format!(
                "a file of an earlier version of pitcrew; {claim}; nothing is done by it, and you \
                 can remove it"
            );
            Fault::note(Finding::new("earlier_record", detail).at(&path))
        }
        Leftover::Unreadable { path, why } => {
            let detail =
                format!("the record of a worktree cannot be read: {why}; the worktree is kept");
            Fault::left_to_a_person(Finding::new("unreadable_record", detail).at(&path))
        }
    }
}

/// Builds the finding about a worktree of which there is no record. It is a fault if no member uses
/// the worktree.
fn unrecorded(path: &Path, claim: Option<String>, live: &[PathBuf]) -> Fault {
    let claim =
        claim.map(|claim| format!("; {claim}, and nothing is done by that")).unwrap_or_default();
    let made = "pitcrew has no record of this worktree; an earlier version may have made it";
    if live.iter().any(|it| it == path) {
        return Fault::note(
            Finding::new("unrecorded_worktree", format!("{made}{claim}; its member goes on in it"))
                .at(path),
        );
    }
    let remove = "it is kept; `git worktree remove` removes it and `git branch -d` its branch";
    let finding = Finding::new("unrecorded_worktree", format!("{made}{claim}; {remove}")).at(path);
    Fault::left_to_a_person(finding)
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

/// Ends the creation or removal of a worktree that was cut off.
pub(super) async fn recover(worktrees: &Worktrees, worktree: Worktree) -> Result<Mended, Failure> {
    worktrees.recover().await.map_err(Failure::internal)?;
    let left = worktrees.leftovers().await.map_err(Failure::internal)?;
    Ok(match left.contains(&Leftover::Unfinished(worktree)) {
        false => Mended::Done("what was begun is ended or taken back".to_owned()),
        true => Mended::Left("git still lists it; `git worktree list` shows why".to_owned()),
    })
}

pub(super) async fn finish(worktrees: &Worktrees, worktree: &Worktree) -> Result<Mended, Failure> {
    Ok(match worktrees.finish(worktree).await.map_err(Failure::internal)? {
        Finished::Removed => Mended::Done("removed; all its work exists elsewhere too".to_owned()),
        Finished::Kept { reason } => Mended::Left(reason.to_string()),
    })
}
