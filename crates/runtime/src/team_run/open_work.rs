//! Finds the work that is still open when no agent works any more. The team's files show this work,
//! and the lead gets a reminder about it.

use std::collections::BTreeSet;

use pitcrew_agent::Event;
use pitcrew_agent::transcript::AnswerFault;
use pitcrew_protocol::{
    AgentName, ApiError, Member, Program, TaskId, TeamDeleted, chain, neutralised,
};
use pitcrew_team::{RequestKind, SpawnRecord};
use pitcrew_tools::ToolOutcome;

use super::run_machine::{EndReason, Reminder};
use super::start::TeamCreateState;
use super::team_loop::TeamLoop;
use crate::prompts::Prompt;
use crate::run::{OpenWork, RunEnd, Shortfall, TaskSummary};
use crate::team_tools::answer;

/// The tasks of a team at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct TasksNow {
    pub(super) tasks: Vec<TaskSummary>,
    /// The tasks that were open but can no longer be read.
    lost: Vec<TaskId>,
    /// Why the tasks cannot be read.
    unread: Option<String>,
}

impl TasksNow {
    /// Returns what of these tasks is open.
    fn open(&self) -> OpenWork {
        OpenWork {
            lost: self.lost.clone(),
            unread: self.unread.clone(),
            ..OpenWork::of_tasks(&self.tasks)
        }
    }
}

impl TeamLoop {
    /// Returns the team's open work, for example open tasks and teammates that failed. First tries
    /// again to remove ended members that are still in the team.
    pub(super) async fn open_work(&mut self) -> OpenWork {
        self.remove_unremoved().await;
        let tasks = self.tasks_now().await;
        self.open_among(&tasks).await
    }

    /// Returns the team's open work. The caller passes what [`Self::tasks_now`] has returned.
    pub(super) async fn open_among(&mut self, tasks: &TasksNow) -> OpenWork {
        let OpenWork { never_started, left_behind, failures, .. } = self.agents.open_work();
        OpenWork {
            never_started,
            left_behind,
            failures,
            plans: self.plans_of_clients().await,
            ..tasks.open()
        }
    }

    /// Returns the members that run in another client and whose plan has no answer yet. Such a
    /// member reports that it is idle while it waits for the answer.
    async fn plans_of_clients(&mut self) -> Vec<AgentName> {
        if !self.agents.all_running().any(|(_, running)| running.is_foreign()) {
            return Vec::new();
        }
        let requests = self.run_context.team.requests().await.unwrap_or_default();
        let open = requests
            .into_values()
            .filter(|it| it.kind == RequestKind::Plan && it.answer.is_none() && !it.is_void);
        let asking: BTreeSet<AgentName> =
            open.map(|it| it.from).filter(|name| self.agents.is_foreign(name)).collect();
        asking.into_iter().collect()
    }

    /// Returns the tasks that were open but can no longer be read. If another client runs a
    /// teammate, returns no tasks, because pitcrew's journal does not show which tasks that client
    /// has deleted.
    async fn lost_tasks(&mut self) -> Result<Vec<TaskId>, ApiError> {
        let config = self.run_context.team.config().await;
        let is_ours = |member: &Member| {
            SpawnRecord::of(member).is_some_and(|record| record.program == Program::Pitcrew)
        };
        if config.is_ok_and(|config| !config.teammates().all(is_ours)) {
            return Ok(Vec::new());
        }
        self.run_context.team.lost_tasks().await
    }

    /// Returns the team's current tasks. If the lead has deleted the team, returns the tasks at the
    /// time of the deletion.
    pub(super) async fn tasks_now(&mut self) -> TasksNow {
        if self.team_create == TeamCreateState::Deleted {
            return self.deleted.clone();
        }
        let mut now = TasksNow::default();
        match self.run_context.team.tasks().await {
            Ok(tasks) => now.tasks = tasks.iter().map(TaskSummary::from).collect(),
            Err(error) => now.unread = Some(chain(&error)),
        }
        match self.lost_tasks().await {
            Ok(lost) => now.lost = lost,
            Err(error) => now.unread = now.unread.or_else(|| Some(chain(&error))),
        }
        if let Some(reason) = &now.unread {
            self.warn(format!("cannot read which tasks are open: {reason}")).await;
        }
        now
    }

