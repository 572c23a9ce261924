//! Finds stranded tmux clients: clients whose parent process (a pitcrew process) has died. Such a
//! client continues, so the pane that it requests may appear a moment later.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use pitcrew_process::identity::{Entry, ProcessIdentity};

use super::client::CALL_TIME;
use super::listing::held_for;
use crate::PaneTag;

/// Waits until every tmux client that creates a pane for `tag`, and that this process did not
/// start, has ended. The wait is not longer than the time limit of a tmux call.
pub(super) async fn settle(program: &Path, tag: &PaneTag) {
    let settled = async {
        loop {
            let stranded = find(program, tag).await;
            if stranded.is_empty() {
                return;
            }
            join_all(stranded.iter().map(ProcessIdentity::ended)).await;
        }
    };
    if tokio::time::timeout(CALL_TIME, settled).await.is_err() {
        tracing::warn!(%tag, "a tmux client whose caller died does not end");
    }
}

/// Finds the tmux clients that create a pane for `tag` and that this process did not start. This
/// runs on a blocking thread, because it reads the whole process table.
async fn find(program: &Path, tag: &PaneTag) -> Vec<ProcessIdentity> {
    let (program, tag): (PathBuf, PaneTag) = (program.to_owned(), tag.clone());
    let found = tokio::task::spawn_blocking(move || {
        let stranded = Entry::all().into_iter().filter(|entry| is_stranded(entry, &program, &tag));
        stranded.map(|entry| entry.identity).collect()
    });
    found.await.unwrap_or_default()
}

/// Returns true if the process is a tmux client that works for `tag` and that this process did not
/// start. A client that this process started is not stranded, because this process waits for it. A
/// tmux server is not stranded either. A server has the same arguments as the client that started
/// it, but it is the leader of its own session.
fn is_stranded(entry: &Entry, program: &Path, tag: &PaneTag) -> bool {
    if entry.parent == std::process::id() || entry.session == entry.identity.pid {
        return false;
    }
    let words = entry.words();
    let is_client =
        words.first().is_some_and(|word| Path::new(word).file_name() == program.file_name());
    let tags = || words.iter().filter_map(|word| held_for(word).or_else(|| word.parse().ok()));
    is_client && tags().any(|its| tag.covers(&its))
}
