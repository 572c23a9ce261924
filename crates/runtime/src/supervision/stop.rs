//! Stops the processes of a team's members. Also stops the processes that dead processes left
//! running.

use std::time::Duration;

use futures_util::future::join_all;
use pitcrew_process::identity::{ProcessIdentity, Stopped};
use pitcrew_process::job::{left_by, left_by_member, runs_member, stop_member_process};
use pitcrew_protocol::{AgentName, ApiError, Program};
use pitcrew_team::store::{LeaseName, StoreError};
use pitcrew_team::{Started, Team};

use super::{PaneClosed, RecordedPanes};

/// The result of stopping one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedMember {
    /// The name of the member. The member may have left the team earlier.
    pub name: AgentName,
    /// The record of the process and the pane that were started for the member.
    pub started: Started,
    /// The result of stopping the member's process. A member without a process counts as already
    /// gone.
    pub end: Stopped,
    /// The reason why the member's pane still exists. `None` if the pane is gone.
    pub pane_left: Option<String>,
    /// The reason why it is unknown whether the member's pane still exists. This does not keep the
    /// member's record: the record is removed if the member's process has ended.
    pub pane_not_asked: Option<String>,
}

impl StoppedMember {
    /// Returns true if, as far as is known, neither a process nor a pane of the member is left.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.end != Stopped::StillRunning && self.pane_left.is_none()
    }
}

/// Stops all processes and panes recorded for the team's members. All members are stopped at the
/// same time and without a shutdown request. A process gets the signal TERM, and KILL if it still
/// runs after the time `term`. Then its pane is closed. The record of each member that is gone is
/// removed. A record is only a file and can name any process. For that reason, only a recorded
/// process that carries the member's own tag is signalled.
///
/// # Errors
/// If the record cannot be read or written.
pub async fn stop_members(
    team: &Team,
    panes: &RecordedPanes,
    term: Duration,
) -> Result<Vec<StoppedMember>, ApiError> {
    let started = team.started().await?;
    let stops = started.into_iter().map(|started| stop_member(team, panes, term, started));
    join_all(stops).await.into_iter().collect()
}

/// Stops the processes and the pane recorded for one member, in the same way as [`stop_members`].
///
/// # Errors
/// If the record cannot be written.
pub async fn stop_member(
    team: &Team,
    panes: &RecordedPanes,
    term: Duration,
    (name, started): (AgentName, Started),
) -> Result<StoppedMember, ApiError> {
    let end = match started.process.map(ProcessIdentity::from) {
        Some(process) => {
            let (program, tag) = (program_of(&started), panes.tag(team, Some(&name)));
            stop_member_process(process, program, &tag, term).await
        }
        None => Stopped::WasGone,
    };
    // Close the pane after the process has ended. Closing the pane first would end the process
    // without TERM.
    let (mut pane_left, mut pane_not_asked) = (None, None);
    if let Some(pane) = &started.pane {
        match panes.close(team, &name, pane).await {
            PaneClosed::Closed => {}
            PaneClosed::Left { reason } => pane_left = Some(reason),
            PaneClosed::NotAsked { reason } => pane_not_asked = Some(reason),
        }
    }
    let stopped = StoppedMember { name, started, end, pane_left, pane_not_asked };
    if stopped.is_gone() {
        team.forget_started(&stopped.name).await?;
    }
    Ok(stopped)
}

/// Returns the recorded process of a member if it is alive and carries the member's tag.
#[must_use]
pub fn own_process(
    panes: &RecordedPanes,
    team: &Team,
    name: &AgentName,
    started: &Started,
) -> Option<ProcessIdentity> {
    let process = started.process.map(ProcessIdentity::from)?;
    runs_member(process, &panes.tag(team, Some(name))).then_some(process)
}

/// Returns the processes that a member's dead process left running. Sends no signal to them.
pub async fn left_by_started(
    panes: &RecordedPanes,
    team: &Team,
    name: &AgentName,
    started: &Started,
) -> Vec<ProcessIdentity> {
    let Some(process) = started.process.map(ProcessIdentity::from) else { return Vec::new() };
    left_by_member(process, program_of(started), &panes.tag(team, Some(name))).await
}

/// Returns the program that was started for a member. An unknown program counts as the reference
/// client.
pub(crate) fn program_of(started: &Started) -> Program {
    started.program.known().unwrap_or(Program::Claude)
}

/// Returns the processes that were left running by dead processes which held a lease of the team or
/// ran a member. The processes are grouped by the dead process. Sends no signal to them.
///
/// # Errors
/// If the team cannot be read.
pub async fn left_running(
    team: &Team,
) -> Result<Vec<(ProcessIdentity, Vec<ProcessIdentity>)>, ApiError> {
    let mut found = Vec::new();
    for process in dead_holders(team).await? {
        let left = left_by(process).await;
        if !left.is_empty() {
            found.push((process, left));
        }
    }
    Ok(found)
}

/// Stops the processes that were left running by dead processes which held a lease of the team or
/// ran a member. These are the commands of agents whose process was killed.
///
/// A process that held a lease and is still alive is never signalled, even if it no longer holds
/// the lease.
///
/// # Errors
/// If the team cannot be read.
pub async fn sweep(
    team: &Team,
    term: Duration,
) -> Result<Vec<(ProcessIdentity, Stopped)>, ApiError> {
    let dead = dead_holders(team).await?;
    let stops = dead.into_iter().map(|process| async move { (process, process.stop(term).await) });
    let stopped = join_all(stops).await;
    Ok(stopped.into_iter().filter(|(_, stopped)| *stopped != Stopped::WasGone).collect())
}

/// Returns all dead processes that held a lease of the team or that ran a member.
async fn dead_holders(team: &Team) -> Result<Vec<ProcessIdentity>, ApiError> {
    let started = team.started().await?;
    // Even if the config cannot be read, the team has leases that must be checked.
    let members = team.config().await.map(|config| config.members.clone()).unwrap_or_default();
    let names = members.iter().map(|member| &member.name).chain(started.keys());
    let mut leases: Vec<LeaseName> = names.map(LeaseName::of_member).collect();
    // Check the lease of the team's run too.
    leases.push(LeaseName::Run);
    let mut processes: Vec<ProcessIdentity> = started
        .values()
        .flat_map(|started| started.process.into_iter().chain([started.owner]))
        .map(Into::into)
        .collect();
    for lease in leases {
        let holder = team.last_holder(&lease).await.map_err(unreadable)?;
        processes.extend(holder.map(|holder| ProcessIdentity::from(holder.process())));
    }
    processes.sort_unstable();
    processes.dedup();
    processes.retain(|process| !process.is_alive());
    Ok(processes)
}

fn unreadable(error: StoreError) -> ApiError {
    let said = pitcrew_protocol::chain(&error);
    ApiError::new(pitcrew_protocol::ErrorCode::InternalError, said)
}
