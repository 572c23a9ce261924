//! Reports all changes in a team, from every program. The kernel sends notices, and one thread
//! handles them for all teams.
//!
//! The kernel watches a folder and not its path. So a folder that is removed, moved or replaced
//! must be watched anew, see `watched`. If the kernel cannot report changes, the watcher polls.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher};
use pitcrew_protocol::{AgentName, TeamDir};
use tokio::sync::broadcast;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::backend::Files;
use super::lease;
use super::paths::{JOURNAL, lease_in};
use super::tasks::HIGH_WATER;
use super::watched::{Folder, Notices, Place, Watched};
use crate::{Change, StoreError, Watch, own_mode};

/// Number of changes that a watcher may lag behind before it must read everything again. A busy
/// team makes some hundreds per second.
const WATCH_BOUND: usize = 1024;

/// Polling interval if the kernel reports only changes of this machine.
const SAFETY_POLL: Duration = Duration::from_secs(30);

/// Polling interval if the kernel reports no changes.
const POLL: Duration = Duration::from_secs(1);

/// Interval of checks for a missing folder or config, until it counts as gone.
const MISSING_POLL: Duration = Duration::from_millis(50);

/// Time without a config after which a team counts as gone. Some programs replace a file by
/// removing it first, and a folder that is moved away may be moved back.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// Time for which pitcrew's own folder may be missing before it is created again for its leases. A
/// program that removes the whole team has removed the config by then.
const OURS_MISSING: Duration = Duration::from_millis(500);

/// All watchers of one store.
#[derive(Default)]
pub(crate) struct Watchers {
    /// The kernel watcher. The thread that distributes the notices must never lock this, because
    /// adding a folder waits for that thread.
    pub(super) kernel: Mutex<Option<RecommendedWatcher>>,
    pub(super) routes: Arc<Mutex<Routes>>,
}

/// The watched folders, and the receivers of each team's notices.
#[derive(Default)]
pub(super) struct Routes {
    /// Every folder that should be watched, whether it exists or not.
    pub(super) folders: HashMap<PathBuf, Watched>,
    teams: HashMap<TeamDir, Route>,
    rounds: u64,
}

struct Route {
    round: u64,
    told: broadcast::Sender<Told>,
}

/// A message from the notice thread to a watcher.
#[derive(Clone, Debug)]
enum Told {
    /// A change to pass on.
    Change(Change),
    /// A watched folder or the config may have been moved or removed.
    Moved,
}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchers").field("teams", &routes(&self.routes).teams.len()).finish()
    }
}

/// One watcher of a team. Dropping the last one stops watching the team's folders.
struct Subscription {
    files: Arc<Files>,
    team: TeamDir,
    round: u64,
    told: Option<broadcast::Receiver<Told>>,
    notices: Notices,
    /// Changes to report before anything else.
    due: VecDeque<Change>,
    config_missing: Option<Instant>,
    ours_missing: Option<Instant>,
    is_slow_told: bool,
}

impl Files {
    pub(crate) fn watch(self: &Arc<Self>, team: &TeamDir) -> Result<Watch, StoreError> {
        self.must_exist(team)?;
        // Creates the folders that a reference client would create only later, because a missing
        // folder cannot be watched.
        for dir in [self.paths.inboxes(team), self.paths.tasks(team), self.paths.ours(team)] {
            if let Err(error) = own_mode::create_folders(&dir) {
                tracing::debug!(path = %dir.display(), %error, "watching without it");
            }
        }
        let (round, told) = routes(&self.watchers.routes).subscribe(team);
        let mut place = Subscription {
            files: Arc::clone(self),
            team: team.clone(),
            round,
            told: Some(told),
            notices: Notices::All,
            due: VecDeque::new(),
            config_missing: None,
            ours_missing: None,
            is_slow_told: false,
        };
        let look = self.look_after(team);
        place.heed(look.notices);
        Ok(stream::unfold(place, Subscription::next).boxed())
    }
}

impl Watchers {
    /// Tells a team's watchers that the team is gone.
    pub(crate) fn tell_gone(&self, team: &TeamDir) {
        routes(&self.routes).tell_gone(team);
    }
}

impl Routes {
    fn subscribe(&mut self, team: &TeamDir) -> (u64, broadcast::Receiver<Told>) {
        if let Some(route) = self.teams.get(team) {
            return (route.round, route.told.subscribe());
        }
        self.rounds += 1;
        let (told, receiver) = broadcast::channel(WATCH_BOUND);
        self.teams.insert(team.clone(), Route { round: self.rounds, told });
        (self.rounds, receiver)
    }

    /// Whether anybody watches the team.
    pub(super) fn knows(&self, team: &TeamDir) -> bool {
        self.teams.contains_key(team)
    }

    /// Sends a message to the team's watchers. It is no error if there are none any more.
    fn tell(&self, team: &TeamDir, told: Told) {
        if let Some(route) = self.teams.get(team) {
            let _listeners = route.told.send(told);
        }
    }

