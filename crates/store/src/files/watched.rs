//! Keeping the folders of watched teams watched: which folder is at each path, and what the kernel tells of it.
//!
//! A watch belongs to a folder, not to its path. So the folders above a team's are watched too, and whoever is told that
//! one of them moved compares what is there with what is watched. A link at the path is not followed.

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
    /// Whose it is.
    pub(super) place: Place,
    /// Which folder is watched: its device and number.
    id: Option<(u64, u64)>,
    /// Another folder may be at the path by now, or the kernel have ended the watch.
    is_doubtful: bool,
    /// How often it came into doubt.
    doubts: u64,
}

/// Where a watched folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is one of a team's.
    Of(TeamDir, Folder),
    /// It is above those of all teams.
    Above,
}

/// What a team's folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    Team,
    Inboxes,
    Tasks,
    Ours,
}

/// What the kernel tells of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notices {
    /// Every change.
    All,
    /// The changes of programs on this machine, which are not all there may be.
    OfThisMachine,
    /// Nothing, or not of all folders.
    None {
        /// Why.
        reason: String,
    },
}

/// What a look at a team's folders found.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) notices: Notices,
    /// A folder came, went or was replaced: what happened in it meanwhile was not told.
    pub(super) is_changed: bool,
    pub(super) is_config_there: bool,
    pub(super) is_ours_there: bool,
}

impl Watched {
    /// Takes note that another folder may be at the path.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
        self.doubts += 1;
    }
}

impl Files {
    /// Watches whatever of a team's folders, and of those above, is not watched yet, or is another than it was.
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
        // It may be gone since, and its last watcher with it.
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
                // One that is missing is seen to come by the folder above; the uppermost has none.
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
                    // What came to the path while it was watched is seen by the next look.
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

    /// Notes which folder is watched, unless it was moved meanwhile.
    fn set(&self, dir: &Path, id: Option<(u64, u64)>, doubts: u64) {
        if let Some(watched) = routes(&self.watchers.routes).folders.get_mut(dir)
            && watched.doubts == doubts
        {
            (watched.id, watched.is_doubtful) = (id, false);
        }
    }

    /// Asks the kernel for the notices of the folder that is at a path now.
    fn watch_folder(
        self: &Arc<Self>,
        kernel: &mut Option<RecommendedWatcher>,
        dir: &Path,
    ) -> notify::Result<()> {
        let there = match kernel {
            Some(there) => {
                // The folder that was at the path before is not there any more.
                if let Err(error) = there.unwatch(dir) {
                    tracing::trace!(path = %dir.display(), %error, "was not watched");
                }
                there
            }
            None => {
                let (files, routes) = (Arc::downgrade(self), Arc::clone(&self.watchers.routes));
                kernel.insert(notify::recommended_watcher(move |notice| {
                    hand_out(&files, &routes, notice)
                })?)
            }
        };
        there.watch(dir, RecursiveMode::NonRecursive)
    }

    /// Watches no folder any more that only this team needs.
    pub(super) fn let_go(&self, team: &TeamDir) {
        let mut kernel = self.watchers.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<PathBuf> = {
            let mut routes = routes(&self.watchers.routes);
            // Somebody watches it anew.
            if routes.knows(team) {
                return;
            }
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

    /// Whether the team has a config, whatever is in it.
    pub(super) fn has_config(&self, team: &TeamDir) -> bool {
        !is_nameless(team) && fs::symlink_metadata(self.paths.config(team)).is_ok()
    }

    /// A team's folders, after those above them.
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

/// The folder at a path, by device and number. The user may keep the root and what is above teams elsewhere, and the folder
/// of a team, by a link; inside of a team no link is followed.
fn folder_at(path: &Path, place: &Place) -> Option<(u64, u64)> {
    let meta = match place {
        Place::Above | Place::Of(_, Folder::Team) => fs::metadata(path),
        Place::Of(_, Folder::Inboxes | Folder::Tasks | Folder::Ours) => fs::symlink_metadata(path),
    };
    meta.ok().filter(fs::Metadata::is_dir).map(|meta| (meta.dev(), meta.ino()))
}

/// Why the kernel gives no notices, with the limit that was met.
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
