//! The metrics of the server and of the teams, for Prometheus.
//!
//! - `exposition` writes the text format.
//! - `requests` counts requests and open event streams in memory.
//! - `team_reading` reads the files and the host of one team, `all_teams` those of all teams.
//! - `journal_counts` counts messages and reads each journal entry once.
//! - `scrape` writes all metrics of one scrape.

mod all_teams;
mod exposition;
mod journal_counts;
mod requests;
mod scrape;
mod team_reading;

pub(crate) use all_teams::AllTeams;
pub(crate) use requests::{Requests, count};
pub(crate) use scrape::{TEXT_FORMAT, scrape};

/// What the server remembers from one scrape to the next.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Requests,
    teams: AllTeams,
}
