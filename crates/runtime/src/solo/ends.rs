//! How a member that runs alone ends, and what it leaves behind.

use std::time::Duration;

use futures_util::StreamExt;
use pitcrew_protocol::{Status, chain, counted};

use super::options::Entry;
use super::solo_loop::SoloLoop;
use crate::run::{Limit, OpenWork, RunEnd, RunOutcome, TaskSummary};

/// How long a lead has to take a member out of its team that has shut down; the reference client takes a second.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why the agent was dropped where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The user said so; it can go on later.
    Interrupted,
    /// A limit was reached.
    Limit(Limit, String),
    /// The team was deleted.
    Gone,
}

impl SoloLoop {
    /// Drops the agent where it stands, with all it does, and starts the grace. The first reason counts.
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

    /// Takes note of the agent's end.
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

    /// Sees to the member's entry, and turns the end into the outcome.
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
                // The lead reads it, and knows why the process ends.
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

    /// Leaves the team it came into by itself. Who was placed is taken out by its lead, which learns of the end by the
    /// goodbye it was sent, or else by the end of this process.
    async fn depart(&mut self, said_goodbye: bool) {
        match self.entry {
            Entry::Joins => self.leave().await,
            // The lead is about to write the config, and it may be a client that holds no lock: then one of two is lost.
            Entry::Placed if said_goodbye => {}
            Entry::Placed => self.set_active(false).await,
        }
    }

    /// Leaves the team it joined. A lead that was told of the end takes the member out by itself, and is given the time for
    /// that: two who write the config at once is one too many for some clients.
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
