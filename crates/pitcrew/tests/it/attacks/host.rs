//! The simulated machine on which attacks run: its user and its sandbox mechanisms.
//!
//! To simulate a machine with fewer mechanisms, the test hides them from the binary. To hide
//! Landlock, a system call filter answers with `ENOSYS` (`examples/without_landlock.rs`). To hide
//! bubblewrap, a device is mounted over the bubblewrap program, in a separate mount namespace.

use std::fmt;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A user id that no system assigns.
const OTHER: u32 = 54_321;

/// A shell script that hides bubblewrap. It mounts the device `/dev/null` over the bubblewrap
/// program, in each folder in which the binary looks for bubblewrap. Then the script executes the
/// command in its arguments.
const COVER: &str = "for folder in /usr/bin /usr/local/bin /bin /run/current-system/sw/bin; do
    if [ -f $folder/bwrap ]; then mount --bind /dev/null $folder/bwrap || exit 125; fi
done
exec \"$@\"";

/// The user that runs the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Root,
    /// A user without privileges. If root runs the tests, this is [`OTHER`]. Otherwise it is the
    /// user that runs the tests.
    Other,
}

/// The sandbox mechanisms that the simulated machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mechanism {
    pub(super) landlock: bool,
    pub(super) bubblewrap: bool,
}

/// The answer of `doctor` about each sandbox profile: whether the profile can be enforced.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) read: String,
    pub(super) work: String,
    pub(super) free: String,
}

/// A user on a simulated machine, and a folder with the programs that the user runs.
pub(super) struct Host {
    dir: tempfile::TempDir,
    pub(super) user: User,
    pub(super) means: Mechanism,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = match self.user {
            User::Root => "root",
            User::Other => "another user",
        };
        let means = match (self.means.landlock, self.means.bubblewrap) {
            (true, true) => "Landlock and bubblewrap",
            (true, false) => "Landlock",
            (false, true) => "bubblewrap",
            (false, false) => "nothing",
        };
        write!(f, "{user} with {means}")
    }
}

impl Host {
    /// Makes a host, or returns the reason why the host cannot be simulated on this machine.
    pub(super) fn new(user: User, means: Mechanism) -> Result<Self, String> {
        if user == User::Root && !is_root() {
            return Err("not run as root".to_owned());
        }
        // The sockets of the tests are in this folder. The folder has a short path, because the
        // length of a socket's path is limited.
        let host = Self { dir: tempfile::tempdir_in("/tmp").unwrap(), user, means };
        fs::set_permissions(host.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let example =
            Path::new(env!("CARGO_BIN_EXE_pitcrew")).with_file_name("examples/without_landlock");
        assert!(example.is_file(), "{} is built with the tests", example.display());
        fs::copy(env!("CARGO_BIN_EXE_pitcrew"), host.pitcrew()).unwrap();
        fs::copy(example, host.dir.path().join("without_landlock")).unwrap();
        let tried = host.command("true").output().map_err(|error| error.to_string())?;
        if !tried.status.success() {
            return Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned());
        }
        Ok(host)
    }

    /// Returns the folder that only this host uses.
    pub(super) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The path of the binary. The binary is in a folder from which the user is able to run it.
    pub(super) fn pitcrew(&self) -> PathBuf {
        self.dir.path().join("pitcrew")
    }

    /// Returns a command for `program`, with an empty environment. The command runs as the host's
    /// user on the simulated machine.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut before: Vec<String> = Vec::new();
        let mut say = |words: &[&str]| before.extend(words.iter().map(|word| (*word).to_owned()));
        if !self.means.bubblewrap {
            if is_root() {
                say(&["unshare", "--mount", "sh", "-c", COVER, "sh"]);
            } else {
                say(&[
                    "unshare",
                    "--user",
                    "--map-current-user",
                    "--keep-caps",
                    "--mount",
                    "sh",
                    "-c",
                    COVER,
                    "sh",
                ]);
                say(&["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]);
            }
        }
        if self.user == User::Other && is_root() {
            let (user, group) = (format!("--reuid={OTHER}"), format!("--regid={OTHER}"));
            say(&["setpriv", &user, &group, "--clear-groups"]);
        }
        if !self.means.landlock {
            say(&[&self.dir.path().join("without_landlock").display().to_string()]);
        }
        before.insert(0, "env".to_owned());
        let mut words = before.into_iter();
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .arg(program)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command
    }

    /// Makes the host's user the owner of a folder and of everything in the folder.
    pub(super) fn give(&self, folder: &Path) {
        if self.user == User::Root || !is_root() {
            return;
        }
        let mut todo = vec![folder.to_path_buf()];
        while let Some(path) = todo.pop() {
            if path.is_symlink() {
                continue;
            }
            chown(&path, Some(OTHER), Some(OTHER)).unwrap();
            if path.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    }

    /// Asks `doctor` which sandbox profiles can be enforced on this host.
    pub(super) fn held(&self) -> Held {
        let home = tempfile::tempdir_in(self.folder()).unwrap();
        self.give(home.path());
        let mut doctor = self.command(self.pitcrew());
        doctor
            .args(["doctor", "--json"])
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("TMPDIR", home.path());
        let ran = doctor.output().unwrap();
        let said: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        let of = |profile: &str| said["sandbox"][profile].as_str().unwrap().to_owned();
        Held { read: of("read"), work: of("work"), free: of("free") }
    }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
