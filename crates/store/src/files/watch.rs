//! Reports all changes in a team, whichever program makes them. The kernel sends a notice for each
//! change, and one thread handles the notices for all teams.
//!
//! The kernel watches a folder and not the path of the folder. Therefore a folder that is removed,
//! moved or replaced must be watched again, see `watched`. If the kernel cannot report changes, the
//! watcher polls.

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

/// Number of changes that can wait for a watcher. If a watcher falls further behind, it must read
/// everything again. A busy team makes some hundreds of changes per second.
const WATCH_BOUND: usize = 1024;

/// Polling interval if the kernel reports only changes that are made on this machine.
const SAFETY_POLL: Duration = Duration::from_secs(30);

/// Polling interval if the kernel reports no changes.
const POLL: Duration = Duration::from_secs(1);

/// Polling interval while a folder or the config is missing, until the team counts as gone.
const MISSING_POLL: Duration = Duration::from_millis(50);

/// Time without a config after which a team counts as gone. Some programs replace a file by
/// removing it first. Also, a folder that was moved away can come back.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// Time that pitcrew's own folder must be missing before it is created again for the held leases.
/// If a program removes the whole team, it has removed the config within this time.
const OURS_MISSING: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Watchers {
    /// The watcher of the notify crate, inside a lock. The thread that handles the notices must
    /// never take the lock, because this would be a deadlock: the code that adds a folder holds the
    /// lock and waits for this thread.
    pub(super) kernel: Mutex<Option<RecommendedWatcher>>,
    pub(super) routes: Arc<Mutex<Routes>>,
}

/// The watched folders, and for each team the receivers of its changes.
#[derive(Default)]
pub(super) struct Routes {
    /// Every folder that should be watched, even if it does not exist now.
    pub(super) folders: HashMap<PathBuf, Watched>,
    teams: HashMap<TeamDir, Route>,
    rounds: u64,
}

struct Route {
    round: u64,
    told: broadcast::Sender<Told>,
}

/// A message from the thread that handles notices to a watcher.
#[derive(Clone, Debug)]
enum Told {
    /// A change that the watcher reports.
    Change(Change),
    /// A watched folder or the config was perhaps moved or removed, so the watcher must check the
    /// folders and the config.
    Moved,
}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchers").field("teams", &routes(&self.routes).teams.len()).finish()
    }
}

/// One watcher of a team. When the last watcher of a team is dropped, the team's folders are no
/// longer watched.
struct Subscription {
    files: Arc<Files>,
    team: TeamDir,
    round: u64,
    told: Option<broadcast::Receiver<Told>>,
    notices: Notices,
    /// Changes that are reported before the watcher waits for new messages.
    due: VecDeque<Change>,
    config_missing: Option<Instant>,
    ours_missing: Option<Instant>,
    is_slow_told: bool,
}

impl Files {
    pub(crate) fn watch(self: &Arc<Self>, team: &TeamDir) -> Result<Watch, StoreError> {
        self.must_exist(team)?;
        // A missing folder cannot be watched. Therefore folders that a reference client would
        // create only later are created now.
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
        // From now on, each change of the config is read when it is reported.
        self.see_config(team);
        Ok(stream::unfold(place, Subscription::next).boxed())
    }
}

impl Watchers {
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

    /// Whether the team has a watcher.
    pub(super) fn knows(&self, team: &TeamDir) -> bool {
        self.teams.contains_key(team)
    }

    /// Sends a message to the team's watchers. If there are no watchers, this does nothing.
    fn tell(&self, team: &TeamDir, told: Told) {
        if let Some(route) = self.teams.get(team) {
            let _listeners = route.told.send(told);
        }
    }

    fn tell_gone(&mut self, team: &TeamDir) {
        self.tell(team, Told::Change(Change::Gone));
        self.teams.remove(team);
    }

    /// Marks a watched folder and all folders below it as doubtful: another folder may be at the
    /// path now. Tells the watchers. Returns whether `path` is a watched folder.
    fn moved(&mut self, path: &Path) -> bool {
        let Some(watched) = self.folders.get(path) else { return false };
        let told = match watched.place.clone() {
            Place::Of(team, _) => vec![team],
            Place::Above => self.teams.keys().cloned().collect(),
        };
        // When a folder is moved, the watches of all folders below it become invalid too.
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
                // `Gone` is the last change of a stream, so the receiver is dropped.
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
                Some(Ok(Told::Change(change))) => {
                    // Another program may have overwritten the record of a lease of this process.
                    let is_lease = matches!(change, Change::Lease(_));
                    self.due.push_back(change);
                    if is_lease && self.files.holds_leases(&self.team) {
                        self.look().await;
                    }
                }
                Some(Err(broadcast::error::RecvError::Closed)) => return None,
                // If notices were lost (`Lagged`), one of them was possibly about a folder, so all
                // folders are checked.
                Some(Ok(Told::Moved) | Err(broadcast::error::RecvError::Lagged(_))) | None => {
                    self.look().await
                }
            }
        }
    }

    /// Returns the longest time to wait for the next notice before the next poll. Returns `None` if
    /// the kernel reports every change, because then no poll is needed.
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

    /// Checks whether the folders of the team are still the watched folders. Watches new folders,
    /// and queues the changes that follow from the check.
    async fn look(&mut self) {
        let (files, team) = (Arc::clone(&self.files), self.team.clone());
        let makes_ours = self.ours_missing.is_some_and(|since| since.elapsed() >= OURS_MISSING);
        let looked = spawn_blocking(move || {
            let look = files.look_after(&team);
            let renewed =
                if look.is_ours_there || makes_ours { files.renew_leases(&team) } else { 0 };
            (look, renewed)
        });
        // The result is missing only if the async runtime is shutting down. Then this watcher ends
        // too.
        let Ok((look, renewed)) = looked.await else { return };
        if !look.is_config_there {
            // Some clients remove the config before they write it again. Therefore the team counts
            // as gone only after a while.
            let since = *self.config_missing.get_or_insert_with(Instant::now);
            if since.elapsed() >= GONE_AFTER {
                routes(&self.files.watchers.routes).tell_gone(&self.team);
            }
            return;
        }
        let was_missing = self.config_missing.take().is_some();
        // Pitcrew's folder may be missing because another program is removing the whole team.
        // Therefore there is a pause before the folder is created again for the leases.
        let waits = !look.is_ours_there && self.files.holds_leases(&self.team) && renewed == 0;
        let waited = self.ours_missing.is_some();
        self.ours_missing = waits.then(|| self.ours_missing.unwrap_or_else(Instant::now));
        let polled = self.notices != Notices::All;
        self.heed(look.notices);
        if look.is_changed || was_missing || renewed > 0 || (polled && !waited) {
            self.due.push_back(Change::Unsure);
        }
    }

    /// Records which notices the kernel sends now. If there are folders whose changes the kernel
    /// does not report, queues [`Change::Unwatched`]. [`Change::Unwatched`] is queued again only if
    /// the kernel was able to report the changes of all folders in the meantime.
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
                // The team no longer exists, but its folders are still watched.
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

