//! Finds the process that runs a team now, as far as this can be known. If pitcrew runs the team,
//! its process holds the team's lease (a lock file). If a session of another client runs the team,
//! the client has recorded the process of the session's lead. Otherwise no process is recorded.

use pitcrew_process::identity::{ProcessIdentity, own_pid_space};
use pitcrew_protocol::{LEAD_NAME, LeadProcess, TeamConfig};
use pitcrew_team::store::LeaseName;
use pitcrew_team::{SpawnRecord, Team};
use serde::Serialize;

use crate::error::ViewError;
use crate::text::printable;

/// The process or client that runs a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Running {
    /// A pitcrew process runs the team.
    ByPitcrew {
        /// The process id.
        pid: u32,
    },
    /// A session of another client runs the team. The process `pid` is the lead of the session.
    BySession {
        /// The process id.
        pid: u32,
    },
    /// The team belongs to a session of another client, but the process of the session's lead has
    /// ended. Nobody runs the team now.
    Stale {
        /// The id of the process that has ended.
        pid: u32,
    },
    /// A session on another machine or in another process namespace runs the team. From this
    /// machine, it cannot be seen whether the session still runs.
    Elsewhere {
        /// The process id, as seen on the other machine or in the other process namespace.
        pid: u32,
        /// The machine and process namespace in which the process id is valid.
        pid_space: String,
    },
    /// Nobody runs the team.
    No,
    /// Another client leads the team. It is not known whether a process of that client still runs.
    Unknown,
}

impl Running {
    /// Finds the process that runs the team.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of(team: &Team, config: &TeamConfig) -> Result<Self, ViewError> {
        let holder = team
            .lease_holder(&LeaseName::Run)
            .await
            .map_err(|source| ViewError::Store { team: team.dir().clone(), source })?;
        if let Some(holder) = holder {
            return Ok(Self::ByPitcrew { pid: holder.pid });
        }
        Ok(Self::without_lease(config))
    }

    /// Uses only the team's config to find the process that runs the team. Call this function if
    /// nobody holds the team's lease, or if the lease cannot be read.
    pub fn without_lease(config: &TeamConfig) -> Self {
        if let Some(process) = &config.lead_process {
            return Self::of_session(process);
        }
        let is_ours = config.member(LEAD_NAME).is_some_and(|lead| SpawnRecord::of(lead).is_some());
        if is_ours { Self::No } else { Self::Unknown }
    }

    /// Returns true unless it is certain that no process runs the team.
    #[must_use]
    pub fn may_run(&self) -> bool {
        match self {
            Self::ByPitcrew { .. }
            | Self::BySession { .. }
            | Self::Elsewhere { .. }
            | Self::Unknown => true,
            Self::Stale { .. } | Self::No => false,
        }
    }

    /// Checks whether the process of a session's lead still runs: a process with this id must
    /// exist, and it must have the same start time if the start time is known.
    fn of_session(process: &LeadProcess) -> Self {
        let pid = process.pid;
        match (&process.pid_space, own_pid_space()) {
            // The process id comes from another machine or another process namespace. On this
            // machine, it would name an unrelated process.
            (Some(theirs), Some(ours)) if *theirs != ours => {
                return Self::Elsewhere { pid, pid_space: theirs.clone() };
            }
            (Some(_) | None, _) => {}
        }
        let started = process.proc_start.as_deref().and_then(|start| start.parse::<u64>().ok());
        let is_it =
            |there: ProcessIdentity| started.is_none_or(|started| started == there.start_ticks);
        if ProcessIdentity::of(pid).is_some_and(is_it) {
            Self::BySession { pid }
        } else {
            Self::Stale { pid }
        }
    }

    /// Returns this state as a short text for a table cell.
    pub fn short(&self) -> String {
        match self {
            Self::ByPitcrew { pid } => format!("process {pid}"),
            Self::BySession { pid } => format!("session, process {pid}"),
            Self::Stale { .. } => "stale".to_owned(),
            Self::Elsewhere { .. } => "elsewhere".to_owned(),
            Self::No => "-".to_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }

    /// Returns this state as text that can be part of a sentence.
    pub fn text(&self) -> String {
        match self {
            Self::ByPitcrew { pid } => format!("run by process {pid}"),
            Self::BySession { pid } => format!("led by a running session, process {pid}"),
            Self::Stale { pid } => format!("stale: its session, process {pid}, is gone"),
            Self::Elsewhere { pid, pid_space } => {
                format!("led by process {pid} elsewhere ({})", printable(pid_space))
            }
            Self::No => "not running".to_owned(),
            Self::Unknown => "led by another client, which does not say whether it runs".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(pid: u32, pid_space: Option<String>, start: &str) -> LeadProcess {
        let space = pid_space.map_or(String::new(), |space| format!(r#","pidSpace":"{space}""#));
        pitcrew_protocol::from_text(&format!(r#"{{"pid":{pid}{space},"procStart":"{start}"}}"#))
            .unwrap()
    }

    #[test]
    fn a_session_lives_as_long_as_the_very_process_that_leads_it() {
        let ProcessIdentity { pid, start_ticks } = ProcessIdentity::own();
        let (start, earlier) = (start_ticks.to_string(), (start_ticks - 1).to_string());
        assert_eq!(
            Running::of_session(&lead(pid, own_pid_space(), &start)),
            Running::BySession { pid }
        );
        assert_eq!(Running::of_session(&lead(pid, None, &start)), Running::BySession { pid });
        assert_eq!(
            Running::of_session(&lead(pid, own_pid_space(), &earlier)),
            Running::Stale { pid }
        );
        assert_eq!(Running::of_session(&lead(0, own_pid_space(), "1")), Running::Stale { pid: 0 });
    }

    #[test]
    fn a_number_of_another_machine_or_namespace_is_not_looked_for_here() {
        let ProcessIdentity { pid, start_ticks } = ProcessIdentity::own();
        for space in ["vm#pid:[1]", "another-machine#pid:[4026531836]"] {
            let seen =
                Running::of_session(&lead(pid, Some(space.to_owned()), &start_ticks.to_string()));
            assert_eq!(seen, Running::Elsewhere { pid, pid_space: space.to_owned() });
        }
    }
}
