//! Staying for a moment after a change, for a command that would end with it.
//!
//! The reference client writes `config.json` and tasks without a lock, and 4 of 25 changes of a busy member's mode were
//! lost to it (2.1.39, two cores under load). Its writes came up to 0.11 s after the change; 0.85 s once, from a teammate
//! that was just starting, which is more than a command should take. The store makes such a change again when it looks at
//! the file; a run goes on looking, a command has to do it here.

use std::time::Duration;

use pitcrew_team::{SpawnRecord, Team};

use crate::failure::Failure;

/// How long a command stays; twice what a teammate in a turn was seen to take.
const STAY: Duration = Duration::from_millis(240);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(40);

/// Stays until what was changed in the team's config or tasks is unlikely to be overwritten from an older reading; not at
/// all in a team whose teammates are all ours, for we lock.
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
        let _kept = (team.config().await?, team.tasks().await?);
    }
    Ok(())
}
