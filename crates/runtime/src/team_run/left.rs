//! Finds and cleans up what an earlier run left behind: processes and panes of teammates, and their
//! unanswered permission requests. This concerns only teammates that ran in their own processes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pitcrew_panes::{PaneId, PaneTag, Panes};
use pitcrew_process::identity::{ProcessIdentity, Stopped};
use pitcrew_process::job::{runs_member, stop_member_process};
use pitcrew_protocol::{AgentName, BACKEND_IN_PROCESS, Member, Program, Status, TeamConfig, chain};
use pitcrew_team::store::LeaseName;
use pitcrew_team::{SpawnRecord, Started, Team};

use super::remote::STOP_GRACE;
use super::remote_agents::has_said_goodbye;
use super::spawn_backend::SpawnBackend;
use super::team_loop::TeamLoop;
use crate::supervision::{RecordedPanes, program_of, stop_member};

/// The processes and panes that one teammate left behind in an earlier run.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// The pane that the team's records name for the member. If that pane is gone, this is another
    /// pane with the member's tag. `None` if no pane has the member's tag.
    pub(super) pane: Option<PaneId>,
    /// The process that runs the member, if it is alive.
    pub(super) process: Option<ProcessIdentity>,
    /// Every process that the records name for the member, whether it is alive or not.
    pub(super) known: BTreeSet<ProcessIdentity>,
    /// The member's other panes, which also have the member's tag.
    pub(super) other_panes: Vec<PaneId>,
}

impl Left {
    /// Searches for the teammate's processes and panes, and leaves them unchanged.
    pub(super) async fn of(
        team: &Team,
        member: &AgentName,
        panes: &dyn Panes,
        tag: &PaneTag,
    ) -> Self {
        let recorded = team.started().await.unwrap_or_default().remove(member);
        let recorded_pane = recorded.and_then(|started| started.pane);
        let known = known_processes(team, member).await;
        // The records can name a process that does not run the member. Accept only a process that
        // has the member's tag.
        let process = known.iter().copied().find(|process| runs_member(*process, tag));
        let mut tagged: Vec<PaneId> = match panes.tagged(tag).await {
            Ok(found) => found.into_iter().map(|(pane, _)| pane).collect(),
            Err(error) => {
                tracing::warn!(agent = %member, error = %chain(&error), "its panes cannot be looked for");
                Vec::new()
            }
        };
        let at = tagged
            .iter()
            .position(|pane| recorded_pane.as_ref().is_some_and(|known| known.id == pane.0));
        // Accept only panes with the member's tag, even if the record names another pane.
        let pane = (!tagged.is_empty()).then(|| tagged.swap_remove(at.unwrap_or(0)));
        Self { pane, process, known, other_panes: tagged }
    }

    /// Returns true if the member still runs and can be supervised, because both its process and
    /// its pane exist.
    pub(super) fn is_whole(&self) -> bool {
        self.pane.is_some() && self.process.is_some()
    }
}

/// Returns every process that the records name as the member's current or last process.
async fn known_processes(team: &Team, member: &AgentName) -> BTreeSet<ProcessIdentity> {
    let recorded = team.started().await.unwrap_or_default().remove(member);
    let lease = LeaseName::of_member(member);
    let leased = team.last_holder(&lease).await.ok().flatten();
    let noted = recorded.and_then(|started| started.process).map(ProcessIdentity::from);
    leased.map(|holder| holder.process().into()).into_iter().chain(noted).collect()
}

/// Returns true if the member runs in a living process that pitcrew started.
pub(super) async fn is_run(team: &Team, member: &AgentName, tag: &PaneTag) -> bool {
    known_processes(team, member).await.into_iter().any(|process| runs_member(process, tag))
}

impl TeamLoop {
    /// Returns the process and the pane of a member that an earlier run left behind. If another
    /// client ran the member and one of the two is gone, the member's open permission requests are
    /// withdrawn.
    pub(super) async fn left_of(
        &mut self,
        member: &Member,
        backend: &dyn SpawnBackend,
    ) -> Option<Left> {
        let left = backend.left_of(&self.run_context.team, member).await?;
        if is_client(member) && !left.is_whole() {
            self.void_questions_of(&member.name).await;
        }
        Some(left)
    }

    /// Withdraws the permission requests of a member that runs in another client, if the member's
    /// recorded process is dead. This is for a member that this run does not start.
    pub(super) async fn void_questions_of_dead(&mut self, member: &Member) {
        let started = self.started().await.remove(&member.name);
        let process = started.and_then(|started| started.process).map(ProcessIdentity::from);
        if is_client(member) && process.is_some_and(|process| !process.is_alive()) {
            self.void_questions_of(&member.name).await;
        }
    }

