//! Telling what changes in a team, whoever changes it: the kernel's notices, one thread for all teams.
//!
//! Where the kernel cannot tell (network and user-space file systems) a watcher is told to look for itself now and then.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use pitcrew_protocol::{AgentName, TeamDir};
use tokio::sync::broadcast;

use super::backend::Files;
use super::lease;
use super::paths::{JOURNAL, lease_in};
use super::tasks::HIGH_WATER;
use crate::{Change, StoreError, Watch};

/// How many changes a watcher may lag behind before it is told to look at everything; a busy team makes some hundred a second.
const WATCH_BOUND: usize = 1024;

/// How often a watcher looks for itself where the kernel cannot tell.
const SAFETY_POLL: Duration = Duration::from_secs(30);

/// All watchers of one store.
#[derive(Default)]
pub(crate) struct Watchers {
    /// Never locked by the thread that hands out the notices: adding a folder waits for that thread.
    kernel: Mutex<Option<RecommendedWatcher>>,
    routes: Arc<Mutex<Routes>>,
}

/// Which notices go where.
#[derive(Default)]
struct Routes {
    folders: HashMap<PathBuf, (TeamDir, Folder)>,
    teams: HashMap<TeamDir, Route>,
    rounds: u64,
}

struct Route {
    round: u64,
    changes: broadcast::Sender<Change>,
    is_polled: bool,
}

/// What a watched folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    Team,
    Inboxes,
    Tasks,
    Ours,
}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchers").field("teams", &routes(&self.routes).teams.len()).finish()
    }
}

/// One watcher's place; the folders are let go with the last.
struct Subscription {
    files: Arc<Files>,
    team: TeamDir,
    round: u64,
    changes: Option<broadcast::Receiver<Change>>,
    is_polled: bool,
}

impl Files {
    pub(crate) fn watch(self: &Arc<Self>, team: &TeamDir) -> Result<Watch, StoreError> {
        self.must_exist(team)?;
        let mut kernel = self.watchers.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let known = routes(&self.watchers.routes).subscribe(team);
        let (round, changes, is_polled) = match known {
            Some(known) => known,
            None => {
                let folders = self.folders_of(team);
                let is_polled = !self.add_folders(&mut kernel, &folders);
                routes(&self.watchers.routes).add(team, folders, is_polled)
            }
        };
        drop(kernel);
        let place =
            Subscription { files: Arc::clone(self), team: team.clone(), round, changes: Some(changes), is_polled };
        Ok(stream::unfold(place, Subscription::next).boxed())
    }

    /// A team's folders; those a reference client makes later are made now, so that they can be watched.
    fn folders_of(&self, team: &TeamDir) -> Vec<(PathBuf, Folder)> {
        let (inboxes, tasks, ours) = (self.paths.inboxes(team), self.paths.tasks(team), self.paths.ours(team));
        for dir in [&inboxes, &tasks, &ours] {
            if let Err(error) = std::fs::create_dir_all(dir) {
                tracing::debug!(path = %dir.display(), %error, "watching without it");
            }
        }
        let all = [
            (self.paths.team(team), Folder::Team),
            (inboxes, Folder::Inboxes),
            (tasks, Folder::Tasks),
            (ours, Folder::Ours),
        ];
        all.into_iter().filter(|(dir, _)| dir.is_dir()).collect()
    }

    /// Asks the kernel for notices; whether it can give them for all folders.
    fn add_folders(self: &Arc<Self>, kernel: &mut Option<RecommendedWatcher>, folders: &[(PathBuf, Folder)]) -> bool {
        let made = match kernel.take() {
            Some(there) => Ok(there),
            None => {
                let (files, routes) = (Arc::downgrade(self), Arc::clone(&self.watchers.routes));
                notify::recommended_watcher(move |notice| hand_out(&files, &routes, notice))
            }
        };
        let there = match made {
            Ok(there) => kernel.insert(there),
            Err(error) => {
                tracing::warn!(%error, "the system cannot watch; looking every 30 s");
                return false;
            }
        };
        let mut all = true;
        for (dir, _) in folders {
            if let Err(error) = there.watch(dir, RecursiveMode::NonRecursive) {
                tracing::warn!(path = %dir.display(), %error, "the folder cannot be watched; looking every 30 s");
                all = false;
            }
            all &= can_notify(dir);
        }
        all
    }
}

