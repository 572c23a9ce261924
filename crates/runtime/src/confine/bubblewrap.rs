//! The kept folders mounted read-only by bubblewrap, in a mount namespace of the command's own.

use std::path::{Path, PathBuf};
use std::process::{Command as Probe, Stdio};

use tokio::process::Command;

use super::places::Places;

/// What would let root undo the mounts or reach around them.
const DROPPED: [&str; 2] = ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE"];

/// The program, found to work.
#[derive(Debug)]
pub(super) struct Bubblewrap {
    program: PathBuf,
}

impl Bubblewrap {
    /// Tries it: many systems have the program and forbid what it needs.
    pub(super) fn probe(program: PathBuf) -> Option<Self> {
        let mut command = Probe::new(&program);
        command.args(["--dev-bind", "/", "/", "--ro-bind", "/usr", "/usr"]);
        command.args(DROPPED.iter().flat_map(|name| ["--cap-drop", name])).args(["--", "true"]);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success()).then_some(Self { program })
    }

    /// Whether mounts can hold the places: only what is there is mounted over, and nothing on a symbolic link.
    pub(super) fn can_hold(places: &Places) -> bool {
        !places.has_links && places.folders.iter().all(|folder| folder.is_dir())
    }

    /// The beginning of a command line; the program and its arguments follow.
    ///
    /// A folder that is a mount point cannot be renamed or removed, so each on the way is mounted onto itself.
    pub(super) fn before(&self, places: &Places, cwd: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--dev-bind", "/", "/"]);
        for way in places.ways.iter().filter(|way| way.parent().is_some()) {
            command.arg("--dev-bind").arg(way).arg(way);
        }
        for folder in &places.folders {
            command.arg("--ro-bind").arg(folder).arg(folder);
        }
        command.args(DROPPED.iter().flat_map(|name| ["--cap-drop", name]));
        command.arg("--chdir").arg(cwd).arg("--");
        command
    }
}
