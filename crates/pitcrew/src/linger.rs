//! Staying for a moment after a change, for a command that would end with it.
//!
//! The reference client writes `config.json` and tasks without a lock, from readings that were up to 0.11 s old when it
//! was measured (2.1.39, two cores under load), and 4 of 25 changes of a busy member's mode were lost to it. The store makes
//! such a change again when it looks at the file; a run goes on looking, a command has to do it here.

use std::time::Duration;

use pitcrew_team::Team;

use crate::failure::Failure;

/// How long a command stays; twice the oldest reading seen.
const STAY: Duration = Duration::from_millis(240);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(40);

/// Stays until what was changed in the team's config or tasks can no longer be overwritten from an older reading.
///
/// # Errors
/// When the team's files cannot be read.
pub(crate) async fn until_kept(team: &Team) -> Result<(), Failure> {
    if team.config().await?.members.len() < 2 {
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
