//! Converts the end of a run into its outcome.

use pitcrew_team::SpawnRecord;

use super::open_work::TasksNow;
use super::run_machine::EndReason;
use super::start::TeamCreateState;
use super::start::discard;
use super::team_loop::TeamLoop;
use crate::hooks::HookKind;
use crate::run::{OpenWork, RunEnd, RunOutcome};

impl TeamLoop {
    /// Opens an account (the record of work and usage) for every member that has none. Such a
    /// member was being spawned when the run ended.
    async fn account_for_all(&mut self) {
        let Ok(config) = self.run_context.team.config().await else { return };
        for member in config.teammates().filter(|member| SpawnRecord::of(member).is_some()) {
            self.agents.account(&member.name);
        }
    }

    /// Converts the end of the run into its outcome.
    pub(super) async fn close(mut self) -> RunOutcome {
        let _said = self.run_hooks(HookKind::SessionEnd { reason: "other".to_owned() }).await;
        // Measure the time before the end of the run is written to the journal. A resumed run
        // counts the time up to that journal entry, so it never counts less than this run reports.
        let (began, before) = self.began;
        let took = before.saturating_add(began.elapsed());
        let is_recorded = self.team_create != TeamCreateState::Deleted
            && self.machine.end_reason() != Some(&EndReason::Gone);
        if is_recorded {
            self.void_parting_requests().await;
            // Break the locks that the ended processes left behind, because no later write of this
            // run would do that.
            self.break_locks_of_the_dead().await;
        }
        // Check whether the team's files are gone. The agents may have ended before any agent
        // noticed this.
        let is_gone =
            self.team_create != TeamCreateState::Deleted && self.run_context.team.is_gone().await;
        let tasks = if is_gone { TasksNow::default() } else { self.tasks_now().await };
        let left_open = if is_gone { OpenWork::default() } else { self.open_among(&tasks).await };
        let end = match self.run_end(is_gone, &left_open) {
            // An unreadable record is more important than the open work, because nobody can work
            // until the record is repaired. Report the unreadable record.
            RunEnd::Unfinished { open, shortfall, text } => match self.torn_record().await {
                Some(reason) => RunEnd::Broken { reason },
                None => RunEnd::Unfinished { open, shortfall, text },
            },
            end => end,
        };
        self.note_run_end(&end).await;
        let open = match &end {
            RunEnd::Unfinished { open, .. } => open.clone(),
            RunEnd::Success { .. } => OpenWork::default(),
            _ => left_open,
        };
        let is_untouched =
            !self.is_resumed && matches!(end, RunEnd::Failed { .. }) && self.agents.are_untouched();
        let is_gone = is_gone || (is_untouched && discard(&self.run_context.team).await);
        if is_gone {
            self.agents.nobody_can_be_resumed();
        }
        self.account_for_all().await;
        let totals = self.usage_totals.close(took, |model| self.run_context.window_of(model));
        RunOutcome {
            team: self.run_context.team.name().to_string(),
            end,
            agents: self.agents.summaries(),
            totals,
            tasks: tasks.tasks,
            open,
            kept: self.kept,
            team_deleted: is_gone || self.team_create == TeamCreateState::Deleted,
        }
    }
}
