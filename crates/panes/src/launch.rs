//! Launch files. A launch file contains the program, the arguments and the environment variables
//! for a new pane. It is used if this data is too long for a command line of the terminal, or if it
//! is secret.
//!
//! This module writes the file so that only the user can read it. `pitcrew pane-exec FILE` reads
//! and deletes the file, and then replaces itself by the program (`exec`).

use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::pane::NewPane;

/// Maximum size of a launch file in bytes. The kernel does not accept longer argument lists anyway.
const LAUNCH_BYTES: u64 = 4 * 1024 * 1024;

/// The permission bits of a launch file. Only the user can read it, because it may contain secret
/// keys.
const PRIVATE: u32 = 0o600;

/// The content of a launch file: a program to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder in which the program starts.
    pub cwd: PathBuf,
    /// The environment variables to set.
    pub env: Vec<(String, String)>,
    /// If set, the process that reads the launch file writes its process id to the file at this
    /// path. After that, the process replaces itself by the program. The file is needed for
    /// terminals that cannot report the process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell_pid: Option<PathBuf>,
}

impl Launch {
    /// Returns the launch data for a new pane.
    #[must_use]
    pub fn of(pane: &NewPane) -> Self {
        Self {
            argv: pane.argv.clone(),
            cwd: pane.cwd.clone(),
            env: pane.env.clone(),
            tell_pid: None,
        }
    }

    /// Writes the launch data into a new file in `folder`. Only this user can read the file.
    /// Returns its path.
    ///
    /// # Errors
    /// The error of the operating system if the file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let mut file = tempfile::Builder::new()
            .prefix("pitcrew-launch-")
            .permissions(fs::Permissions::from_mode(PRIVATE))
            .tempfile_in(folder)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        // Do not delete the file when this value is dropped. The process that reads the file
        // deletes it.
        Ok(file.into_temp_path().keep()?)
    }

    /// Reads a launch file and deletes it.
    ///
    /// # Errors
    /// The error of the operating system if the file cannot be read or deleted. Also an error if
    /// the path is not a private file of this user, if the file is too large, or if it contains no
    /// valid launch data. If the file cannot be read or is not valid, it is not deleted.
    #[expect(clippy::disallowed_methods, reason = "the launch file is removed once it is read")]
    pub fn take(path: &Path) -> io::Result<Self> {
        // Another file type may be at this path. Without `NONBLOCK`, opening a FIFO would block
        // forever.
        let flags = rustix::fs::OFlags::RDONLY
            | rustix::fs::OFlags::NOFOLLOW
            | rustix::fs::OFlags::NONBLOCK;
        let mut file =
            fs::File::from(rustix::fs::open(path, flags | rustix::fs::OFlags::CLOEXEC, 0.into())?);
        let found = file.metadata()?;
        // Check the open file, not the path. The path could be replaced between the check and the
        // read.
        let is_private =
            found.mode() & 0o077 == 0 && found.uid() == rustix::process::getuid().as_raw();
        if !found.is_file() || !is_private || found.len() > LAUNCH_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a private launch file of this user",
            ));
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(LAUNCH_BYTES).read_to_end(&mut bytes)?;
        let launch = serde_json::from_slice(&bytes)?;
        fs::remove_file(path)?;
        Ok(launch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        let env = vec![("KEY".to_owned(), "s3cret\n=".to_owned())];
        Launch { argv: vec!["a b".to_owned()], cwd: PathBuf::from("/"), env, tell_pid: None }
    }

    #[test]
    fn a_launch_is_private_and_can_be_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = launch().write(folder.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, PRIVATE);
        assert_eq!(Launch::take(&path).unwrap(), launch());
        assert_eq!(Launch::take(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_no_launch_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let open = launch().write(folder.path()).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "{}").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(PRIVATE)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(launch().write(folder.path()).unwrap(), &link).unwrap();
        for path in [&open, &other, &link, &folder.path().to_owned()] {
            assert!(Launch::take(path).is_err(), "{}", path.display());
            assert!(path.exists(), "{}", path.display());
        }
    }
}