impl Watchers {
    /// Tells a team's watchers that it is gone.
    pub(crate) fn tell_gone(&self, team: &TeamDir) {
        routes(&self.routes).tell_gone(team);
    }
}

impl Routes {
    fn subscribe(&self, team: &TeamDir) -> Option<(u64, broadcast::Receiver<Change>, bool)> {
        self.teams.get(team).map(|route| (route.round, route.changes.subscribe(), route.is_polled))
    }

    fn add(
        &mut self,
        team: &TeamDir,
        folders: Vec<(PathBuf, Folder)>,
        is_polled: bool,
    ) -> (u64, broadcast::Receiver<Change>, bool) {
        self.rounds += 1;
        let (changes, told) = broadcast::channel(WATCH_BOUND);
        self.teams.insert(team.clone(), Route { round: self.rounds, changes, is_polled });
        self.folders.extend(folders.into_iter().map(|(dir, folder)| (dir, (team.clone(), folder))));
        (self.rounds, told, is_polled)
    }

    /// Nobody may be listening any more; that is no failure.
    fn tell(&self, team: &TeamDir, change: Change) {
        if let Some(route) = self.teams.get(team) {
            let _listeners = route.changes.send(change);
        }
    }

    fn tell_gone(&mut self, team: &TeamDir) {
        self.tell(team, Change::Gone);
        self.teams.remove(team);
        self.folders.retain(|_, (of, _)| of != team);
    }
}

impl Subscription {
    async fn next(mut self) -> Option<(Change, Self)> {
        let changes = self.changes.as_mut()?;
        let told = if self.is_polled {
            match tokio::time::timeout(SAFETY_POLL, changes.recv()).await {
                Ok(told) => told,
                Err(_) => return Some((Change::Unsure, self)),
            }
        } else {
            changes.recv().await
        };
        let change = match told {
            Ok(change) => change,
            Err(broadcast::error::RecvError::Lagged(_)) => Change::Unsure,
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        if change == Change::Gone {
            self.changes = None;
        }
        Some((change, self))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.changes = None;
        let mut kernel = self.files.watchers.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let unwatched: Vec<PathBuf> = {
            let mut routes = routes(&self.files.watchers.routes);
            let is_last = routes
                .teams
                .get(&self.team)
                .is_some_and(|route| route.round == self.round && route.changes.receiver_count() == 0);
            if !is_last {
                return;
            }
            routes.teams.remove(&self.team);
            let (gone, kept) =
                std::mem::take(&mut routes.folders).into_iter().partition(|(_, (of, _))| *of == self.team);
            routes.folders = kept;
            let gone: HashMap<PathBuf, (TeamDir, Folder)> = gone;
            gone.into_keys().collect()
        };
        let Some(kernel) = kernel.as_mut() else { return };
        for dir in unwatched {
            if let Err(error) = kernel.unwatch(&dir) {
                tracing::debug!(path = %dir.display(), %error, "was not watched any more");
            }
        }
    }
}

fn routes(routes: &Mutex<Routes>) -> MutexGuard<'_, Routes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns one notice of the kernel into changes; runs on the thread of the notices.
fn hand_out(files: &Weak<Files>, all: &Mutex<Routes>, notice: notify::Result<notify::Event>) {
    let notice = match notice {
        Ok(notice) => notice,
        Err(error) => {
            tracing::warn!(%error, "the watcher failed");
            tell_all_unsure(all);
            return;
        }
    };
    if notice.need_rescan() {
        tell_all_unsure(all);
        return;
    }
    let Some(said) = Said::by(notice.kind) else { return };
    let Some(files) = files.upgrade() else { return };
    for path in &notice.paths {
        let found = {
            let routes = routes(all);
            let itself = routes.folders.get(path);
            itself.or_else(|| routes.folders.get(path.parent()?)).map(|(team, folder)| (team.clone(), *folder))
        };
        let Some((team, folder)) = found else { continue };
        if folder == Folder::Team && files.must_exist(&team).is_err_and(|e| matches!(e, StoreError::NoTeam { .. })) {
            routes(all).tell_gone(&team);
            continue;
        }
        let Some(change) = change_of(folder, path) else { continue };
        match (said, &change) {
            (Said::Written, Change::Lease(_)) => {}
            (Said::Written, _) if cfg!(target_os = "linux") => continue,
            (Said::Closed, Change::Lease(_)) => lease::wait_for_end(path),
            (Said::Written | Said::Closed, _) => files.verify(&team, &change, path),
        }
        routes(all).tell(&team, change);
    }
}

fn tell_all_unsure(all: &Mutex<Routes>) {
    let routes = routes(all);
    for team in routes.teams.keys() {
        routes.tell(team, Change::Unsure);
    }
}

impl Files {
    /// Looks whether the change has overwritten one of ours.
    fn verify(&self, team: &TeamDir, change: &Change, path: &Path) {
        let done = match change {
            Change::Config => self.verify_config(team).map(drop),
            Change::Inbox(inbox) => self.verify_mail(team, inbox).map(drop),
            Change::Tasks => self.verify_tasks(team).map(drop),
            Change::Journal | Change::Lease(_) | Change::Gone | Change::Unsure => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(path = %path.display(), %error, "cannot see whether a change of ours was overwritten");
        }
    }
}

/// What a notice says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// It was written in place. On Linux that counts for a lease only, whose writer keeps it open; all else counts when
    /// its writer closes it, so that nobody reads it half-written.
    Written,
    /// It is there whole, or is gone.
    Closed,
}

