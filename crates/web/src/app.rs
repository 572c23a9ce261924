//! What all requests share: the teams, and the keys to the server.

use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, LEAD_NAME, TeamConfig};
use pitcrew_team::{SpawnRecord, Team, TeamRecords, Teams};
use pitcrew_view::changes::Worktrees;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access::Keys;
use crate::device_streams::DeviceStreams;
use crate::devices::Devices;
use crate::failure::Failure;
use crate::logs::Logs;
use crate::metrics::Metrics;
use crate::pairing::Tries;
use crate::read_rates::ReadRates;
use crate::remembered::Remembered;
use crate::routes::Snapshots;

/// The maximum length in bytes of a team's name and of an archive's id: that of a file name.
const NAME_BYTES_MOST: usize = 255;

/// What all requests share.
pub(crate) struct App {
    /// The teams, for changes.
    pub(crate) teams: Teams,
    /// The teams, for reads. A read writes no file, not even to repair it: the server may have read
    /// the file long ago.
    pub(crate) reads: Teams,
    /// The folder below which all teams are.
    pub(crate) root: PathBuf,
    pub(crate) new_teams: NewTeams,
    /// One permit for each replay that can be made now.
    pub(crate) replay_permits: Semaphore,
    pub(crate) worktrees: Worktrees,
    pub(crate) keys: Keys,
    pub(crate) metrics: Metrics,
    pub(crate) logs: Logs,
    pub(crate) devices: Devices,
    pub(crate) device_streams: DeviceStreams,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) remembered: Remembered,
    pub(crate) pair_tries: Tries,
    pub(crate) read_rates: ReadRates,
    /// Cancelled when the server ends. Event streams end then.
    pub(crate) stop: CancellationToken,
}

/// How teams are made through the API.
#[derive(Clone, Debug)]
pub enum NewTeams {
    /// The lead of a new team works in this folder.
    In(PathBuf),
    /// No team can be made, for the reason that the error gives.
    Refused(ApiError),
}

/// Whether another client leads the team. Its files keep neither mail nor members that are gone.
fn is_of_another_client(config: &TeamConfig) -> bool {
    config.member(LEAD_NAME).is_none_or(|lead| SpawnRecord::of(lead).is_none())
}

/// The state of the router.
pub(crate) type Shared = Arc<App>;

impl App {
    /// Opens a team that is in its place, to change it.
    pub(crate) async fn team(&self, name: &str) -> Result<Team, Failure> {
        check_length(name)?;
        Ok(self.teams.open(name).await?)
    }

    /// Returns the records of a team, to read them. `name` is the name of a team, or the name or the
    /// archive id of an archived team.
    pub(crate) async fn records(&self, name: &str) -> Result<TeamRecords, Failure> {
        check_length(name)?;
        let missing = match self.reads.open(name).await {
            Ok(team) => {
                self.remember(&team).await?;
                return Ok(TeamRecords::Live(team));
            }
            Err(error) if error.code == ErrorCode::TeamNotFound => error,
            Err(error) => return Err(error.into()),
        };
        match self.reads.find_archived(name).await? {
            Some(archived) => Ok(TeamRecords::Archived(self.reads.clone(), Box::new(archived))),
            None => Err(missing.into()),
        }
    }

    /// Remembers what is seen of a team if another client leads it.
    ///
    /// # Errors
    /// If the config cannot be read.
    pub(crate) async fn remember(&self, team: &Team) -> Result<(), ApiError> {
        let config = team.config().await?;
        if is_of_another_client(&config) {
            self.remembered.ask(team, &config);
        }
        Ok(())
    }

    /// Opens a team and finds one of its members.
    pub(crate) async fn member(
        &self,
        team: &str,
        name: &str,
    ) -> Result<(Team, AgentName), Failure> {
        let team = self.team(team).await?;
        let member = team.member(name).await?.name;
        Ok((team, member))
    }
}

/// Refuses a name that is too long for a folder. The system would refuse it as a failure.
fn check_length(name: &str) -> Result<(), ApiError> {
    if name.len() <= NAME_BYTES_MOST {
        return Ok(());
    }
    let message = format!("no team has a name of {} bytes", name.len());
    Err(ApiError::new(ErrorCode::TeamNotFound, message).with("limit", NAME_BYTES_MOST))
}
