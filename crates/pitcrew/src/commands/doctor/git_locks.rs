//! The check of lock files that commands left in the git folders of this checkout and of worktrees.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use pitcrew_process::sandbox::GitLock;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::Rooms;
use crate::context::Context;

/// A younger lock file may be that of a git that runs.
const OLD: Duration = Duration::from_secs(60);

pub(super) fn look(context: &Context, rooms: &Rooms) -> Vec<Fault> {
    let folders = std::iter::once(context.cwd.clone()).chain(rooms.worktrees.existing());
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let locks = folders.flat_map(|folder| GitLock::all_in(&folder));
    let old = locks.filter(|lock| is_old(lock) && seen.insert(lock.path.clone()));
    let finding = |lock: GitLock| {
        let detail = format!(
            "a command left this lock file of git: until it is removed, {}; if no git runs there, \
             remove it",
            lock.costs
        );
        Fault::left_to_a_person(Finding::new("git_lock", detail).at(&lock.path))
    };
    old.map(finding).collect()
}

fn is_old(lock: &GitLock) -> bool {
    let changed = lock.path.symlink_metadata().and_then(|meta| meta.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age >= OLD))
}
