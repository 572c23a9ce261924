//! What a command in *work* made that nothing could protect, as it was not there: it is put out of the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::ahead::MountNamespace;
use super::kept::Next;
use super::private::PrivateFolder;

/// How something that was put out of the way ends.
const MARK: &str = "quarantined";

/// What was put out of the way and not told yet.
pub(super) type Told = Arc<Mutex<Vec<String>>>;

/// Something protected that no mount covers.
#[derive(Debug)]
pub(super) struct Absent {
    path: PathBuf,
    /// Where the link that is there leads.
    link: Option<PathBuf>,
}

impl Absent {
    pub(super) fn nothing(path: &Path) -> Self {
        Self { path: path.to_path_buf(), link: None }
    }

    pub(super) fn link(path: &Path) -> Self {
        Self { path: path.to_path_buf(), link: fs::read_link(path).ok() }
    }

    /// Puts what appeared out of the way; answers with its new place.
    fn restore(&self) -> Option<PathBuf> {
        let metadata = fs::symlink_metadata(&self.path);
        if metadata.is_err() && self.link.is_none()
            || self.link.is_some() && fs::read_link(&self.path).ok() == self.link
        {
            return None;
        }
        let name = self.path.file_name()?.to_string_lossy().into_owned();
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let aside = self.path.with_file_name(format!("{name}.{MARK}-{}", unique.get(..8).unwrap_or(&unique)));
        let moved = metadata.ok().and_then(|_| fs::rename(&self.path, &aside).ok());
        if let Some(target) = &self.link
            && let Err(problem) = std::os::unix::fs::symlink(target, &self.path)
        {
            tracing::warn!(path = %self.path.display(), %problem, "a link that a command replaced is not restored");
        }
        moved.map(|()| aside)
    }
}

/// What has to be done when a command and all it left running have ended; done when dropped.
#[derive(Debug)]
pub(crate) struct Aftermath {
    absent: Vec<Absent>,
    told: Told,
    after: Option<(Option<MountNamespace>, Next)>,
    _folder: PrivateFolder,
}

impl Aftermath {
    pub(super) fn new(folder: PrivateFolder, absent: Vec<Absent>, told: Told) -> Self {
        Self { absent, told, after: None, _folder: folder }
    }

    /// Keeps the command's mount namespace until then, and has the next one started ahead.
    pub(super) fn followed_by(mut self, namespace: Option<MountNamespace>, next: Next) -> Self {
        self.after = Some((namespace, next));
        self
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        for absent in &self.absent {
            let Some(aside) = absent.restore() else { continue };
            tracing::warn!(path = %absent.path.display(), "a command made what decides rights or runs by itself");
            let words = format!("{} is now {}", absent.path.display(), aside.display());
            self.told.lock().unwrap_or_else(PoisonError::into_inner).push(words);
        }
    }
}
