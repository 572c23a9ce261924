//! Protects files with bubblewrap, which mounts them read-only in a separate mount namespace for
//! each command.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Probe, Stdio};

use tokio::process::Command;

use super::places::Places;

/// Capabilities that a command loses in the sandbox profile *free* if the user `root` runs it. With
/// these capabilities, the command could undo or bypass the mounts: it could create mounts, access
/// other processes, or open files by handle.
const DROPPED: [&str; 3] = ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"];

/// Capabilities that a command keeps in the sandbox profile *work* if the user `root` runs it. With
/// these capabilities, the command can work with other users' files as usual.
const KEPT_OF_ROOT: [&str; 8] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
];

/// The processes that a command in its own mount namespace can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Processes {
    /// The command sees all processes of the machine.
    All,
    /// The command sees only the processes that it started.
    Own,
}

/// A bubblewrap program that works on this machine.
#[derive(Debug)]
pub(super) struct Bubblewrap {
    program: PathBuf,
}

impl Bubblewrap {
    /// Tests whether bubblewrap works, by running it. On many systems the program is installed, but
    /// the system forbids the namespaces that the program needs. Returns `None` if bubblewrap does
    /// not work.
    pub(super) fn probe(program: PathBuf) -> Option<Self> {
        // Try the same kinds of mounts that a command gets.
        let mut command = Probe::new(&program);
        command.args([
            "--dev-bind",
            "/",
            "/",
            "--ro-bind",
            "/usr",
            "/usr",
            "--dev-bind-try",
            "/usr",
            "/usr",
        ]);
        command.args(DROPPED.iter().flat_map(|name| ["--cap-drop", name])).args(["--", "true"]);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success()).then_some(Self { program })
    }

    /// Returns true if bubblewrap gains another user's rights when it starts. This is the case if
    /// bubblewrap is a set-user-ID program and the user is not `root`. Bubblewrap is installed as a
    /// set-user-ID program on systems where only the administrator is allowed to create namespaces.
    pub(super) fn gains_rights(&self) -> bool {
        const SET_USER: u32 = 0o4000;
        let mode = fs::metadata(&self.program).map_or(0, |meta| meta.mode());
        mode & SET_USER != 0 && !rustix::process::geteuid().is_root()
    }

    /// Returns the start of a bubblewrap command line. The command gets its own terminal session,
    /// and its own namespaces for processes, IPC and host name. It also gets its own network
    /// namespace unless `shares_network` is true. The caller adds mounts, program and arguments.
    /// The command ends when the thread that started it ends.
    pub(super) fn apart(&self, shares_network: bool) -> Command {
        let mut command = Command::new(&self.program);
        command.args([
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--new-session",
            "--die-with-parent",
        ]);
        if !shares_network {
            command.arg("--unshare-net");
        }
        command.args(["--cap-drop", "ALL"]);
        if rustix::process::geteuid().is_root() {
            command.args(KEPT_OF_ROOT.iter().flat_map(|name| ["--cap-add", name]));
        }
        command
    }

    /// Returns true if mounts can fully protect the protected files and folders in `places`. Mounts
    /// cannot protect a symbolic link, because the link could be replaced. They cannot protect a
    /// missing file, because it has no mount point. A missing file directly below the configuration
    /// root is protected nevertheless, because the root is mounted read-only.
    pub(super) fn can_hold(places: &Places) -> bool {
        let is_held = |path: &PathBuf| is_straight_below_root(path, places) || path.exists();
        !places.has_loose_links()
            && places.roots.iter().all(|root| root.is_dir())
            && places.kept.iter().all(is_held)
    }

    /// Returns the start of a bubblewrap command line with mounts that protect the protected files
    /// and folders in `places`. The caller adds the program and its arguments.
    ///
    /// A mount point cannot be renamed or removed. Therefore each folder on the path to a protected
    /// file is mounted onto itself. The configuration root is mounted read-only, and everything in
    /// it that is not protected is mounted writable again. This has two advantages: a protected
    /// file that does not exist yet needs no placeholder file, and a protected file that is
    /// replaced meanwhile stays read-only.
    pub(super) fn before(&self, places: &Places, cwd: &Path, processes: Processes) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--dev-bind", "/", "/"]);
        match processes {
            Processes::All => {}
            Processes::Own => _ = command.args(["--unshare-pid", "--proc", "/proc"]),
        }
        for way in places.ways.iter().filter(|way| way.parent().is_some()) {
            if !places.roots.contains(way) {
                command.arg("--dev-bind").arg(way).arg(way);
                continue;
            }
            command.arg("--ro-bind").arg(way).arg(way);
            for entry in left_free(way, places) {
                command.arg("--dev-bind-try").arg(&entry).arg(&entry);
            }
        }
        // The mounts of the protected files come after the mounts of the folders on their paths,
        // because a later mount covers an earlier one.
        for kept in
            places.kept.iter().filter(|kept| !is_straight_below_root(kept, places) && kept.exists())
        {
            command.arg("--ro-bind").arg(kept).arg(kept);
        }
        // The writable mounts come last, because they are inside read-only mounts.
        for open in &places.open {
            command.arg("--dev-bind").arg(open).arg(open);
        }
        command.args(DROPPED.iter().flat_map(|name| ["--cap-drop", name]));
        command.arg("--chdir").arg(cwd).arg("--");
        command
    }
}

fn is_straight_below_root(path: &Path, places: &Places) -> bool {
    path.parent().is_some_and(|folder| places.roots.contains(folder))
}

/// Returns the unprotected files and folders directly below a configuration root. Sockets and
/// devices are left out, because they can be used on a read-only mount too.
fn left_free(root: &Path, places: &Places) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let is_free = |entry: &DirEntry| {
        let is_plain = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_file());
        is_plain && !places.is_kept(&entry.path())
    };
    entries.filter(is_free).map(|entry| entry.path()).collect()
}
