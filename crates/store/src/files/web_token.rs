//! The token of the web server. Programs that know it may call the server's API.
//!
//! The token is the content of the file `pitcrew/web/token` below the root. It is made on first
//! use. A file lock on `pitcrew/web/lock` keeps two servers from making two tokens.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::backend::FileBackend;
use super::disk::{Disk, failed, is_absent, make_dir};
use super::flock::Access;
use super::plain::{self, Unopened};
use crate::StoreError;
use crate::own_mode::OF_OTHERS;

/// The number of hexadecimal digits of a token.
const DIGITS: usize = 64;

/// The token of the web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebToken {
    /// The token, 64 hexadecimal digits.
    pub text: String,
    /// Whether the token is in its file. A new one is not if the root cannot be written.
    pub is_kept: bool,
    /// Whether the root can only be read.
    pub is_read_only: bool,
}

impl FileBackend {
    /// Returns the token of the web server, 64 hexadecimal digits. Makes a token if there is none,
    /// or if other users may read the present one.
    ///
    /// If the root cannot be written and has no token, the token is a new one that is in no file.
    ///
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::Corrupt`] if a link or a folder is in the file's place.
    pub async fn web_token(&self) -> Result<WebToken, StoreError> {
        self.run(|files| token_or_unkept(&files.disk, &files.paths.web())).await
    }

    /// Returns the path of the file with the token of the web server.
    #[must_use]
    pub fn web_token_file(&self) -> PathBuf {
        file_in(&self.paths().web())
    }
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("token")
}

/// Makes the folder and takes its lock. The lock ends when the file is dropped.
pub(super) fn locked(disk: &Disk, folder: &Path) -> Result<File, StoreError> {
    make_dir(folder)?;
    let lock_path = folder.join("lock");
    let lock = plain::open_with(
        OpenOptions::new().read(true).write(true).create(true).truncate(false),
        &lock_path,
    );
    let lock = lock.map_err(|error| error.at("open", &lock_path))?;
    disk.flock(&lock, &lock_path, Access::Exclusive)?;
    Ok(lock)
}

/// Returns the token in the file or a new one. Without the right to write, nothing is made.
fn token_or_unkept(disk: &Disk, folder: &Path) -> Result<WebToken, StoreError> {
    match token(disk, folder) {
        Ok(text) => Ok(WebToken { text, is_kept: true, is_read_only: false }),
        Err(StoreError::Io { source, .. }) if is_unwritable(&source) => {
            let kept = present(&file_in(folder))?;
            let is_kept = kept.is_some();
            let text = kept.unwrap_or_else(new_token);
            Ok(WebToken { text, is_kept, is_read_only: true })
        }
        Err(error) => Err(error),
    }
}

/// Whether the system refused a write because the folder can only be read.
pub(super) fn is_unwritable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn new_token() -> String {
    // Each of the two random ids has 122 random bits.
    (0..2).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect()
}

fn token(disk: &Disk, folder: &Path) -> Result<String, StoreError> {
    let _lock = locked(disk, folder)?;
    let path = file_in(folder);
    if let Some(token) = present(&path)? {
        return Ok(token);
    }
    let token = new_token();
    disk.create(&path, token.as_bytes())?;
    disk.force_dir(folder)?;
    Ok(token)
}

/// Returns the token in a file. Returns `None` if there is no file, if it holds no whole token, or
/// if other users may read it.
fn present(path: &Path) -> Result<Option<String>, StoreError> {
    let file = match plain::open(path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.at("open", path)),
    };
    let mode = file.metadata().map_err(failed("read", path))?.mode();
    let mut text = String::new();
    // A longer file is no token, so it need not be read to its end.
    let most = DIGITS as u64 + 2;
    match file.take(most).read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    }
    let token = text.trim_end();
    let is_whole = token.len() == DIGITS && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok((is_whole && mode & OF_OTHERS == 0).then(|| token.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::FileOptions;

    fn token_in(folder: &Path) -> String {
        token(&Disk::new(FileOptions::default()), folder).unwrap()
    }

    #[test]
    fn a_token_is_made_once_and_only_its_user_reads_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("pitcrew/web");
        let made = token_in(&folder);
        assert_eq!(made.len(), DIGITS);
        assert_eq!(token_in(&folder), made);
        assert_eq!(fs::metadata(file_in(&folder)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_token_that_others_may_read_or_that_is_cut_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let made = token_in(root.path());
        let file = file_in(root.path());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let second = token_in(root.path());
        assert_ne!(second, made);
        fs::write(&file, &second[..10]).unwrap();
        assert_ne!(token_in(root.path()), second);
    }

    #[test]
    fn a_link_in_the_place_of_the_token_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", file_in(root.path())).unwrap();
        assert!(token(&Disk::new(FileOptions::default()), root.path()).is_err());
    }
}
