//! Makes sure that the folders of watched teams stay watched. Records which folder is at each path,
//! and which notices the kernel sends.
//!
//! The kernel watches a folder and not the path of the folder. Therefore the parent folders are
//! watched too. If a parent folder moves, the folder at each path is compared with the watched
//! folder. A link at the path of a folder inside a team is not followed.

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
    /// Which folder of the layout this is.
    pub(super) place: Place,
    /// Device and inode number of the folder that is watched now. `None` if no folder is watched.
    id: Option<(u64, u64)>,
    /// Whether the watch must be renewed: another folder may be at the path, or the kernel may have
    /// ended the watch.
    is_doubtful: bool,
    /// How many times the folder was marked as doubtful.
    doubts: u64,
}

/// Tells which folder of the layout a watched folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One of the folders of a team.
    Of(TeamDir, Folder),
    /// One of the three folders that all teams share: the root, and the folders `teams/` and
    /// `tasks/` in the root.
    Above,
}

/// Tells which of a team's folders a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    Team,
    Inboxes,
    Tasks,
    Ours,
}

/// Which changes of a team the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notices {
    /// The kernel reports all changes.
    All,
    /// The kernel reports only changes that programs on this machine make. Changes by other
    /// machines are possible.
    OfThisMachine,
    /// The kernel does not report the changes of all folders, or reports no changes.
    None {
        /// The reason why the kernel does not report all changes.
        reason: String,
    },
}

#[derive(Debug)]
pub(super) struct Look {
    pub(super) notices: Notices,
    /// Whether a watched path has another folder now: a folder appeared, disappeared or was
    /// replaced. If this is true, there may be changes inside the new folder that the kernel did
    /// not report.
    pub(super) is_changed: bool,
    pub(super) is_config_there: bool,
    pub(super) is_ours_there: bool,
}

impl Watched {
    /// Records that another folder is perhaps at the path now.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
        self.doubts += 1;
    }
}

impl Files {
    /// Checks a team's folders and their parent folders. If a folder is not watched yet, or if
    /// another folder replaced it, the folder at the path is watched.
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
        // If the team has no watcher any more, nothing must be watched. The team may have been
        // removed meanwhile.
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
                // A missing folder needs no poll if its parent folder is watched, because the
                // kernel reports when the folder appears in its parent folder. A poll is needed for
                // the folders that all teams share, and for a path with an entry that is not a
                // folder.
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
                    // Another folder may have replaced this folder while `watch_folder` ran. In
                    // that case the id is not recorded, so that the next check watches the path
                    // again.
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

    /// Records which folder is watched at a path. Does nothing if the path was marked as doubtful
    /// since `doubts` was read.
    fn set(&self, dir: &Path, id: Option<(u64, u64)>, doubts: u64) {
        if let Some(watched) = routes(&self.watchers.routes).folders.get_mut(dir)
            && watched.doubts == doubts
        {
            (watched.id, watched.is_doubtful) = (id, false);
        }
    }

    /// Asks the kernel to send notices about the folder that is now at the path.
    fn watch_folder(
        self: &Arc<Self>,
        kernel: &mut Option<RecommendedWatcher>,
        dir: &Path,
    ) -> notify::Result<()> {
        let there = match kernel {
            Some(there) => {
                // An existing watch belongs to the folder that was at this path before, so it is
                // removed.
                if let Err(error) = there.unwatch(dir) {
                    tracing::trace!(path = %dir.display(), %error, "was not watched");
                }
                there
            }
            None => {
                // The store owns the watcher. The watcher's callback has only a weak reference to
                // the store, because a strong reference would keep the store alive for ever.
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
            // A new watcher of the team has started meanwhile, so the folders are still needed.
            if routes.knows(team) {
                return;
            }
            // All teams share the parent folders. Therefore these folders are watched as long as
            // any team has a watcher.
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

    /// Whether the team's config exists. Its content is not checked.
    pub(super) fn has_config(&self, team: &TeamDir) -> bool {
        !is_nameless(team) && fs::symlink_metadata(self.paths.config(team)).is_ok()
    }

    /// Returns the folders to watch: first the parent folders, then the team's folders.
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

/// Returns the device and inode number of the folder at a path. The user may have replaced some
/// folders by links: the root, the folders of the root, and the folder of a team. Such links are
/// followed. Links inside a team are not followed.
fn folder_at(path: &Path, place: &Place) -> Option<(u64, u64)> {
    let meta = match place {
        Place::Above | Place::Of(_, Folder::Team) => fs::metadata(path),
        Place::Of(_, Folder::Inboxes | Folder::Tasks | Folder::Ours) => fs::symlink_metadata(path),
    };
    meta.ok().filter(fs::Metadata::is_dir).map(|meta| (meta.dev(), meta.ino()))
}

/// Describes why the kernel sends no notices. If a system limit is the reason, names the limit.
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
