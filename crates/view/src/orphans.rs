//! Stops the processes and panes that are left of a team that no process leads, and reports them.

use std::time::Duration;

use pitcrew_process::identity::Stopped;
use pitcrew_runtime::supervision::{
    PaneClosed, RecordedPanes, StoppedMember, TaggedPane, stop_members, sweep,
};
use pitcrew_team::Team;
use serde::Serialize;

use crate::error::ViewError;
use crate::text::printable;

/// The processes and panes of a team that nobody leads.
#[derive(Debug)]
pub struct Orphans<'a> {
    team: &'a Team,
    panes: RecordedPanes,
}

/// A member, process or pane that was stopped, as the answer shows it.
#[derive(Clone, Debug, Serialize)]
pub struct StoppedView {
    /// The member that ran in it; absent for a process that a dead process left running.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pane: Option<String>,
    /// The result: `gone`, `stopped` or `still_running`.
    outcome: &'static str,
    /// Why the pane is still open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pane_left: Option<String>,
    /// Why it is not known whether the pane is still open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pane_not_asked: Option<String>,
    #[serde(skip)]
    /// Returns true if nothing is left of the member.
    pub is_gone: bool,
}

impl<'a> Orphans<'a> {
    /// Those of `team`, whose panes are found by their records.
    pub fn of(team: &'a Team, panes: RecordedPanes) -> Self {
        Self { team, panes }
    }

    /// Stops all of them: sends SIGTERM, waits up to `term`, sends SIGKILL, and closes their panes.
    /// Then closes the team's other panes.
    ///
    /// # Errors
    /// When the team's records cannot be read or written.
    pub async fn stop(&self, term: Duration) -> Result<Vec<StoppedView>, ViewError> {
        // Errors are returned only at the end, because the other records still tell what to stop if
        // one cannot be read.
        let members = stop_members(self.team, &self.panes, term).await;
        let swept = sweep(self.team, term).await;
        // Panes without a record: the lead died before it could record them.
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

    /// Whether the user should hear about it although it was stopped.
    pub fn has_doubt(&self) -> bool {
        self.pane_not_asked.is_some()
    }

    /// The result as one line for people.
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
