//! Waits until a file may have changed.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// The changes of a file.
#[derive(Debug)]
pub(super) struct Growth {
    /// The kernel's reports. `None` if there are none, for example because the user has too many
    /// watches already. The file is then looked at once a second.
    #[cfg(target_os = "linux")]
    reports: Option<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Growth {
    pub(super) fn of(file: &File) -> Self {
        use std::os::fd::AsRawFd as _;

        // This path leads to the open file, also if its own path leads to another one by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let watched = init(CreateFlags::CLOEXEC).and_then(|reports| {
            // The attributes change when the file is removed, or when another one replaces it.
            let changes = WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::MOVE_SELF;
            add_watch(&reports, path, changes)?;
            Ok(reports)
        });
        Self { reports: watched.ok() }
    }

    /// Also reports new files in a folder, for a file that has left its path.
    pub(super) fn also_in(&mut self, folder: &Path) {
        let changes = WatchFlags::CREATE | WatchFlags::MOVED_TO;
        let added = self.reports.as_ref().map(|reports| add_watch(reports, folder, changes));
        if matches!(added, Some(Err(_))) {
            self.reports = None;
        }
    }

    /// Waits until the file may have changed.
    pub(super) fn wait(&self) -> io::Result<()> {
        let Some(reports) = &self.reports else {
            look_again_later();
            return Ok(());
        };
        loop {
            // What the reports say makes no difference: the file is read again.
            match rustix::io::read(reports, &mut [0; 4096]) {
                Err(Errno::INTR) => {}
                read => return read.map(drop).map_err(io::Error::from),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Growth {
    pub(super) fn of(_file: &File) -> Self {
        Self {}
    }

    pub(super) fn also_in(&mut self, _folder: &Path) {}

    #[expect(clippy::unnecessary_wraps, reason = "it is the same function on Linux")]
    pub(super) fn wait(&self) -> io::Result<()> {
        look_again_later();
        Ok(())
    }
}

fn look_again_later() {
    std::thread::sleep(std::time::Duration::from_secs(1));
}
