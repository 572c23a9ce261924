//! Keeps the folders of watched teams watched: records which folder is at each path, and which
//! notices the kernel gives.
//!
//! The kernel watches a folder and not its path. So the parent folders of a team's folders are
//! watched too. If one of them moves, the folder at each path is compared with the watched one. A
//! link at the path of a folder inside a team is not followed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use pitcrew_protocol::TeamDir;

use super::backend::Files;
use super::teams::is_nameless;
use super::watch::{hand_out, routes};

/// A folder that should be watched.
#[derive(Debug)]
pub(super) struct Watched {
    /// The place of the folder in the layout.
    pub(super) place: Place,
    /// The folder that is watched now: its device and inode number.
    id: Option<(u64, u64)>,
    /// Whether another folder may be at the path now, or the kernel may have ended the watch.
    is_doubtful: bool,
    /// Number of times that the folder became doubtful.
    doubts: u64,
}

/// The place of a watched folder in the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One of the folders of a team.
    Of(TeamDir, Folder),
    /// A parent folder of all teams.
    Above,
}

/// The kind of content of a team's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    Team,
    Inboxes,
    Tasks,
    Ours,
}

/// The changes of a team that the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notices {
    /// The kernel reports all changes.
    All,
    /// The kernel reports only changes by programs on this machine. There may be others.
    OfThisMachine,
    /// The kernel reports no changes, or not the changes of all folders.
    None {
        /// The reason.
        reason: String,
    },
}

/// The result of a check of a team's folders.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) notices: Notices,
    /// Whether a folder appeared, disappeared or was replaced. Changes in it meanwhile were not
    /// reported.
    pub(super) is_changed: bool,
    pub(super) is_config_there: bool,
    pub(super) is_ours_there: bool,
}

impl Watched {
    /// Records that another folder may be at the path.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
        self.doubts += 1;
    }
}

impl Files {
    /// Checks a team's folders and their parents. Watches each one that is not watched yet or was
    /// replaced.
    pub(super) fn look_after(self: &Arc<Self>, team: &TeamDir) -> Look {
        let mut kernel = self.watchers.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let mut look = Look {
            notices: Notices::All,
            is_changed: false,
            is_config_there: self.has_config(team),
            is_ours_there: folder_at(
                &self.paths.ours(team),
                &Place::Of(team.clone(), Folder::Ours),
            )
            .is_some(),
        };
        // The team may be gone meanwhile, together with its last watcher.
        if !routes(&self.watchers.routes).knows(team) {
            return look;
        }
        for (dir, place) in self.folders_of(team) {
            self.look_at(&mut kernel, &dir, place, &mut look);
        }
        look
    }

    fn look_at(
        self: &Arc<Self>,
        kernel: &mut Option<RecommendedWatcher>,
        dir: &Path,
        place: Place,
        look: &mut Look,
    ) {
        let there = folder_at(dir, &place);
        let (known, is_doubtful, doubts) = {
            let mut routes = routes(&self.watchers.routes);
            let watched = routes.folders.entry(dir.to_owned());
            let watched = watched.or_insert(Watched {
                place: place.clone(),
                id: None,
                is_doubtful: false,
                doubts: 0,
            });
            (watched.id, watched.is_doubtful, watched.doubts)
        };
        match there {
            None => {
                look.is_changed |= known.is_some();
                self.set(dir, None, doubts);
                // The parent's watch reports when a missing folder appears. Only the topmost folder
                // has no watched parent.
                if place == Place::Above || fs::symlink_metadata(dir).is_ok() {
                    look.notices =
                        Notices::None { reason: format!("{} is no folder", dir.display()) };
                }
                return;
            }
            Some(_) if there == known && !is_doubtful => {}
            Some(_) => {
                look.is_changed = true;
                match self.watch_folder(kernel, dir) {
                    // If the folder was replaced while it was being watched, its id is not
                    // recorded, so the next check watches it again.
                    Ok(()) => {
                        self.set(dir, there.filter(|_| folder_at(dir, &place) == there), doubts)
                    }
                    Err(error) => {
                        self.set(dir, None, doubts);
                        look.notices = Notices::None { reason: in_words(&error) };
                        return;
                    }
                }
            }
        }
        if look.notices == Notices::All && place != Place::Above && !super::watch::can_notify(dir) {
            look.notices = Notices::OfThisMachine;
        }
    }