    fn tell_gone(&mut self, team: &TeamDir) {
        self.tell(team, Told::Change(Change::Gone));
        self.teams.remove(team);
    }

    /// Marks a watched folder whose path may now lead to another folder, and all folders below it.
    /// Returns whether the path is a watched folder.
    fn moved(&mut self, path: &Path) -> bool {
        let Some(watched) = self.folders.get(path) else { return false };
        let told = match watched.place.clone() {
            Place::Of(team, _) => vec![team],
            Place::Above => self.teams.keys().cloned().collect(),
        };
        // If a folder is moved, the watches of all folders below it become invalid too.
        self.folders
            .iter_mut()
            .filter(|(dir, _)| dir.starts_with(path))
            .for_each(|(_, watched)| watched.doubt());
        told.iter().for_each(|team| self.tell(team, Told::Moved));
        true
    }
}

impl Subscription {
    async fn next(mut self) -> Option<(Change, Self)> {
        loop {
            if let Some(change) = self.due.pop_front() {
                // This is the last change, so the stream ends after it.
                if change == Change::Gone {
                    self.told = None;
                }
                return Some((change, self));
            }
            let pause = self.pause();
            let told = self.told.as_mut()?;
            let told = match pause {
                Some(pause) => tokio::time::timeout(pause, told.recv()).await.ok(),
                None => Some(told.recv().await),
            };
            match told {
                Some(Ok(Told::Change(change))) => self.due.push_back(change),
                Some(Err(broadcast::error::RecvError::Closed)) => return None,
                // A lost notice may have been about a folder.
                Some(Ok(Told::Moved) | Err(broadcast::error::RecvError::Lagged(_))) | None => {
                    self.look().await
                }
            }
        }
    }

    /// Returns the longest wait for the next notice, or `None` if the kernel reports every change.
    fn pause(&self) -> Option<Duration> {
        if self.config_missing.is_some() || self.ours_missing.is_some() {
            return Some(MISSING_POLL);
        }
        match self.notices {
            Notices::All => None,
            Notices::OfThisMachine => Some(SAFETY_POLL),
            Notices::None { .. } => Some(POLL),
        }
    }

    /// Checks whether all folders are still the watched ones, watches new folders, and queues the
    /// resulting changes.
    async fn look(&mut self) {
        let (files, team) = (Arc::clone(&self.files), self.team.clone());
        let makes_ours = self.ours_missing.is_some_and(|since| since.elapsed() >= OURS_MISSING);
        let looked = spawn_blocking(move || {
            let look = files.look_after(&team);
            let renewed =
                if look.is_ours_there || makes_ours { files.renew_leases(&team) } else { 0 };
            (look, renewed)
        });
        // The job is dropped when the async runtime shuts down. This watcher ends then too.
        let Ok((look, renewed)) = looked.await else { return };
        if !look.is_config_there {
            // Some clients remove the config before they write it anew, so the team is not gone
            // yet.
            let since = *self.config_missing.get_or_insert_with(Instant::now);
            if since.elapsed() >= GONE_AFTER {
                routes(&self.files.watchers.routes).tell_gone(&self.team);
            }
            return;
        }
        let was_missing = self.config_missing.take().is_some();
        // The folder may be missing because the whole team is being removed. So there is a pause
        // before the leases create the folder again.
        let waits = !look.is_ours_there && self.files.holds_leases(&self.team) && renewed == 0;
        let waited = self.ours_missing.is_some();
        self.ours_missing = waits.then(|| self.ours_missing.unwrap_or_else(Instant::now));
        let polled = self.notices != Notices::All;
        self.heed(look.notices);
        if look.is_changed || was_missing || renewed > 0 || (polled && !waited) {
            self.due.push_back(Change::Unsure);
        }
    }

    /// Records which notices the kernel gives now. Queues [`Change::Unwatched`] if the kernel gives
    /// no notices.
    fn heed(&mut self, notices: Notices) {
        match &notices {
            Notices::None { reason } if !self.is_slow_told => {
                self.is_slow_told = true;
                tracing::warn!(reason, "looking every second");
                self.due.push_back(Change::Unwatched { reason: reason.clone() });
            }
            Notices::None { .. } => {}
            Notices::All | Notices::OfThisMachine => self.is_slow_told = false,
        }
        self.notices = notices;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.told = None;
        let is_last = {
            let mut routes = routes(&self.files.watchers.routes);
            let is_last = match routes.teams.get(&self.team) {
                Some(route) => route.round == self.round && route.told.receiver_count() == 0,
                // The team is gone, but its folders are still watched.
                None => true,
            };
            if is_last {
                routes.teams.remove(&self.team);
            }
            is_last
        };
        if is_last {
            self.files.let_go(&self.team);
        }
    }
}

