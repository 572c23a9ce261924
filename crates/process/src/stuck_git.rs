//! Ends a git of ours that waits for a FIFO or reads a file without an end, or whose run ends.
//!
//! Git opens files in every folder of a checkout, at the path of every object, and wherever a setting
//! leads it. To look at all of them before each git command would take longer than the command. So
//! they are looked at when a command does not end, and the processes of the command too.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::identity::{Entry, ProcessIdentity};
use crate::our_git::RunningGit;
use crate::sandbox::git_folder::GitFolder;
use crate::sandbox::{Extent, unfit_in_checkout};

/// The time after which a command and the files that git reads are looked at, and the time between
/// two looks.
const PATIENCE: Duration = Duration::from_millis(1500);

/// The function of the kernel in which a process waits that opens a FIFO.
const IN_OPEN: &str = "wait_for_partner";

/// Watches over one git command.
pub(crate) struct Stuck {
    cancel: CancellationToken,
    found: Arc<OnceLock<String>>,
    watch: JoinHandle<()>,
}

impl Stuck {
    /// Starts to watch over a git command that was started in a folder.
    pub(crate) fn watch(folder: &Path, leader: ProcessIdentity, running: &RunningGit) -> Self {
        let (cancel, found) = (CancellationToken::new(), Arc::new(OnceLock::new()));
        let ended = running.ended();
        let watch = {
            let (cancel, found, folder) = (cancel.clone(), Arc::clone(&found), folder.to_owned());
            tokio::spawn(async move {
                let reason = tokio::select! {
                    () = ended => "git was stopped, because the run ends".to_owned(),
                    reason = reason_to_stop(&folder, leader) => reason,
                };
                let _first = found.set(reason);
                cancel.cancel();
            })
        };
        Self { cancel, found, watch }
    }

    /// Is cancelled when the command has to end.
    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns why the command was cancelled.
    pub(crate) fn reason(&self) -> String {
        self.found.get().cloned().unwrap_or_else(|| "it was stopped".to_owned())
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Looks at a command again and again, until there is a reason to stop it.
async fn reason_to_stop(folder: &Path, leader: ProcessIdentity) -> String {
    let mut is_first = true;
    loop {
        tokio::time::sleep(PATIENCE).await;
        let folder = folder.to_owned();
        let look = move || {
            let waits = waits_for_fifo(leader);
            // The files are many, and a FIFO that appears among them later is seen at the process.
            if !is_first && waits.is_none() {
                return None;
            }
            let unfit = GitFolder::unfit(&folder, Extent::Whole);
            let unfit = unfit.or_else(|| unfit_in_checkout(&folder));
            unfit.map(|unfit| unfit.to_string()).or(waits)
        };
        is_first = false;
        if let Ok(Some(reason)) = tokio::task::spawn_blocking(look).await {
            return reason;
        }
    }
}

/// Returns a message if a git process in a process group waits to open a FIFO, or has opened one. The
/// user's filters may do so, and git never has a reason to.
fn waits_for_fifo(leader: ProcessIdentity) -> Option<String> {
    let of_command = Entry::all().into_iter().filter(|entry| entry.group == leader.pid);
    let mut gits = of_command.filter(|entry| entry.name() == "git");
    gits.find_map(|entry| {
        let process = Path::new("/proc").join(entry.identity.pid.to_string());
        let place = fs::read_to_string(process.join("wchan")).unwrap_or_default();
        if place.starts_with(IN_OPEN) {
            return Some(
                "git was stopped, because it waited for a FIFO that the repository names"
                    .to_owned(),
            );
        }
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        // A pipe without a path has another kind of name.
        let mut fifos = open.filter_map(|entry| {
            let path = fs::read_link(entry.path()).ok().filter(|path| path.is_absolute())?;
            let kind = fs::metadata(entry.path()).ok()?.file_type();
            kind.is_fifo().then_some(path)
        });
        fifos.next().map(|path| format!("git cannot read {}: it is a FIFO", path.display()))
    })
}
