//! Files of the web server in the folder `pitcrew/web` below the root: the devices that may call,
//! and the certificate that the server has made.
//!
//! This module reads and writes the bytes of a file. The crate `web` knows what is in them. The
//! lock of the token is the lock of these files too.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::backend::FileBackend;
use super::disk::{Disk, failed, is_absent};
use super::plain::{self, Unopened};
use super::web_token::locked;
use crate::StoreError;
use crate::own_mode::OF_OTHERS;

/// The maximum length of a file in bytes.
const BYTES_MOST: u64 = 256 << 10;

/// A file of the web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebFile {
    /// The devices that may call.
    Devices,
    /// The certificate that the server has made, with its private key.
    Certificate,
}

impl WebFile {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Devices => "devices.json",
            Self::Certificate => "self-signed.json",
        }
    }
}

impl FileBackend {
    /// Returns the content of a file of the web server. Returns `None` if there is no file, or if
    /// other users may know the key of a certificate: the server then makes another one.
    ///
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::Corrupt`] if the file is too long, if a link or a folder
    /// is in its place, or if other users may have added a device.
    pub async fn web_file(&self, file: WebFile) -> Result<Option<Vec<u8>>, StoreError> {
        self.run(move |files| present(&files.paths.web(), file)).await
    }

    /// Changes a file of the web server under its lock. `edit` gets the content as
    /// [`FileBackend::web_file`] returns it, and returns the new content and a result. Without a
    /// new content the file stays as it is.
    ///
    /// # Errors
    /// Those of [`FileBackend::web_file`].
    pub async fn edit_web_file<T: Send + 'static>(
        &self,
        file: WebFile,
        edit: impl FnOnce(Option<Vec<u8>>) -> (Option<Vec<u8>>, T) + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run(move |files| edited(&files.disk, &files.paths.web(), file, edit)).await
    }

    /// Returns the path of a file of the web server.
    #[must_use]
    pub fn web_file_path(&self, file: WebFile) -> PathBuf {
        file_in(&self.paths().web(), file)
    }
}

fn file_in(folder: &Path, file: WebFile) -> PathBuf {
    folder.join(file.name())
}

fn edited<T>(
    disk: &Disk,
    folder: &Path,
    file: WebFile,
    edit: impl FnOnce(Option<Vec<u8>>) -> (Option<Vec<u8>>, T),
) -> Result<T, StoreError> {
    let _lock = locked(disk, folder)?;
    let path = file_in(folder, file);
    let (content, result) = edit(present(folder, file)?);
    if let Some(content) = content {
        plain::check_length(&path, content.len() as u64, BYTES_MOST)?;
        disk.create(&path, &content)?;
        disk.force_dir(folder)?;
    }
    Ok(result)
}

fn present(folder: &Path, name: WebFile) -> Result<Option<Vec<u8>>, StoreError> {
    let path = file_in(folder, name);
    let file = match plain::open(&path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.at("open", &path)),
    };
    let meta = file.metadata().map_err(failed("read", &path))?;
    if meta.mode() & OF_OTHERS != 0 {
        return match name {
            // An empty list in its place would end all pairings without a word.
            WebFile::Devices => {
                let reason = "other users can read or change it, so it does not count; `pitcrew doctor --repair` closes it";
                Err(StoreError::Corrupt { path, reason: reason.to_owned() })
            }
            WebFile::Certificate => Ok(None),
        };
    }
    let mut content = Vec::new();
    // One byte more than the limit shows that the file is too long.
    file.take(BYTES_MOST + 1).read_to_end(&mut content).map_err(failed("read", &path))?;
    plain::check_length(&path, content.len() as u64, BYTES_MOST)?;
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::FileOptions;

    fn put(folder: &Path, content: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let disk = Disk::new(FileOptions::default());
        edited(&disk, folder, WebFile::Devices, |before| (Some(content.to_vec()), before))
    }

    #[test]
    fn an_edit_gets_what_the_last_one_wrote_and_only_its_user_reads_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("pitcrew/web");
        assert_eq!(put(&folder, b"one").unwrap(), None);
        assert_eq!(put(&folder, b"two").unwrap().as_deref(), Some(b"one".as_slice()));
        assert_eq!(fs::metadata(file_in(&folder, WebFile::Devices)).unwrap().mode() & 0o777, 0o600);
        let disk = Disk::new(FileOptions::default());
        edited(&disk, &folder, WebFile::Devices, |_| (None, ())).unwrap();
        let there = present(&folder, WebFile::Devices).unwrap();
        assert_eq!(there.as_deref(), Some(b"two".as_slice()));
    }

    #[test]
    fn a_file_that_others_could_write_a_long_one_and_a_link_do_not_count() {
        let root = tempfile::tempdir().unwrap();
        let file = file_in(root.path(), WebFile::Devices);
        put(root.path(), b"one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
        let refused = present(root.path(), WebFile::Devices).unwrap_err().to_string();
        assert!(refused.contains("other users can read or change it"), "{refused}");
        assert!(put(root.path(), b"two").is_err(), "the pairings stay");
        let certificate = file_in(root.path(), WebFile::Certificate);
        fs::write(&certificate, "key").unwrap();
        fs::set_permissions(&certificate, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(present(root.path(), WebFile::Certificate).unwrap(), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let long = vec![b' '; BYTES_MOST as usize + 1];
        assert!(put(root.path(), &long).is_err());
        assert_eq!(
            present(root.path(), WebFile::Devices).unwrap().as_deref(),
            Some(b"one".as_slice())
        );
        fs::write(&file, &long).unwrap();
        assert!(present(root.path(), WebFile::Devices).is_err());
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        assert!(present(root.path(), WebFile::Devices).is_err());
    }
}
