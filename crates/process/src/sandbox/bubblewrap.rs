//! What is kept mounted read-only by bubblewrap, in a mount namespace of the command's own.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Probe, Stdio};

use tokio::process::Command;

use super::places::Places;

/// What would let root undo the mounts or reach around them: by new mounts, by other processes, by files' handles.
const DROPPED: [&str; 3] = ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"];

/// What root needs to go about with files of others, as it is used to.
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

/// Which processes a command sees in mounts of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Processes {
    /// All of the machine.
    All,
    /// Those that it started.
    Own,
}

/// The program, found to work.
#[derive(Debug)]
pub(super) struct Bubblewrap {
    program: PathBuf,
}

impl Bubblewrap {
    /// Tries it: many systems have the program and forbid what it needs.
    pub(super) fn probe(program: PathBuf) -> Option<Self> {
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

    /// Whether it is another user's program that runs with that user's rights, as where namespaces are the administrator's.
    pub(super) fn gains_rights(&self) -> bool {
        const SET_USER: u32 = 0o4000;
        let mode = fs::metadata(&self.program).map_or(0, |meta| meta.mode());
        mode & SET_USER != 0 && !rustix::process::geteuid().is_root()
    }

    /// The beginning of a command line in namespaces of its own: processes, queues, terminals, and the network unless it
    /// is shared. Mounts, the program and its arguments follow. It ends with the thread that starts it.
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

    /// Whether mounts hold the places whatever is tried: a link can be replaced, and what is not there not mounted over,
    /// but straight below the root, which is read-only itself.
    pub(super) fn can_hold(places: &Places) -> bool {
        let is_held = |path: &PathBuf| is_straight_below_root(path, places) || path.exists();
        !places.has_loose_links()
            && places.roots.iter().all(|root| root.is_dir())
            && places.kept.iter().all(is_held)
    }

    /// The beginning of a command line; the program and its arguments follow.
    ///
    /// A folder that is a mount point cannot be renamed or removed, so each on the way is mounted onto itself. The root is
    /// mounted read-only, and all in it that is not kept writable again: so nothing needs to be put, for all to see,
    /// where a kept file is not yet, and none that is replaced meanwhile comes to light writable.
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
        for kept in
            places.kept.iter().filter(|kept| !is_straight_below_root(kept, places) && kept.exists())
        {
            command.arg("--ro-bind").arg(kept).arg(kept);
        }
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

/// What lies straight below a root and is not kept. To a socket or a device a read-only mount is no hindrance.
fn left_free(root: &Path, places: &Places) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let is_free = |entry: &DirEntry| {
        let is_plain = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_file());
        is_plain && !places.is_kept(&entry.path())
    };
    entries.filter(is_free).map(|entry| entry.path()).collect()
}
