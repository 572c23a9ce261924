//! Detects that no file in a folder has changed, without a look at the files. For this it uses an
//! inotify queue, which the kernel fills at the moment of each change.
//!
//! A watcher reports changes a little later. In contrast, the caller reads this queue directly, so
//! the answer is exact. On systems and file systems without inotify, every answer is
//! [`Changed::Unknown`].

use std::collections::{HashMap, HashSet};
use std::path::Path;

use pitcrew_protocol::TeamDir;

/// The changes in a folder since the last query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Only the files with these names have changed. The set is empty if no file has changed.
    Only(HashSet<String>),
    /// The changes are unknown, so every file must be checked.
    Unknown,
}

/// The folders whose changes are tracked.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    #[cfg(target_os = "linux")]
    queue: Option<std::os::fd::OwnedFd>,
    names: HashMap<i32, TeamDir>,
    changed: HashMap<TeamDir, HashSet<String>>,
    /// The tracked folder of each team, as device and inode number.
    #[cfg(target_os = "linux")]
    counted: HashMap<TeamDir, (u64, u64)>,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::unix::fs::MetadataExt as _;

    use super::{Changed, Folders, HashSet, Path, TeamDir};
    use rustix::fs::inotify::{
        CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
    };

    /// Size in bytes of the buffer for one read of inotify events. Each event takes 16 bytes and
    /// the length of a file name.
    const QUEUE_BYTES: usize = 16 * 1024;

    impl Folders {
        /// Returns the changes in the team's folder since the last call. The first call returns
        /// [`Changed::Unknown`] and starts to track the folder.
        pub(crate) fn changed(&mut self, team: &TeamDir, folder: &Path) -> Changed {
            self.drain();
            // If a parent folder is moved and another folder appears at this path, inotify sends no
            // event. Therefore the folder at this path is compared with the tracked folder.
            let there = std::fs::symlink_metadata(folder).ok().map(|meta| (meta.dev(), meta.ino()));
            if self.counted.get(team).copied() != there {
                self.forget(team);
            }
            if let Some(names) = self.changed.get_mut(team) {
                return Changed::Only(std::mem::take(names));
            }
            if crate::files::watch::can_notify(folder)
                && let Err(error) = self.add(team, folder)
            {
                tracing::debug!(folder = %folder.display(), %error, "no change queue");
            }
            Changed::Unknown
        }

        fn add(&mut self, team: &TeamDir, folder: &Path) -> rustix::io::Result<()> {
            let queue = match self.queue.take() {
                Some(queue) => queue,
                None => init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            };
            let queue = self.queue.insert(queue);
            let flags = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MODIFY
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::DONT_FOLLOW
                | WatchFlags::ONLYDIR;
            let id = add_watch(queue, folder, flags)?;
            let meta = std::fs::symlink_metadata(folder).map_err(|_| rustix::io::Errno::NOENT)?;
            self.counted.insert(team.clone(), (meta.dev(), meta.ino()));
            self.names.insert(id, team.clone());
            self.changed.insert(team.clone(), HashSet::new());
            Ok(())
        }

        /// Stops tracking the changes of the team's folder.
        pub(crate) fn forget(&mut self, team: &TeamDir) {
            self.changed.remove(team);
            self.counted.remove(team);
            let Some(queue) = &self.queue else { return };
            for id in self.names.iter().filter(|(_, name)| *name == team).map(|(id, _)| *id) {
                if let Err(error) = remove_watch(queue, id) {
                    tracing::debug!(%team, %error, "the watch was gone already");
                }
            }
            self.names.retain(|_, name| name != team);
        }

        fn drain(&mut self) {
            let Some(queue) = &self.queue else { return };
            let mut room = [const { std::mem::MaybeUninit::uninit() }; QUEUE_BYTES];
            let mut reader = Reader::new(queue, &mut room);
            let mut lost = Vec::new();
            loop {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(error) => {
                        tracing::warn!(%error, "the change queue failed");
                        self.changed.clear();
                        break;
                    }
                };
                let flags = event.events();
                if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                    // After an overflow, events are missing, and they can concern any team.
                    // Therefore all teams count as changed.
                    lost.extend(self.names.values().cloned());
                    continue;
                }
                let Some(team) = self.names.get(&event.wd()) else { continue };
                let is_gone = ReadFlags::DELETE_SELF
                    | ReadFlags::MOVE_SELF
                    | ReadFlags::IGNORED
                    | ReadFlags::UNMOUNT;
                match (event.file_name().and_then(|n| n.to_str().ok()), self.changed.get_mut(team))
                {
                    (Some(name), Some(names)) => _ = names.insert(name.to_owned()),
                    (_, None) => {}
                    (None, Some(_)) if flags.intersects(is_gone) => lost.push(team.clone()),
                    (None, Some(_)) => {}
                }
            }
            for team in lost {
                self.forget(&team);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Folders {
    /// Always returns [`Changed::Unknown`], because this system has no inotify.
    pub(crate) fn changed(&mut self, _team: &TeamDir, _folder: &Path) -> Changed {
        Changed::Unknown
    }

    /// Does nothing, because this system has no inotify.
    pub(crate) fn forget(&mut self, _team: &TeamDir) {}
}