    /// Completes the shutdown of members that agreed to shut down before a crash. Stops the
    /// processes that these members left, and removes the members from the team.
    pub(super) async fn finish_goodbyes(&mut self, config: &TeamConfig) {
        let is_elsewhere = |member: &&Member| {
            let backend = member.backend_type.as_deref();
            SpawnRecord::of(member).is_some()
                && backend.is_some_and(|backend| backend != BACKEND_IN_PROCESS)
        };
        for member in config.teammates().filter(is_elsewhere) {
            if !has_said_goodbye(&self.run_context.team, &member.name).await {
                continue;
            }
            // Stop the process first. Then no process works in the worktree while it is removed.
            if let Some(started) = self.started().await.remove_entry(&member.name) {
                self.stop_started(started).await;
            }
            self.retire(
                &member.name,
                Status::Completed,
                None,
                member.worktree_path.as_deref().map(Path::new),
            )
            .await;
        }
    }

    /// Stops the processes and panes of this team that belong to no member because of a crash. Then
    /// removes these processes and panes from the records.
    pub(super) async fn stop_orphans(&mut self) {
        let Ok(config) = self.run_context.team.config().await else { return };
        for started in self.started().await {
            if config.member(started.0.as_str()).is_none() {
                self.stop_started(started).await;
            }
        }
        for panes in
            [self.backends.hosting.panes.clone(), self.backends.hosting.former_panes.clone()]
                .into_iter()
                .flatten()
        {
            let is_left = |tag: &PaneTag| {
                tag.agent.as_ref().is_none_or(|agent| config.member(agent.as_str()).is_none())
            };
            self.close_panes(panes, &self.backends.tag.clone(), is_left).await;
        }
    }

    /// Closes panes of an earlier run. Searches for all panes that match `tag`. Each pane found has
    /// a tag of its own; the pane is closed if `is_left` returns true for that tag.
    pub(super) async fn close_panes(
        &mut self,
        panes: Arc<dyn Panes>,
        tag: &PaneTag,
        is_left: impl Fn(&PaneTag) -> bool + Send,
    ) {
        let found = match panes.tagged(tag).await {
            Ok(found) => found,
            Err(error) => {
                return self
                    .warn(format!(
                        "panes of an earlier run cannot be looked for: {}",
                        chain(&error)
                    ))
                    .await;
            }
        };
        for (pane, tag) in found.into_iter().filter(|(_, tag)| is_left(tag)) {
            if let Err(error) = panes.stop(&pane, &tag).await {
                self.warn(format!(
                    "the pane {pane} of an earlier run cannot be closed: {}",
                    chain(&error)
                ))
                .await;
            }
        }
    }

    /// Returns all recorded processes and panes.
    pub(super) async fn started(&mut self) -> BTreeMap<AgentName, Started> {
        match self.run_context.team.started().await {
            Ok(started) => started,
            Err(error) => {
                self.warn(format!(
                    "the processes of an earlier run cannot be listed: {}",
                    chain(&error)
                ))
                .await;
                BTreeMap::new()
            }
        }
    }

    /// Stops a process of an earlier run and closes its pane. If the process still runs or the pane
    /// cannot be closed, the record of both stays.
    pub(super) async fn stop_started(&mut self, started: (AgentName, Started)) {
        let name = started.0.clone();
        if let Some(panes) = self.backends.hosting.panes.clone()
            && let Some(pane) = started.1.pane.as_ref().filter(|pane| pane.host == panes.host())
        {
            // This run's pane backend can close this pane, because the pane is of the backend's
            // kind. A pane of another kind is closed below, with the data from its record.
            let (pane, tag) = (PaneId(pane.id.clone()), self.backends.tag_of(&name));
            let program = program_of(&started.1);
            if let Some(process) = started.1.process.map(ProcessIdentity::from)
                && stop_member_process(process, program, &tag, STOP_GRACE).await
                    == Stopped::StillRunning
            {
                return self
                    .warn(format!("{process} of {name} of an earlier run still runs"))
                    .await;
            }
            if let Err(error) = panes.stop(&pane, &tag).await {
                return self
                    .warn(format!("the pane {pane} of {name} cannot be closed: {}", chain(&error)))
                    .await;
            }
            if let Err(error) = self.run_context.team.forget_started(&name).await {
                self.warn(format!("the end of {name} is not recorded: {}", chain(&error))).await;
            }
            return;
        }
        let panes = RecordedPanes::below(&self.run_context.root);
        let panes = panes.with_named_programs(self.backends.hosting.pane_programs.clone());
        match stop_member(&self.run_context.team, &panes, STOP_GRACE, started).await {
            Ok(stopped) if stopped.is_gone() => {}
            Ok(stopped) => {
                let end_reason =
                    stopped.pane_left.map_or_else(String::new, |reason| format!(": {reason}"));
                self.warn(format!("something of {name} of an earlier run still runs{end_reason}"))
                    .await;
            }
            Err(error) => {
                self.warn(format!(
                    "the remaining processes of {name} cannot be stopped: {}",
                    chain(&error)
                ))
                .await;
            }
        }
    }
}

/// Returns true if another client runs the member.
fn is_client(member: &Member) -> bool {
    SpawnRecord::of(member).is_none_or(|record| record.program == Program::Claude)
}
