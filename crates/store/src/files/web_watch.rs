//! Reports changes of the files of the web server. The kernel sends a notice for each change.

use std::path::PathBuf;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::watch;

use super::backend::FileBackend;
use super::watch::can_notify;
use super::web_file::WebFile;

/// Reports changes of one file of the web server, until it is dropped.
#[derive(Debug)]
pub struct WebWatch {
    changes: watch::Receiver<u64>,
    _watcher: RecommendedWatcher,
}

impl WebWatch {
    /// Returns a receiver that is notified after each change. The number has no other meaning.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

impl FileBackend {
    /// Watches a file of the web server. Returns `None` if the kernel cannot report all changes of
    /// the folder; the caller then has to look at the file from time to time.
    #[must_use]
    pub fn watch_web_file(&self, file: WebFile) -> Option<WebWatch> {
        let folder = self.paths().web();
        if !can_notify(&folder) {
            return None;
        }
        let path = self.web_file_path(file);
        match watched(folder, path.clone()) {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "cannot be watched");
                None
            }
        }
    }
}

fn watched(folder: PathBuf, path: PathBuf) -> notify::Result<WebWatch> {
    let (sender, changes) = watch::channel(0);
    let seen = [path, folder.clone()];
    let mut watcher = notify::recommended_watcher(move |notice: notify::Result<Event>| {
        if may_change(&notice, &seen) {
            sender.send_modify(|count: &mut u64| *count = count.wrapping_add(1));
        }
    })?;
    watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    Ok(WebWatch { changes, _watcher: watcher })
}

/// Whether one of these paths may have changed. After an error, notices are lost.
fn may_change(notice: &notify::Result<Event>, seen: &[PathBuf]) -> bool {
    let Ok(notice) = notice else { return true };
    let is_read = match notice.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => false,
    };
    notice.need_rescan() || (!is_read && notice.paths.iter().any(|path| seen.contains(path)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Durability, FileOptions};

    #[tokio::test]
    async fn a_change_is_reported_and_a_read_is_none() {
        let root = tempfile::tempdir().unwrap();
        let files = FileBackend::open(root.path(), FileOptions::new(Durability::Process));
        assert!(files.watch_web_file(WebFile::Devices).is_none(), "there is no folder");
        let put = |content: &'static [u8]| {
            files.edit_web_file(WebFile::Devices, |_| (Some(content.to_vec()), ()))
        };
        put(b"one").await.unwrap();
        let watch = files.watch_web_file(WebFile::Devices).unwrap();
        let mut changes = watch.changes();
        files.web_file(WebFile::Devices).await.unwrap();
        let quiet = tokio::time::timeout(Duration::from_millis(200), changes.changed()).await;
        assert!(quiet.is_err(), "a read was reported");
        put(b"two").await.unwrap();
        changes.changed().await.unwrap();
        drop(watch);
        // The end of the watch is an error, so that nobody waits for ever.
        while changes.changed().await.is_ok() {}
    }
}