    /// Checks all records and inboxes of the team. If one of them cannot be read, returns the error
    /// as text.
    pub(super) async fn torn_record(&mut self) -> Option<String> {
        if self.team_create == TeamCreateState::Deleted {
            return None;
        }
        let error = self.run_context.team.check_records().await.err()?;
        Some(format!("{}; `pitcrew doctor --repair` repairs it", chain(&error)))
    }

    /// Returns the outcome of the run. It follows from the reason for the shutdown and from the
    /// open work.
    pub(super) fn run_end(&self, is_gone: bool, left_open: &OpenWork) -> RunEnd {
        let text = self.lead_end.text.clone();
        match self.machine.end_reason() {
            _ if self.sources.was_killed => RunEnd::Interrupted,
            None
            | Some(EndReason::Finished | EndReason::Unfinished(..) | EndReason::LeadFailed(_))
                if is_gone =>
            {
                RunEnd::Failed { reason: EndReason::Gone.in_words() }
            }
            None | Some(EndReason::Finished) if !left_open.has_no_tasks() => {
                // Another process created a task while the run was ending.
                RunEnd::Unfinished { shortfall: Shortfall::Stalled, open: left_open.clone(), text }
            }
            None | Some(EndReason::Finished) => RunEnd::Success { text: text.unwrap_or_default() },
            Some(EndReason::Unfinished(shortfall, open)) => {
                let text = text.filter(|_| *shortfall != Shortfall::Empty);
                RunEnd::Unfinished { shortfall: *shortfall, open: open.clone(), text }
            }
            Some(EndReason::Interrupted) => RunEnd::Interrupted,
            Some(EndReason::ShutDown) => RunEnd::ShutDown,
            Some(EndReason::Limit(limit, reason)) => {
                RunEnd::LimitReached { limit: *limit, reason: reason.clone(), text }
            }
            Some(EndReason::ModelUnavailable(reason)) => {
                RunEnd::Parked { reason: reason.clone(), retry_after: self.lead_end.retry_after }
            }
            Some(EndReason::LeadFailed(reason)) if self.lead_end.is_broken => {
                RunEnd::Broken { reason: reason.clone() }
            }
            Some(EndReason::LeadFailed(reason)) => RunEnd::Failed { reason: reason.clone() },
            Some(end_reason @ EndReason::Gone) => RunEnd::Failed { reason: end_reason.in_words() },
        }
    }

    /// Returns a refusal that lists the open tasks when the lead is about to delete its team.
    /// Returns `None` if no task is open, or if the lead was already reminded.
    pub(super) async fn reminded_at_deletion(&mut self) -> Option<ToolOutcome> {
        self.deleted = self.tasks_now().await;
        let open = self.deleted.open();
        let team = self.run_context.team.name().as_str();
        let refused = || TeamDeleted::refused_for_open_work(team, &open.in_words().join("; "));
        self.machine.reminds_of(&open).then(|| answer(&refused().into()))
    }

    /// Reminds the lead of unfinished work before the run is allowed to end.
    pub(super) fn remind(&self, reminder: &Reminder) {
        let mut texts = Vec::new();
        let mut add = |prompt: Prompt, values: &[(&str, &str)]| match prompt.render(values) {
            Ok(text) => texts.push(text),
            Err(error) => tracing::error!(%error, "a prompt does not fit its values"),
        };
        match reminder.fault {
            Some(AnswerFault::Truncated) => add(Prompt::AnswerCutOff, &[]),
            Some(AnswerFault::Empty) => add(Prompt::AnswerEmpty, &[]),
            // Do not remind a lead whose model refused to answer, because the model would refuse
            // again.
            Some(AnswerFault::Refused) | None => {}
        }
        let open: Vec<String> =
            reminder.open.in_words().iter().map(|line| format!("- {line}")).collect();
        if !open.is_empty() {
            add(Prompt::OpenWork, &[("open", &open.join("\n"))]);
        }
        let members = reminder.members.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
        if !members.is_empty() {
            add(Prompt::HeadlessShutdown, &[("members", &members)]);
        }
        let text =
            format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&texts.join("\n\n")));
        self.agents.tell_lead(Event::Told { text });
    }
}
