//! Ends a git of ours that waits for a FIFO or reads a file without an end. Git opens files in every
//! folder of a checkout and at the path of every object. To look at all of them before each git
//! command would take longer than the command. So they are looked at when a command does not end.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::sandbox::git_folder::GitFolder;
use crate::sandbox::{Extent, Unfit, unfit_in_checkout};

/// The time after which the files that git reads are looked at.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Watches over one git command.
pub(crate) struct Stuck {
    cancel: CancellationToken,
    found: Arc<OnceLock<Unfit>>,
    watch: JoinHandle<()>,
}

impl Stuck {
    /// Starts to watch over a git command that is started in a folder.
    pub(crate) fn watch(folder: &Path) -> Self {
        let (cancel, found) = (CancellationToken::new(), Arc::new(OnceLock::new()));
        let watch = {
            let (cancel, found, folder) = (cancel.clone(), Arc::clone(&found), folder.to_owned());
            tokio::spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                let look = move || {
                    GitFolder::unfit(&folder, Extent::Whole).or_else(|| unfit_in_checkout(&folder))
                };
                if let Ok(Some(unfit)) = tokio::task::spawn_blocking(look).await {
                    let _first = found.set(unfit);
                    cancel.cancel();
                }
            })
        };
        Self { cancel, found, watch }
    }

    /// Is cancelled when a file is found for which git waits.
    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns why the command was cancelled.
    pub(crate) fn reason(&self) -> String {
        self.found.get().map_or_else(|| "it was stopped".to_owned(), ToString::to_string)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
