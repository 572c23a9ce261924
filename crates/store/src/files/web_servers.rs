//! The web servers that run now. Each has a file `pitcrew/web/server-<pid>-<id>.json` below the root
//! and holds a lock on it. The kernel ends the lock with the process, so the file of a dead server
//! is known.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::backend::FileBackend;
use super::disk::{Disk, failed, is_absent};
use super::plain::{self, Unopened};
use super::web_token::locked;
use crate::StoreError;

/// The maximum length of a record in bytes.
const BYTES_MOST: u64 = 16 << 10;

/// The maximum number of records that are read.
const RECORDS_MOST: usize = 64;

/// The record of a server that runs. Dropping this value removes the record.
#[derive(Debug)]
pub struct WebServerRecord {
    path: PathBuf,
    /// The open file holds the lock.
    _file: File,
}

impl Drop for WebServerRecord {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "the record of the server stays");
        }
    }
}

impl FileBackend {
    /// Records a server that runs, until the result is dropped. Removes the records of servers that
    /// have ended.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub async fn record_web_server(&self, content: Vec<u8>) -> Result<WebServerRecord, StoreError> {
        self.run(move |files| recorded(&files.disk, &files.paths.web(), &content)).await
    }

    /// Returns the contents of the records of all servers that run.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the folder cannot be read.
    pub async fn web_servers(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        self.run(|files| running(&files.paths.web())).await
    }
}

fn recorded(disk: &Disk, folder: &Path, content: &[u8]) -> Result<WebServerRecord, StoreError> {
    let _lock = locked(disk, folder)?;
    for path in records_in(folder)? {
        if matches!(opened(&path), Some((_, IsHeld::No)))
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::debug!(path = %path.display(), %error, "an old record stays");
        }
    }
    let id = uuid::Uuid::new_v4().simple();
    let path = folder.join(format!("server-{}-{id}.json", std::process::id()));
    let mut options = OpenOptions::new();
    let file = plain::open_with(options.read(true).write(true).create_new(true), &path);
    let mut file = file.map_err(|error| error.at("create", &path))?;
    // A reader counts a record only while it is locked, so it never reads half a record.
    file.write_all(content).map_err(failed("write", &path))?;
    file.lock().map_err(failed("lock", &path))?;
    Ok(WebServerRecord { path, _file: file })
}

fn running(folder: &Path) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut contents = Vec::new();
    for path in records_in(folder)? {
        let Some((file, IsHeld::Yes)) = opened(&path) else { continue };
        let mut content = Vec::new();
        match file.take(BYTES_MOST).read_to_end(&mut content) {
            Ok(_) => contents.push(content),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a record cannot be read");
            }
        }
    }
    Ok(contents)
}

/// Whether a server holds the lock of its record.
enum IsHeld {
    Yes,
    No,
}

/// Opens a record. Returns `None` if it is gone or is no plain file.
fn opened(path: &Path) -> Option<(File, IsHeld)> {
    let file = match plain::open(path) {
        Ok(file) => file,
        Err(Unopened::NotPlain | Unopened::Failed(_)) => return None,
    };
    match file.try_lock_shared() {
        // The lock of this look ends when the file is dropped.
        Ok(()) => Some((file, IsHeld::No)),
        Err(TryLockError::WouldBlock) => Some((file, IsHeld::Yes)),
        Err(TryLockError::Error(_)) => None,
    }
}

fn records_in(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder)(error)),
    };
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("server-") && name.ends_with(".json")
    };
    let paths = entries.flatten().map(|entry| entry.path()).filter(is_record);
    Ok(paths.take(RECORDS_MOST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileOptions;

    #[test]
    fn only_a_server_that_runs_is_listed_and_a_dead_one_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("pitcrew/web");
        assert!(running(&folder).unwrap().is_empty());
        let disk = Disk::new(FileOptions::default());
        let one = recorded(&disk, &folder, b"one").unwrap();
        assert_eq!(running(&folder).unwrap(), [b"one"]);
        // A process that was killed leaves its record without a lock.
        let dead = folder.join("server-1-x.json");
        fs::write(&dead, "dead").unwrap();
        assert_eq!(running(&folder).unwrap(), [b"one"]);
        let two = recorded(&disk, &folder, b"two").unwrap();
        assert!(!dead.exists());
        assert_eq!(running(&folder).unwrap().len(), 2);
        drop(one);
        assert_eq!(running(&folder).unwrap(), [b"two"]);
        drop(two);
        assert_eq!(records_in(&folder).unwrap(), Vec::<PathBuf>::new());
    }
}
