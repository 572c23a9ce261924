//! Tests that archive a team while concurrent async tasks use the files of the team. Each of these
//! tasks must get the error [`StoreError::NoTeam`].

use pitcrew_protocol::{AgentName, MessageId, TeamDir};
use pitcrew_store::{FileBackend, MailStore, StoreError, TeamStore, UnreadLimit};

use crate::scene::{Scene, message, open};

const ROUNDS: usize = 20;
const WORKERS: usize = 6;

/// Sends messages and marks them as read until an operation fails. Returns the error of that
/// operation.
async fn works(backend: FileBackend, team: TeamDir, worker: usize) -> StoreError {
    let inbox = AgentName::foreign(&format!("worker{worker}")).inbox_file();
    for n in 0.. {
        let id = MessageId(format!("m{n}"));
        let sent = backend.append(&team, &inbox, message(&id.0), UnreadLimit::None).await.map(drop);
        if let Err(error) = sent.and(backend.acknowledge(&team, &inbox, &[id]).await.map(drop)) {
            return error;
        }
    }
    unreachable!("it works until that fails")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_works_with_a_team_that_goes_to_the_archive_learns_that_it_is_gone() {
    for round in 0..ROUNDS {
        let scene = Scene::new().await;
        let begin = |worker| tokio::spawn(works(open(scene.root()), scene.team.clone(), worker));
        let workers: Vec<_> = (0..WORKERS).map(begin).collect();
        let all_work = || {
            (0..WORKERS)
                .all(|n| scene.path(&format!("teams/probe/inboxes/worker{n}.json")).exists())
        };
        while !all_work() {
            tokio::task::yield_now().await;
        }
        scene.backend.archive_team(&scene.team).await.unwrap();
        for worker in workers {
            let error = worker.await.unwrap();
            let cause = std::error::Error::source(&error);
            assert!(
                matches!(error, StoreError::NoTeam { .. }),
                "round {round}: {error}: {cause:?}"
            );
        }
    }
}