pub(super) fn routes(routes: &Mutex<Routes>) -> MutexGuard<'_, Routes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns one kernel notice into changes for the watchers. Runs on the notice thread.
pub(super) fn hand_out(
    files: &Weak<Files>,
    all: &Mutex<Routes>,
    notice: notify::Result<notify::Event>,
) {
    let notice = match notice {
        Ok(notice) => notice,
        Err(error) => {
            tracing::warn!(%error, "the watcher failed");
            tell_all_moved(all);
            return;
        }
    };
    // The kernel's queue overflowed, so some notices are lost.
    if notice.need_rescan() {
        tell_all_moved(all);
        return;
    }
    let said = Said::by(notice.kind);
    let Some(files) = files.upgrade() else { return };
    for path in &notice.paths {
        if is_of_a_place(notice.kind) && routes(all).moved(path) {
            continue;
        }
        let Some(said) = said else { continue };
        let found = path
            .parent()
            .and_then(|dir| routes(all).folders.get(dir).map(|watched| watched.place.clone()));
        let Some(Place::Of(team, folder)) = found else { continue };
        let Some(change) = change_of(folder, path) else { continue };
        // The client may be replacing the config, so the watcher first waits for the config to come
        // back.
        if change == Change::Config && !files.has_config(&team) {
            routes(all).tell(&team, Told::Moved);
            continue;
        }
        match (said, &change) {
            (Said::Written, Change::Lease(_)) => {}
            (Said::Written, _) if cfg!(target_os = "linux") => continue,
            // The file closes a moment before its lock ends. A watcher told too early would still
            // find a holder.
            (Said::Closed, Change::Lease(_)) => lease::wait_for_end(path),
            (Said::Written | Said::Closed, Change::Inbox(_)) => {
                // The change is reported before the comparison, because another client may remove
                // the messages during the comparison. Restored messages cause a new notice.
                routes(all).tell(&team, Told::Change(change.clone()));
                files.verify(&team, &change, path);
                continue;
            }
            (Said::Written | Said::Closed, _) => files.verify(&team, &change, path),
        }
        if matches!(change, Change::Lease(_)) && matches!(notice.kind, EventKind::Remove(_)) {
            // If the file of one of this store's leases was removed, the check takes the lease
            // again.
            routes(all).tell(&team, Told::Moved);
        }
        routes(all).tell(&team, Told::Change(change));
    }
}

/// Whether the notice may be about a folder that appeared, disappeared or was replaced.
fn is_of_a_place(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
    )
}

/// Marks all folders as doubtful and tells all watchers to check. After lost notices, neither the
/// changes nor the existing folders are known.
fn tell_all_moved(all: &Mutex<Routes>) {
    let mut routes = routes(all);
    routes.folders.values_mut().for_each(Watched::doubt);
    for team in routes.teams.keys() {
        routes.tell(team, Told::Moved);
    }
}

impl Files {
    /// Checks whether the change has overwritten a change of pitcrew, and restores it.
    fn verify(&self, team: &TeamDir, change: &Change, path: &Path) {
        let done = match change {
            Change::Config => self.verify_config(team).map(drop),
            Change::Inbox(inbox) => self.verify_mail(team, inbox).map(drop),
            Change::Tasks => self.verify_tasks(team).map(drop),
            Change::Journal
            | Change::Lease(_)
            | Change::Gone
            | Change::Unsure
            | Change::Unwatched { .. } => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(path = %path.display(), %error, "cannot see whether a change of ours was overwritten");
        }
    }
}

/// The event that a notice reports about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// The file was written in place. On Linux this counts only for a lease, because its writer
    /// keeps the file open. All other files count when their writer closes them, so that nobody
    /// reads a half-written file.
    Written,
    /// The file is complete, or it is gone.
    Closed,
}

impl Said {
    fn by(kind: EventKind) -> Option<Self> {
        match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) | EventKind::Remove(_) => {
                Some(Self::Closed)
            }
            // Linux reports a rename once for each path and then once for both. This third notice
            // is ignored.
            EventKind::Modify(ModifyKind::Name(RenameMode::Both)) if cfg!(target_os = "linux") => {
                None
            }
            EventKind::Modify(ModifyKind::Name(_)) => Some(Self::Closed),
            EventKind::Modify(ModifyKind::Data(_)) => Some(Self::Written),
            EventKind::Create(_) if !cfg!(target_os = "linux") => Some(Self::Written),
            EventKind::Create(_)
            | EventKind::Any
            | EventKind::Other
            | EventKind::Modify(_)
            | EventKind::Access(_) => None,
        }
    }
}

/// Returns the change that a file of a watched folder stands for. Returns `None` for locks,
/// temporary files and files that do not belong to the team.
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

/// Whether the kernel sees all changes of the file system that holds `path`. It does not see
/// changes by other machines or by programs behind FUSE.
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
        Ok(system) => {
            !BLIND.iter().any(|magic| i128::from(*magic) == i128::from(system.f_type) & 0xFFFF_FFFF)
        }
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot tell the file system");
            false
        }
    }
}

/// Whether the kernel sees all changes. On systems other than Linux this is assumed.
#[cfg(not(target_os = "linux"))]
pub(crate) fn can_notify(_path: &Path) -> bool {
    true
}
