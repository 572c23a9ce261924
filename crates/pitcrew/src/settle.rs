//! Lets a command wait for a short time after it has changed the files of a team. If the reference
//! client overwrites the change in that time, the change is made again.
//!
//! The reference client writes `config.json` and tasks without a lock. In a test with version
//! 2.1.39 of the client, on two busy cores, 4 of 25 changes of a member's mode were lost to such a
//! write. In this test, all writes of the client except one came at most 0.11 s after the change.
//! The last one came after 0.85 s, from a teammate that was just starting. A command should not
//! wait that long.
//!
//! When the store reads a file whose changes were overwritten, the store makes the changes again. A
//! run reads the files all the time. Other commands do not, so this module reads the files several
//! times.

use std::time::Duration;

use pitcrew_team::{SpawnRecord, Team};

use crate::failure::Failure;

/// How long a command waits. The time is a little more than twice the longest delay that was
/// measured for a working teammate (0.11 s).
const STAY: Duration = Duration::from_millis(240);

/// The pause between two reads of the team's files.
const PAUSE: Duration = Duration::from_millis(40);

/// Waits until it is unlikely that another program overwrites a change to the team's config or
/// tasks with an older version. Does not wait if pitcrew runs all teammates, because pitcrew locks
/// the files.
///
/// # Errors
/// Returns an error if the team's files cannot be read.
pub(crate) async fn until_kept(team: &Team) -> Result<(), Failure> {
    let config = team.config().await?;
    if config.teammates().all(SpawnRecord::is_run_by_us) {
        return Ok(());
    }
    let mut stayed = Duration::ZERO;
    while stayed < STAY {
        tokio::time::sleep(PAUSE).await;
        stayed += PAUSE;
        // When the store reads the files, it makes overwritten changes again.
        let _kept = (team.config().await?, team.tasks().await?);
    }
    Ok(())
}