impl Said {
    fn by(kind: EventKind) -> Option<Self> {
        match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) | EventKind::Remove(_) => Some(Self::Closed),
            // Told once for each end on Linux, and then for both.
            EventKind::Modify(ModifyKind::Name(RenameMode::Both)) if cfg!(target_os = "linux") => None,
            EventKind::Modify(ModifyKind::Name(_)) => Some(Self::Closed),
            EventKind::Modify(ModifyKind::Data(_)) => Some(Self::Written),
            EventKind::Create(_) if !cfg!(target_os = "linux") => Some(Self::Written),
            EventKind::Create(_) | EventKind::Any | EventKind::Other | EventKind::Modify(_) | EventKind::Access(_) => {
                None
            }
        }
    }
}

/// What a file of a watched folder is; `None` for locks, temporary files, and what is not the team's.
fn change_of(folder: Folder, path: &Path) -> Option<Change> {
    let name = path.file_name()?.to_str()?;
    match folder {
        Folder::Team => (name == "config.json").then_some(Change::Config),
        Folder::Ours if name == JOURNAL => Some(Change::Journal),
        Folder::Ours => lease_in(name).map(Change::Lease),
        Folder::Tasks => (name.ends_with(".json") || name == HIGH_WATER).then_some(Change::Tasks),
        Folder::Inboxes => {
            let stem = name.strip_suffix(".json")?;
            let inbox = AgentName::foreign(stem).inbox_file();
            (inbox.as_str() == stem).then_some(Change::Inbox(inbox))
        }
    }
}

/// Whether the kernel sees all changes of the file system that holds `path`; it does not see those of other machines,
/// nor of programs behind FUSE.
#[cfg(target_os = "linux")]
pub(crate) fn can_notify(path: &Path) -> bool {
    const BLIND: [u32; 8] = [
        0x6969,      // NFS
        0x517B,      // SMB
        0xFF53_4D42, // CIFS
        0xFE53_4D42, // SMB2
        0x6573_5546, // FUSE
        0x0102_1997, // 9p
        0x00C3_6400, // Ceph
        0x5346_414F, // AFS
    ];
    match rustix::fs::statfs(path) {
        Ok(system) => !BLIND.iter().any(|magic| i128::from(*magic) == i128::from(system.f_type) & 0xFFFF_FFFF),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot tell the file system");
            false
        }
    }
}

/// Whether the kernel sees all changes; other systems are trusted to.
#[cfg(not(target_os = "linux"))]
pub(crate) fn can_notify(_path: &Path) -> bool {
    true
}
