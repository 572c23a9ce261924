//! Another team of the run, after its lead has deleted one.
//!
//! All that the run has goes by the team's name: handles, tags of panes, keys, the conversation of the lead. So another team
//! takes the deleted one's place under that name, with the conversation, and the name that the lead asks for is one more.

use pitcrew_protocol::{AgentName, LEAD_NAME, Status, TeamCreateInput, chain};
use pitcrew_team::store::Event as Noted;
use pitcrew_team::{AnotherTeam, KnownMode};

use super::recovery::Unremoved;
use super::start::{TeamCreateState, store_error};
use super::take_lead::{holder_of_ours, holder_with_key, lease_of};
use super::team_loop::{DeletedTasks, TeamLoop};
use crate::agent::Event;
use crate::run::RunError;
use crate::team_tools::{answer, refusal};
use crate::tools::ToolOutcome;

impl TeamLoop {
    /// Lets go of what the run holds of a team that its lead has deleted: somebody else may make one of that name.
    pub(super) fn let_go_of_team(&mut self) {
        self.sources.watch = None;
        self.lease = None;
    }

    /// Makes another team in the place of the one that the lead has deleted, and leads it.
    pub(super) async fn make_another_team(&mut self, input: &TeamCreateInput) -> ToolOutcome {
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
        self.forget_deleted_team();
        self.open_another_team().await;
        self.agents.tell_lead(Event::TeamMade);
        answer(&created.into())
    }

    /// Takes the lease, and writes what is to hold before anybody acts in the team, as at the start of the run.
    async fn lead_another_team(&mut self) -> Result<(), RunError> {
        let team = self.run_context.team.clone();
        let holder = team
            .verify_key()
            .map_or_else(|| holder_of_ours(&team), |key| holder_with_key(&team, key));
        self.lease = Some(lease_of(&team, &holder).await?);
        team.keep_lead_key().await?;
        team.keep_bounds(self.bounds.clone()).await?;
        if let Some(panes) = &self.backends.hosting.panes {
            team.note_pane_host(panes.host()).await?;
        }
        let watch = team.backend().watch(team.dir()).await;
        self.sources.watch = Some(watch.map_err(|error| store_error(&team, error))?);
        Ok(())
    }

    /// Forgets what is known of the members, the mail and the tasks of the deleted team.
    fn forget_deleted_team(&mut self) {
        self.team_create = TeamCreateState::Yes;
        self.deleted = DeletedTasks::default();
        self.agents.forget_team();
        self.unremoved = Unremoved::default();
        self.journal_position = 0;
        (self.sources.removing, self.sources.answer_due, self.sources.turn_due) =
            (None, None, None);
        self.machine.begin_another_team();
    }

    /// What the run begins with in every team: its place for other processes, its settings, its notes in the journal.
    async fn open_another_team(&mut self) {
        // The old door takes its socket away when it is dropped, which must not be the new one's.
        self.sources.control = None;
        self.open_control().await;
        self.store_settings().await;
        let team = self.run_context.team.clone();
        team.note([Noted::RunStarted]).await;
        self.run_context.note_state(&AgentName::lead(), Status::Active, None).await;
        let Ok(config) = team.config().await else { return };
        let given = self.run_context.mode.as_str();
        let lead = self.agents.running_mut(&AgentName::lead());
        if let (Some(running), Some(member)) = (lead, config.member(LEAD_NAME)) {
            running.known_mode = Some(KnownMode::of_lead(&team, member, given).0);
        }
    }
}