/// Converts one kernel notice to changes and sends them to the watchers. Runs on the thread that
/// handles notices.
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
    // This flag means that the kernel's queue overflowed and that some notices are lost.
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
        // The config is missing, perhaps because a client is replacing it. Therefore the watcher
        // checks for a while whether the config comes back.
        if change == Change::Config && !files.has_config(&team) {
            routes(all).tell(&team, Told::Moved);
            continue;
        }
        match (said, &change) {
            (Said::Written, Change::Lease(_)) => {}
            (Said::Written, _) if cfg!(target_os = "linux") => continue,
            // The kernel reports that the lease file was closed a moment before the lock of the
            // file ends. Therefore this thread waits for the end of the lock. Without this wait, a
            // watcher would still find the old holder of the lease.
            (Said::Closed, Change::Lease(_)) => lease::wait_for_end(path),
            (Said::Written | Said::Closed, Change::Inbox(_)) => {
                // The change is reported before the inbox is compared with the log, because another
                // client may remove the messages during the comparison. If the comparison restores
                // messages, a new notice follows.
                routes(all).tell(&team, Told::Change(change.clone()));
                files.verify(&team, &change, path);
                continue;
            }
            (Said::Written | Said::Closed, _) => files.verify(&team, &change, path),
        }
        if matches!(change, Change::Lease(_)) && matches!(notice.kind, EventKind::Remove(_)) {
            // The lease file was removed. `Moved` makes the watcher check the team. If this store
            // holds the lease, the check creates the lease file again.
            routes(all).tell(&team, Told::Moved);
        }
        routes(all).tell(&team, Told::Change(change));
    }
}

/// Whether the kind of notice can mean that a folder appeared, disappeared or was replaced.
fn is_of_a_place(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
    )
}

/// Marks all folders as doubtful and tells all watchers to check. This is needed after lost
/// notices, because then neither the changes nor the present folders are known.
fn tell_all_moved(all: &Mutex<Routes>) {
    let mut routes = routes(all);
    routes.folders.values_mut().for_each(Watched::doubt);
    for team in routes.teams.keys() {
        routes.tell(team, Told::Moved);
    }
}

impl Files {
    /// Checks whether another program has overwritten a change of pitcrew, and restores that
    /// change.
    fn verify(&self, team: &TeamDir, change: &Change, path: &Path) {
        let done = match change {
            Change::Config => self.verify_config(team).map(|_| self.see_config(team)),
            Change::Inbox(inbox) => self.verify_mail(team, inbox).map(drop),
            Change::Tasks => self.verify_tasks(team).map(drop),
            Change::Journal
            | Change::Lease(_)
            | Change::Gone
            | Change::Unsure
            | Change::Unwatched { .. } => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(path = %path.display(), %error, "cannot check whether another program overwrote a change");
        }
    }
}

/// What a notice says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// The content was written, and the file is possibly still open. On Linux, this notice is used
    /// only for a lease, because the holder of a lease keeps the file open. For any other file,
    /// only the notice of its close is used, so that nobody reads an incomplete file.
    Written,
    /// The file was closed, renamed or removed, so its content is complete or gone.
    Closed,
}

impl Said {
    fn by(kind: EventKind) -> Option<Self> {
        match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) | EventKind::Remove(_) => {
                Some(Self::Closed)
            }
            // Linux sends three notices for a rename: one for each of the two paths, and one for
            // both paths together. The third notice is ignored.
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

/// Returns the change to report when the file at `path` changes. Returns `None` for locks, for
/// temporary files and for files that do not belong to the team.
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

/// Whether the kernel reports all changes on the file system of `path`. On a network file system or
/// FUSE, it does not report changes by other machines or by the program that serves the files.
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

/// Whether the kernel reports all changes. On systems other than Linux the answer is always yes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn can_notify(_path: &Path) -> bool {
    true
}