    /// Records the watched folder, unless it became doubtful meanwhile.
    fn set(&self, dir: &Path, id: Option<(u64, u64)>, doubts: u64) {
        if let Some(watched) = routes(&self.watchers.routes).folders.get_mut(dir)
            && watched.doubts == doubts
        {
            (watched.id, watched.is_doubtful) = (id, false);
        }
    }

    /// Asks the kernel for notices of the folder that is now at a path.
    fn watch_folder(
        self: &Arc<Self>,
        kernel: &mut Option<RecommendedWatcher>,
        dir: &Path,
    ) -> notify::Result<()> {
        let there = match kernel {
            Some(there) => {
                // The watch still belongs to the former folder at this path.
                if let Err(error) = there.unwatch(dir) {
                    tracing::trace!(path = %dir.display(), %error, "was not watched");
                }
                there
            }
            None => {
                // A weak reference, so that the watcher, which the store owns, does not keep the
                // store alive.
                let (files, routes) = (Arc::downgrade(self), Arc::clone(&self.watchers.routes));
                kernel.insert(notify::recommended_watcher(move |notice| {
                    hand_out(&files, &routes, notice)
                })?)
            }
        };
        there.watch(dir, RecursiveMode::NonRecursive)
    }

    /// Stops watching the folders that only this team needs.
    pub(super) fn let_go(&self, team: &TeamDir) {
        let mut kernel = self.watchers.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<PathBuf> = {
            let mut routes = routes(&self.watchers.routes);
            // A new watcher of the team has started meanwhile.
            if routes.knows(team) {
                return;
            }
            // All teams share the parent folders, so only the last team stops watching them.
            let is_last = !routes
                .folders
                .values()
                .any(|w| matches!(&w.place, Place::Of(other, _) if other != team));
            let is_let_go = |watched: &Watched| match &watched.place {
                Place::Of(of, _) => of == team,
                Place::Above => is_last,
            };
            let gone = routes
                .folders
                .iter()
                .filter(|(_, w)| is_let_go(w))
                .map(|(dir, _)| dir.clone())
                .collect();
            routes.folders.retain(|_, watched| !is_let_go(watched));
            gone
        };
        let Some(kernel) = kernel.as_mut() else { return };
        for dir in gone {
            if let Err(error) = kernel.unwatch(&dir) {
                tracing::debug!(path = %dir.display(), %error, "was not watched any more");
            }
        }
    }

    /// Whether the team's config exists, with any content.
    pub(super) fn has_config(&self, team: &TeamDir) -> bool {
        !is_nameless(team) && fs::symlink_metadata(self.paths.config(team)).is_ok()
    }

    /// Returns the parent folders, and then the team's folders.
    fn folders_of(&self, team: &TeamDir) -> [(PathBuf, Place); 7] {
        let of = |folder| Place::Of(team.clone(), folder);
        [
            (self.paths.root().to_owned(), Place::Above),
            (self.paths.teams(), Place::Above),
            (self.paths.all_tasks(), Place::Above),
            (self.paths.team(team), of(Folder::Team)),
            (self.paths.inboxes(team), of(Folder::Inboxes)),
            (self.paths.tasks(team), of(Folder::Tasks)),
            (self.paths.ours(team), of(Folder::Ours)),
        ]
    }
}

/// Returns the device and inode number of the folder at a path. Follows links at the root, at its
/// folders and at the folder of a team, because the user may have put these elsewhere. Follows no
/// link inside a team.
fn folder_at(path: &Path, place: &Place) -> Option<(u64, u64)> {
    let meta = match place {
        Place::Above | Place::Of(_, Folder::Team) => fs::metadata(path),
        Place::Of(_, Folder::Inboxes | Folder::Tasks | Folder::Ours) => fs::symlink_metadata(path),
    };
    meta.ok().filter(fs::Metadata::is_dir).map(|meta| (meta.dev(), meta.ino()))
}

/// Describes why the kernel gives no notices, with the name of the limit that was reached.
fn in_words(error: &notify::Error) -> String {
    let limit = |name: &str| {
        format!("the system gives no notices of changes: fs.inotify.{name} is used up")
    };
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => limit("max_user_watches"),
        notify::ErrorKind::Io(io)
            if io.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) =>
        {
            limit("max_user_instances, or the limit of open files,")
        }
        notify::ErrorKind::Io(_)
        | notify::ErrorKind::Generic(_)
        | notify::ErrorKind::PathNotFound
        | notify::ErrorKind::WatchNotFound
        | notify::ErrorKind::InvalidConfig(_) => {
            format!("the system gives no notices of changes: {error}")
        }
    }
}
