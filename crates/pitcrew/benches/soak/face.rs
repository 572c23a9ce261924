//! A user interface in a process of its own, which follows the host of the team over its control
//! socket.

use std::path::Path;
use std::sync::Arc;

use pitcrew_protocol::Limits;
use pitcrew_store::{FileBackend, FileOptions};
use pitcrew_team::{SystemClock, Teams};
use pitcrew_view::client::{FromHost, follow};

use crate::seen::{News, record};
use crate::team::TEAM;

/// Follows the host until the benchmark closes the standard input of this process.
pub(crate) fn follow_host(root: &Path, counts_bytes: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let backend = Arc::new(FileBackend::open(root, FileOptions::default()));
        let teams = Teams::new(backend, Limits::default(), Arc::new(SystemClock));
        let team = teams.open(TEAM).await.expect("the team is there");
        let following = follow(&team, None).await.expect("the host answers");
        let mut following = following.expect("the team runs");
        let next = async || match following.next().await {
            FromHost::Snapshot(_) => News::Snapshot { next_seq: following.next_seq() },
            FromHost::Event(event) => News::Event(event),
            FromHost::Gone(error) => panic!("the host is gone: {error:?}"),
        };
        record(counts_bytes, next).await;
    });
}
