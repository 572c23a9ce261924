//! Handles a deletion of the run's team by the lead: releases the team, creates a new team for the
//! run, or records the end of the run in the archive.
//!
//! Handles, pane tags, keys and the lead's conversation all use the team's name. The new team
//! therefore keeps the deleted team's name and conversation. The lead may ask for another name.
//! That name becomes an additional name.

use pitcrew_agent::Event;
use pitcrew_protocol::{AgentName, LEAD_NAME, Status, TeamCreateInput, chain};
use pitcrew_team::store::Event as Noted;
use pitcrew_team::{AnotherTeam, KnownMode};
use pitcrew_tools::ToolOutcome;

use super::open_work::TasksNow;
use super::recovery::Unremoved;
use super::run_machine::EndReason;
use super::start::{TeamCreateState, store_error};
use super::take_lead::{holder_of_ours, holder_with_key, lease_of};
use super::team_loop::TeamLoop;
use crate::run::{RunEnd, RunError};
use crate::team_tools::{answer, refusal};

impl TeamLoop {
    /// Releases the deleted team's lease and stops watching its files, because another process is
    /// allowed to create a team of that name now.
    pub(super) fn let_go_of_team(&mut self) {
        self.sources.watch = None;
        self.lease = None;
    }

    /// Writes the end of the run to the journal. If the lead has deleted the team, the journal is in
    /// the archive. If another process removed the team, there is no journal.
    pub(super) async fn note_run_end(&mut self, end: &RunEnd) {
        let is_deleted = self.team_create == TeamCreateState::Deleted;
        if !is_deleted && self.machine.end_reason() == Some(&EndReason::Gone) {
            return;
        }
        let (name, reason) = (end.as_str().to_owned(), end.reason().map(str::to_owned));
        self.run_context.team.note([Noted::RunEnded { end: Some(name), reason }]).await;
        self.run_context.team.record_rest().await;
    }

    /// Creates another team in place of the deleted one, and makes this process its lead.
    pub(super) async fn make_another_team(&mut self, input: &TeamCreateInput) -> ToolOutcome {
        // Do not create a new team in a run that is ending.
        if let Some(end_reason) = self.machine.end_reason() {
            return ToolOutcome::refused(format_args!(
                "No team can be made any more: {}",
                end_reason.in_words()
            ));
        }
        if let Some((name, _)) = self.agents.teammates().next() {
            return ToolOutcome::refused(format_args!(
                "{name} of the deleted team has not ended yet; try again then"
            ));
        }
        let given = self.run_context.mode.as_str();
        let lead = self.agents.running(&AgentName::lead());
        let mode = lead
            .and_then(|running| running.known_mode.as_ref())
            .map(|known| known.mode().to_owned());
        let another = AnotherTeam {
            input: input.clone(),
            cwd: self.run_context.cwd.to_string_lossy().into_owned(),
            model: self.run_context.model_name.clone(),
            session_id: self.run_context.session_id.clone(),
            mode: mode.filter(|mode| mode != given),
        };
        let created = match self.run_context.team.make_another(another).await {
            Ok(created) => created,
            Err(error) => return refusal(&error),
        };
        if let Err(error) = self.lead_another_team().await {
            self.let_go_of_team();
            if let Err(error) = self.run_context.team.give_up_another().await {
                self.warn(format!("a team that cannot be led stays: {}", chain(&error))).await;
            }
            return ToolOutcome::failed(format!("the new team cannot be led: {}", chain(&error)));
        }
        // Forget the state of the old team only now. Before this point, creating the new team or
        // taking its lease could still fail.
        self.forget_deleted_team();
        self.open_another_team().await;
        self.agents.tell_lead(Event::TeamMade);
        answer(&created.into())
    }

    /// Takes the lease and writes the settings that must be in place before any agent acts, as at
    /// the start of a run.
    async fn lead_another_team(&mut self) -> Result<(), RunError> {
        let team = self.run_context.team.clone();
        let holder = team
            .verify_key()
            .map_or_else(|| holder_of_ours(&team), |key| holder_with_key(&team, key));
        self.lease = Some(lease_of(&team, &holder).await?);
        team.keep_lead_key().await?;
        team.keep_bounds(self.bounds.clone()).await?;
        team.keep_secret_texts(&self.run_context.secret_texts).await?;
        if let Some(panes) = &self.backends.hosting.panes {
            team.note_pane_host(panes.host()).await?;
        }
        let watch = team.watch().await;
        self.sources.watch = Some(watch.map_err(|error| store_error(&team, error))?);
        Ok(())
    }

    /// Discards the run's state about the members, mail and tasks of the deleted team.
    fn forget_deleted_team(&mut self) {
        self.team_create = TeamCreateState::Yes;
        self.deleted = TasksNow::default();
        self.agents.forget_team();
        self.plan_questions.forget_all();
        self.unremoved = Unremoved::default();
        self.journal_position = 0;
        (self.sources.removing, self.sources.answer_due, self.sources.turn_due) =
            (None, None, None);
        self.machine.begin_another_team();
    }

    /// Opens what a run needs in every team: the control socket, the stored settings and the
    /// journal entries at the start.
    async fn open_another_team(&mut self) {
        // The old control server removes its socket file when it is dropped. Drop it before the new
        // server opens, because otherwise it would remove the new server's socket file.
        self.sources.control = None;
        self.open_control().await;
        self.store_settings().await;
        let team = self.run_context.team.clone();
        let (goal, head) = (self.goal.clone(), self.head.clone());
        team.note([Noted::RunStarted { goal, head }]).await;
        self.run_context.note_state(&AgentName::lead(), Status::Active, None).await;
        let Ok(config) = team.config().await else { return };
        let given = self.run_context.mode.as_str();
        let lead = self.agents.running_mut(&AgentName::lead());
        if let (Some(running), Some(member)) = (lead, config.member(LEAD_NAME)) {
            running.known_mode = Some(KnownMode::of_lead(&team, member, given).0);
        }
    }
}
