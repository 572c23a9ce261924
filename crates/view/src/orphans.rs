//! Stops the processes and panes of a team whose lead's process has ended, and reports the results.

use std::time::Duration;

use pitcrew_process::identity::Stopped;
use pitcrew_runtime::supervision::{
    PaneClosed, RecordedPanes, StoppedMember, TaggedPane, stop_members, sweep,
};
use pitcrew_team::Team;
use serde::Serialize;

use crate::error::ViewError;
use crate::text::printable;

/// The processes and panes of a team whose lead's process has ended.
#[derive(Debug)]
pub struct Orphans<'a> {
    team: &'a Team,
    panes: RecordedPanes,
}

/// The result of stopping a member, process or pane, as it is shown to the user.
#[derive(Clone, Debug, Serialize)]
pub struct StoppedView {
    /// The name of the member. It is absent for a pane that names no member, and for commands that
    /// a killed process left running. For such commands, `pid` is the id of the killed process.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pane: Option<String>,
    /// The result: `gone`, `stopped` or `still_running`.
    outcome: &'static str,
    /// The reason why the pane is still open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pane_left: Option<String>,
    /// The reason why it is not known whether the pane is still open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pane_not_asked: Option<String>,
    #[serde(skip)]
    /// Whether nothing is left of the stopped member, process or pane.
    pub is_gone: bool,
}

impl<'a> Orphans<'a> {
    /// Creates the [`Orphans`] of `team`. Nothing is stopped yet. `panes` finds the terminal panes
    /// that are recorded for the team.
    pub fn of(team: &'a Team, panes: RecordedPanes) -> Self {
        Self { team, panes }
    }

    /// Stops all members that still run. For each member, sends SIGTERM, waits at most `term`,
    /// sends SIGKILL if the process still runs, and closes the member's pane. Afterwards stops the
    /// processes that commands of killed members left running, and closes all other panes of the
    /// team.
    ///
    /// # Errors
    /// When the team's records cannot be read or written.
    pub async fn stop(&self, term: Duration) -> Result<Vec<StoppedView>, ViewError> {
        // Return errors only at the end. If some records cannot be read, the other records still
        // name processes and panes that must be stopped.
        let members = stop_members(self.team, &self.panes, term).await;
        let swept = sweep(self.team, term).await;
        // The panes found here have no record, because the lead's process died before it recorded
        // them.
        let mut panes = Vec::new();
        let found = self.panes.of_team(self.team).await;
        for pane in found.iter().flatten() {
            panes.push(StoppedView::of_pane(pane, pane.close().await));
        }
        found?;
        let mut stopped: Vec<StoppedView> = members?.iter().map(StoppedView::of).collect();
        stopped.extend(swept?.into_iter().map(|(process, outcome)| StoppedView {
            name: None,
            pid: Some(process.pid),
            pane: None,
            outcome: word(outcome),
            pane_left: None,
            pane_not_asked: None,
            is_gone: outcome != Stopped::StillRunning,
        }));
        stopped.extend(panes);
        Ok(stopped)
    }
}

impl StoppedView {
    fn of_pane(pane: &TaggedPane, closed: PaneClosed) -> Self {
        let pane_left = match closed {
            PaneClosed::Closed => None,
            PaneClosed::Left { reason } | PaneClosed::NotAsked { reason } => Some(reason),
        };
        Self {
            name: pane.tag.agent.as_ref().map(ToString::to_string),
            pid: None,
            pane: Some(pane.place.to_string()),
            outcome: word(if pane_left.is_none() { Stopped::Ended } else { Stopped::StillRunning }),
            is_gone: pane_left.is_none(),
            pane_left,
            pane_not_asked: None,
        }
    }

    fn of(member: &StoppedMember) -> Self {
        Self {
            name: Some(member.name.to_string()),
            pid: member.started.process.map(|process| process.pid),
            pane: member.started.pane.as_ref().map(ToString::to_string),
            outcome: word(member.end),
            pane_left: member.pane_left.clone(),
            pane_not_asked: member.pane_not_asked.clone(),
            is_gone: member.is_gone(),
        }
    }

    /// Returns true if it is not known whether the pane is closed. The user must see this result
    /// even if the process was stopped.
    pub fn has_doubt(&self) -> bool {
        self.pane_not_asked.is_some()
    }

    /// Returns the result as one line of text for the user.
    pub fn line(&self) -> String {
        let who = match (&self.name, self.pid) {
            (Some(name), _) => name.clone(),
            (None, Some(pid)) => format!("what process {pid} left running"),
            (None, None) => self.pane.clone().unwrap_or_default(),
        };
        let left = self
            .pane_left
            .as_ref()
            .map(|reason| format!("; its pane is left: {reason}"))
            .unwrap_or_default();
        let unknown = self.pane_not_asked.as_ref();
        let unknown = unknown
            .map(|why| format!("; whether its pane is closed is not known: {why}"))
            .unwrap_or_default();
        printable(&format!("{who}: {}{left}{unknown}", self.outcome.replace('_', " "))).into_owned()
    }
}

fn word(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::WasGone => "gone",
        Stopped::Ended => "stopped",
        Stopped::StillRunning => "still_running",
    }
}
