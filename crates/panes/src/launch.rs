//! A launch that is too long for a terminal's own command: a file that holds it and deletes itself.
//!
//! It is written here, private to the user, and taken by `pitcrew pane-exec FILE`, which unlinks it before anything else
//! and becomes the program. What becomes of the process afterwards is the pane's.

use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::pane::NewPane;

/// The most bytes a launch has; a kernel takes no longer argument list anyway.
const LAUNCH_BYTES: u64 = 4 * 1024 * 1024;

/// The mode of the file: it can hold keys.
const PRIVATE: u32 = 0o600;

/// A program about to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder it is started in.
    pub cwd: PathBuf,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Where the process writes its number before it becomes the program, for terminals that cannot tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell_pid: Option<PathBuf>,
}

impl Launch {
    /// The launch of that pane.
    #[must_use]
    pub fn of(pane: &NewPane) -> Self {
        Self {
            argv: pane.argv.clone(),
            cwd: pane.cwd.clone(),
            env: pane.env.clone(),
            tell_pid: None,
        }
    }

    /// Writes the launch into a new file in `folder` that only this user can read.
    ///
    /// # Errors
    /// What the system said when the file could not be written.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let mut file = tempfile::Builder::new()
            .prefix("pitcrew-launch-")
            .permissions(fs::Permissions::from_mode(PRIVATE))
            .tempfile_in(folder)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(file.into_temp_path().keep()?)
    }

    /// Reads a launch and deletes its file.
    ///
    /// # Errors
    /// What the system said, or that the file is not a private file of this user with a launch in it; such a file is left
    /// alone.
    pub fn take(path: &Path) -> io::Result<Self> {
        let flags = rustix::fs::OFlags::RDONLY
            | rustix::fs::OFlags::NOFOLLOW
            | rustix::fs::OFlags::NONBLOCK;
        let mut file =
            fs::File::from(rustix::fs::open(path, flags | rustix::fs::OFlags::CLOEXEC, 0.into())?);
        let found = file.metadata()?;
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
