//! Handles the end of a member that runs alone, and cleans up after it.

use std::time::Duration;

use futures_util::StreamExt;
use pitcrew_protocol::{Status, chain, counted};

use super::options::Entry;
use super::solo_loop::SoloLoop;
use crate::run::{Limit, OpenWork, RunEnd, RunOutcome, TaskSummary};

/// Time that the lead has to remove a member that has shut down. The reference client (Claude Code)
/// needs one second.
const FAREWELL: Duration = Duration::from_secs(5);

/// The reason why the agent was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The user stopped the agent. The agent can be resumed later.
    Interrupted,
    /// The run reached a limit. Contains a description of the limit.
    Limit(Limit, String),
    /// The team was deleted.
    Gone,
}

impl SoloLoop {
    /// Cancels the agent and its subagents, and starts the time limit for their end. If this
    /// function is called again, the first reason is kept.
    pub(super) fn drop_agent(&mut self, why: DropReason) {
        if self.why.is_none() {
            self.why = Some(why);
            self.sources.grace = Some(Box::pin(tokio::time::sleep(self.grace)));
        }
        self.link.cancel();
        self.drop_subagents();
    }

    pub(super) fn end_of_drop(&self) -> RunEnd {
        match &self.why {
            None | Some(DropReason::Interrupted) => RunEnd::Interrupted,
            Some(DropReason::Limit(limit, reason)) => {
                RunEnd::LimitReached { limit: *limit, reason: reason.clone(), text: None }
            }
            Some(DropReason::Gone) => RunEnd::Failed { reason: "the team was deleted".to_owned() },
        }
    }

    pub(super) fn used_up(&mut self) {
        if let Some(most) = self.limits.max_turns.filter(|most| self.turns >= *most) {
            let reason = format!("it has used all of its {}", counted(most, "turn"));
            self.drop_agent(DropReason::Limit(Limit::Turns, reason));
        }
    }

    pub(super) async fn ended(
        &mut self,
        status: Status,
        reason: Option<String>,
        text: Option<String>,
    ) {
        self.account.note_state(status, reason.clone());
        self.run_context.note_state(&self.member, status, reason.clone()).await;
        self.end = Some(match status {
            Status::Completed => RunEnd::Success { text: text.unwrap_or_default() },
            Status::Pending
            | Status::Active
            | Status::Idle
            | Status::AwaitingPlanApproval
            | Status::Parked
            | Status::ShutdownRequested
            | Status::Failed
            | Status::Killed => {
                RunEnd::Failed { reason: reason.unwrap_or_else(|| format!("it {status}")) }
            }
        });
    }

    /// Updates or removes the member's config entry, and converts the end into the run's outcome.
    pub(super) async fn close(mut self, end: RunEnd) -> RunOutcome {
        self.drop_subagents();
        let is_gone = self.why == Some(DropReason::Gone);
        match &end {
            RunEnd::Interrupted | RunEnd::ShutDown => {
                self.account.was_dropped();
                self.set_active(false).await;
            }
            RunEnd::Success { .. }
            | RunEnd::Unfinished { .. }
            | RunEnd::Failed { .. }
            | RunEnd::Broken { .. }
            | RunEnd::Parked { .. }
            | RunEnd::LimitReached { .. }
                if is_gone => {}
            RunEnd::LimitReached { reason, .. } => {
                // Write the reached limit to the journal. The lead reads it there and learns why
                // the process ends.
                self.run_context
                    .note_state(&self.member, Status::Failed, Some(reason.clone()))
                    .await;
                self.depart(false).await;
            }
            RunEnd::Success { .. }
            | RunEnd::Unfinished { .. }
            | RunEnd::Failed { .. }
            | RunEnd::Broken { .. }
            | RunEnd::Parked { .. } => {
                self.depart(matches!(end, RunEnd::Success { .. })).await;
            }
        }
        let tasks = self.run_context.team.tasks().await.unwrap_or_default();
        let tasks: Vec<TaskSummary> = tasks.iter().map(TaskSummary::from).collect();
        let open = match &end {
            RunEnd::Success { .. } => OpenWork::default(),
            _ => OpenWork::of_tasks(&tasks),
        };
        let totals = self
            .usage_totals
            .close(self.began.elapsed(), |model| self.run_context.window_of(model));
        RunOutcome {
            team: self.run_context.team.name().to_string(),
            end,
            agents: vec![self.account.summary],
            totals,
            tasks,
            open,
            kept: Vec::new(),
            team_deleted: is_gone,
        }
    }

    /// Removes the member from the team if the member joined by itself. If the lead placed the
    /// member, the lead removes it. The lead learns of the end from the member's shutdown approval,
    /// or from the end of this process.
    async fn depart(&mut self, said_goodbye: bool) {
        match self.entry {
            Entry::Joins => self.leave().await,
            // The member has approved its shutdown, and so the lead is about to remove it from the
            // config. Do not write the config now: if the lead is a client that uses no lock, one
            // of the two writes would be lost.
            Entry::Placed if said_goodbye => {}
            Entry::Placed => self.set_active(false).await,
        }
    }

    /// Leaves the team that the member joined. A lead that knows of the end removes the member
    /// itself, so the lead gets time to do that first. Some clients lose a change when two
    /// processes write the config at the same time.
    async fn leave(&mut self) {
        let _either_way =
            tokio::time::timeout(FAREWELL.min(self.grace), self.until_taken_out()).await;
        if let Err(error) = self.run_context.team.leave(&self.member).await {
            self.warn(format!("{} could not leave the team: {}", self.member, chain(&error))).await;
        }
    }

    async fn until_taken_out(&mut self) {
        let team = self.run_context.team.clone();
        loop {
            match team.config().await {
                Ok(config) if config.member(self.member.as_str()).is_some() => {}
                Ok(_) | Err(_) => return,
            }
            let Some(watch) = &mut self.sources.watch else { return };
            if watch.next().await.is_none() {
                return;
            }
        }
    }
}
