//! Lets a command wait for a moment after a change, to redo the change if the reference client
//! overwrites it.
//!
//! The reference client writes `config.json` and tasks without a lock. In a test, 4 of 25 changes
//! of a busy member's mode were lost to such a write (2.1.39, two cores under load). The client's
//! writes came up to 0.11 s after the change. One write came 0.85 s after the change, from a
//! teammate that was just starting; a command should not wait that long. The store redoes a lost
//! change when it reads the file again. A run reads the files again and again, but a command must
//! do so here.

use std::time::Duration;

use pitcrew_team::{SpawnRecord, Team};

use crate::failure::Failure;

/// The time that a command waits. It is twice the longest delay seen from a teammate in a turn.
const STAY: Duration = Duration::from_millis(240);

/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(40);

/// Waits until a change to the team's config or tasks is unlikely to be overwritten with an older
/// version. Does not wait if pitcrew runs all teammates, because pitcrew locks the files.
///
/// # Errors
/// When the team's files cannot be read.
pub(crate) async fn until_kept(team: &Team) -> Result<(), Failure> {
    let config = team.config().await?;
    if config.teammates().all(SpawnRecord::is_run_by_us) {
        return Ok(());
    }
    let mut stayed = Duration::ZERO;
    while stayed < STAY {
        tokio::time::sleep(PAUSE).await;
        stayed += PAUSE;
        // Reading the files makes the store redo a change that was overwritten.
        let _kept = (team.config().await?, team.tasks().await?);
    }
    Ok(())
}
