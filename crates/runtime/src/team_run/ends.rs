//! Handles the ends of agents. It applies the consequences for the team, the lead, the git
//! worktrees and the limits.

use std::path::Path;
use std::time::Duration;

use pitcrew_agent::Event;
use pitcrew_agent::transcript::AnswerFault;
use pitcrew_model::in_dollars;
use pitcrew_permission::trust::trusted_stores;
use pitcrew_process::worktree::{Finished, Worktrees};
use pitcrew_protocol::{
    AgentName, Foreign, Frame, Injected, LEAD_NAME, MessageId, Status, TaskId, TeammateTerminated,
    chain, render,
};
use pitcrew_team::{Actor, Mail, MemberEnd, RefusedFrame, Team};
use pitcrew_tools::ToolOutcome;

use super::agents::{AgentKind, Answers, Departure, RunningAgent};
use super::client_start::note_never_read;
use super::remote_agents::{answered_request, is_goodbye};
use super::run_machine::{EndReason, RunInput};
use super::subagents::{SubagentAnswer, SubagentRun, notice, outcome};
use super::team_loop::TeamLoop;
use crate::driver::{output_file, task_notification};
use crate::events::Spending;
use crate::run::{KeptWorktree, Limit};

impl TeamLoop {
    /// Writes a model call to the journal and adds it to the totals. If the cost limit of the run
    /// is reached, returns the input that ends the run.
    pub(super) async fn spent(&mut self, agent: &AgentName, spending: &Spending) -> Vec<RunInput> {
        self.run_context.note_turn(agent, spending).await;
        self.count(agent, spending)
    }

    /// Adds a model call that is already in the journal to the totals. If the cost limit of the run
    /// is reached, returns the input that ends the run.
    pub(super) fn count(&mut self, agent: &AgentName, spending: &Spending) -> Vec<RunInput> {
        let is_foreign = self.agents.is_foreign(agent);
        if let Some(running) = self.agents.running_mut(agent) {
            running.made_call();
        }
        let account = self.agents.account(agent);
        if is_foreign {
            // A client uses its own model names, and its user can switch models. Take the name from
            // the latest call.
            spending.model.clone_into(&mut account.summary.model);
        }
        account.spend(spending, &mut self.usage_totals);
        match self.limits.max_cost_usd {
            Some(most) if self.usage_totals.cost_usd() >= most => {
                vec![RunInput::EndAsked(EndReason::Limit(
                    Limit::Cost,
                    format!("the team has reached its cost limit of {}", in_dollars(most)),
                ))]
            }
            Some(_) | None => Vec::new(),
        }
    }

    pub(super) async fn ended(
        &mut self,
        agent: &AgentName,
        status: Status,
        reason: Option<String>,
        text: Option<String>,
    ) -> Vec<RunInput> {
        self.agents.account(agent).note_state(status, reason.clone());
        let Some(running) = self.agents.end(agent) else { return Vec::new() };
        match running.kind {
            AgentKind::Lead => {
                self.run_context.note_state(agent, status, reason.clone()).await;
                self.lead_end.text = self.lead_end.unapproved_plan.take().or(text);
                self.agents.drop_subagents(&AgentName::lead(), |_| true);
                vec![RunInput::LeadEnded(status, reason)]
            }
            AgentKind::SubagentRun(subagent) => {
                self.subagent_ended(agent, *subagent, status, reason, text)
            }
            AgentKind::Teammate { worktree } => {
                self.agents.drop_subagents(agent, |_| true);
                self.run_context.note_state(agent, status, reason.clone()).await;
                self.retire(agent, status, reason, worktree.as_deref()).await;
                vec![RunInput::Left(agent.clone())]
            }
        }
    }

    /// Handles an agent that was cancelled. If the run can be resumed, the agent stays in the team
    /// for the next run.
    pub(super) async fn dropped(&mut self, agent: &AgentName) -> Vec<RunInput> {
        self.agents.account(agent).was_dropped();
        match self.agents.end(agent).map(|running| running.kind) {
            None => Vec::new(),
            Some(AgentKind::Lead) => {
                self.agents.drop_subagents(&AgentName::lead(), |_| true);
                vec![RunInput::LeadEnded(Status::Killed, None)]
            }
            Some(AgentKind::SubagentRun(subagent)) => {
                if let SubagentAnswer::Call(answer) = subagent.answer {
                    let _not_waited_for = answer.send(ToolOutcome::interrupted());
                }
                Vec::new()
            }
            Some(AgentKind::Teammate { worktree }) => {
                self.agents.drop_subagents(agent, |_| true);
                if self.machine.end_reason().is_none_or(|end_reason| !end_reason.is_resumable())
                    && !self.sources.was_killed
                {
                    self.retire(
                        agent,
                        Status::Killed,
                        Some("it did not end in time".to_owned()),
                        worktree.as_deref(),
                    )
                    .await;
                }
                vec![RunInput::Left(agent.clone())]
            }
        }
    }

    /// Records an agent's state. If the state is idle and has a reason, the agent cannot continue:
    /// it has used all its turns, or its model is unavailable.
    pub(super) async fn announced(
        &mut self,
        agent: AgentName,
        status: Status,
        detail: Option<String>,
        fault: Option<AnswerFault>,
    ) -> Vec<RunInput> {
        self.agents.account(&agent).note_state(status, detail.clone());
        if self.agents.running(&agent).is_some_and(|running| running.subagent().is_some()) {
            return Vec::new();
        }
        self.run_context.note_state(&agent, status, detail.clone()).await;
        self.set_answers(&agent, if detail.is_some() { Answers::No } else { Answers::Yes });
        self.look_at_plans_of(&agent, status).await;
        let stuck = detail.map(|reason| RunInput::Unavailable(agent.clone(), reason));
        let answered = (agent.as_str() == LEAD_NAME).then_some(RunInput::LeadAnswered(fault));
        answered
            .into_iter()
            .chain([RunInput::Announced(agent.clone(), status)])
            .chain(stuck)
            .collect()
    }

    /// Records whether an agent is able to answer a shutdown request. If the team is shutting down,
    /// an agent that is not able to answer is stopped at once.
    pub(super) fn set_answers(&mut self, agent: &AgentName, answers: Answers) {
        if let Some(running) = self.agents.running_mut(agent) {
            running.answers = answers;
        }
        self.stopped_unasked(agent);
    }

    /// Stops a teammate that cannot answer a shutdown request, if the run is ending with shutdown
    /// requests. Returns true if the teammate was stopped. A run that can be resumed later sends no
    /// shutdown requests, because it cancels every agent instead.
    pub(super) fn stopped_unasked(&self, agent: &AgentName) -> bool {
        let asks = self.machine.end_reason().is_some_and(|reason| !reason.is_resumable());
        let running = self.agents.running(agent).filter(|_| asks);
        running.is_some_and(RunningAgent::stopped_unasked)
    }

    /// Records that the lead stops for the rest of this run because its model is unavailable. Only
    /// a lead can stop in this way and be resumed.
    pub(super) async fn parked(
        &mut self,
        agent: &AgentName,
        reason: String,
        retry_after: Option<Duration>,
    ) -> Vec<RunInput> {
        self.agents.account(agent).note_state(Status::Parked, Some(reason.clone()));
        self.agents.end(agent);
        self.run_context.note_state(agent, Status::Parked, Some(reason.clone())).await;
        self.lead_end.retry_after = retry_after;
        self.agents.drop_subagents(&AgentName::lead(), |_| true);
        vec![RunInput::LeadEnded(Status::Parked, Some(reason))]
    }

    pub(super) async fn tell_who_is_late(&mut self) {
        let late: Vec<&str> = self.agents.teammates().map(|(name, _)| name.as_str()).collect();
        let late = if late.is_empty() { LEAD_NAME.to_owned() } else { late.join(", ") };
        self.warn(format!("{late} did not shut down in time")).await;
    }

    /// Sends the result of an ended subagent to its caller.
    fn subagent_ended(
        &mut self,
        agent: &AgentName,
        mut subagent: SubagentRun,
        status: Status,
        reason: Option<String>,
        text: Option<String>,
    ) -> Vec<RunInput> {
        let answer = std::mem::replace(&mut subagent.answer, SubagentAnswer::Notice);
        self.subagents.keep(agent, subagent);
        match answer {
            SubagentAnswer::Call(answer) => {
                // Sending fails only if the tool call no longer waits for the answer.
                let _not_waited_for = answer.send(outcome(agent, status, reason, text));
                Vec::new()
            }
            // Send the notice to the lead, because only the lead has background subagents.
            SubagentAnswer::Notice => {
                self.agents.tell_lead(Event::Told { text: notice(agent, status, reason, text) });
                vec![RunInput::LeadTold]
            }
        }
    }

    /// Checks a shutdown approval in the lead's inbox. Refuses the approval if nobody has asked the
    /// member to shut down.
    pub(super) async fn goodbye(&mut self, name: &AgentName, mail: MessageId, frame: &Frame) {
        let requests = match self.run_context.team.requests().await {
            Ok(requests) => requests,
            Err(error) => {
                return self.warn(format!("a goodbye of {name} waits: {}", chain(&error))).await;
            }
        };
        let config = self.run_context.team.config().await;
        let is_member = config.is_ok_and(|config| config.member(name.as_str()).is_some());
        if !is_member || is_goodbye(&requests, name, frame) {
            return self.said_goodbye(name, mail).await;
        }
        let reason = format!(
            "nobody asked it to shut down by the request {:?}",
            answered_request(frame).unwrap_or_default()
        );
        let refused = RefusedFrame {
            id: mail.clone(),
            from: name.to_string(),
            frame: frame.kind().to_owned(),
            reason,
        };
        if let Err(error) =
            self.run_context.team.refuse(&AgentName::lead(), std::slice::from_ref(&refused)).await
        {
            tracing::warn!(%error, "a refused frame is not marked as read");
        }
        self.warn(format!("in the inbox of {LEAD_NAME}, {refused}")).await;
        self.agents.tell_lead(Event::Settled(vec![mail]));
    }

    /// Handles a valid shutdown approval of a teammate:
    ///
    /// - If the teammate's agent still runs, it ends by itself, and its end is handled later.
    /// - If the agent has already ended in this run, this function informs the lead.
    /// - If no agent of the teammate ran in this run, this function removes the member from the
    ///   team and informs the lead. If the member is no longer in the team, an earlier process
    ///   crashed before it informed the lead, and this function only informs the lead.
    pub(super) async fn said_goodbye(&mut self, name: &AgentName, mail: MessageId) {
        if let Some(running) = self.agents.running(name) {
            running.handle.said_goodbye();
            self.agents.of(name).departure = Some(Departure::Said(mail));
            return;
        }
        let text = match self.agents.of(name).departure.take() {
            Some(Departure::Gone(text)) => text,
            Some(Departure::Said(_)) | None => {
                let config = self.run_context.team.config().await;
                if config.is_ok_and(|config| config.member(name.as_str()).is_some()) {
                    self.take_out(name, Status::Completed, None, None).await
                } else {
                    self.departure(name, Status::Completed, None, Vec::new()).await
                }
            }
        };
        self.tell_departure(vec![name.clone()], text, vec![mail]);
    }

    /// Removes a teammate from the team after the teammate has ended, and informs the lead. If the
    /// teammate has completed but its shutdown approval was not seen yet, the lead is informed
    /// later.
    pub(super) async fn retire(
        &mut self,
        name: &AgentName,
        status: Status,
        reason: Option<String>,
        worktree: Option<&Path>,
    ) {
        if status != Status::Completed {
            self.tidy_later();
        }
        let text = self.take_out(name, status, reason, worktree).await;
        match self.agents.of(name).departure.take() {
            Some(Departure::Said(mail)) => {
                self.tell_departure(vec![name.clone()], text, vec![mail])
            }
            Some(Departure::Gone(_)) | None if status == Status::Completed => {
                self.agents.of(name).departure = Some(Departure::Gone(text));
            }
            Some(Departure::Gone(_)) | None => {
                self.tell_departure(vec![name.clone()], text, Vec::new())
            }
        }
    }

    /// Informs the lead that members have left, unless the run is already ending. `ids` are the
    /// shutdown approvals of these members in the lead's inbox. If a run that can be resumed is
    /// ending, they stay unread until the next run.
    pub(super) fn tell_departure(
        &mut self,
        members: Vec<AgentName>,
        text: String,
        ids: Vec<MessageId>,
    ) {
        match self.machine.end_reason() {
            Some(end_reason) if end_reason.is_resumable() => return,
            Some(_) => return self.agents.tell_lead(Event::Settled(ids)),
            None => {}
        }
        self.agents.tell_lead(Event::Parted { members, ids, text });
        let actions = self.machine.handle(RunInput::LeadTold);
        debug_assert!(actions.is_empty(), "nothing is to be done at once");
    }

    /// Removes a teammate from the team. The teammate's tasks lose their owner, and its git
    /// worktree is removed or kept. Returns the text for the lead.
    pub(super) async fn take_out(
        &mut self,
        name: &AgentName,
        status: Status,
        reason: Option<String>,
        worktree: Option<&Path>,
    ) -> String {
        self.agents.of(name).ask_no_more();
        self.note_never_read(name).await;
        let mut more = Vec::new();
        match self.run_context.team.remove_ended(&Actor::Lead, name, member_end(status)).await {
            Ok(removed) => more.extend(released(&removed.released)),
            Err(error) => {
                // Keep the worktree, because the member is still in the config. Without the
                // worktree, the next run could not start the member again.
                self.remove_later(name, worktree);
                more.push(format!(
                    "It cannot be taken out of the team yet, and keeps its tasks: {}.",
                    chain(&error)
                ));
                return self.departure(name, status, reason, more).await;
            }
        }
        if let Some(path) = worktree {
            more.extend(self.clear_worktree(name, path).await);
        }
        self.departure(name, status, reason, more).await
    }

    /// Records the mail that a member's client took but never showed to its model, and informs the
    /// senders of this mail.
    async fn note_never_read(&mut self, name: &AgentName) {
        match note_never_read(&self.run_context.team, &self.run_context.root, name).await {
            Ok(0) => {}
            Ok(count) => {
                self.warn(format!("{name} has ended with {count} unread: the senders are informed"))
                    .await
            }
            Err(error) => {
                tracing::warn!(agent = %name, error = %chain(&error), "its unread messages cannot be listed")
            }
        }
    }

    /// Returns the text for the lead about a teammate's end. If the teammate's last idle notice
    /// already reports the failure, the text contains no task notification, because the lead reads
    /// that notice too.
    pub(super) async fn departure(
        &mut self,
        name: &AgentName,
        status: Status,
        reason: Option<String>,
        more: Vec<String>,
    ) -> String {
        let is_told = status == Status::Failed
            && has_told_failure(&self.run_context.team, name, reason.as_deref()).await;
        let (message, verb) = match status {
            Status::Failed => {
                let reason = reason.unwrap_or_else(|| "no reason was given".to_owned());
                (format!("Teammate \"{name}\" failed: {reason}"), "has failed")
            }
            Status::Killed => (format!("Teammate \"{name}\" was stopped."), "was stopped"),
            Status::Completed
            | Status::Pending
            | Status::Active
            | Status::Idle
            | Status::AwaitingPlanApproval
            | Status::Parked
            | Status::ShutdownRequested => {
                // Say only that the teammate agreed to shut down. This does not mean that its tasks
                // are done.
                (format!("Teammate \"{name}\" has shut down, as it was asked to."), "has shut down")
            }
        };
        let told: Vec<String> = std::iter::once(format!("{name} {verb}.")).chain(more).collect();
        let ended = terminated(&told.join(" "));
        if is_told {
            return ended;
        }
        let output = output_file(&self.run_context.team, name);
        let notice = task_notification(name.as_str(), &output, status, &message);
        format!("{ended}\n\n{notice}")
    }

    pub(super) async fn clear_worktree(&mut self, name: &AgentName, path: &Path) -> Option<String> {
        let worktrees = self.worktrees();
        let finished = match worktrees.open(path).await {
            Ok(worktree) => worktrees.finish(&worktree).await.map(|finished| (worktree, finished)),
            Err(error) => Err(error),
        };
        match finished {
            Ok((_, Finished::Removed)) => None,
            Ok((worktree, Finished::Kept { reason })) => {
                let reason = reason.to_string();
                let text = format!("Its worktree {} was kept: {reason}.", path.display());
                let kept = KeptWorktree {
                    agent: name.clone(),
                    path: worktree.path,
                    branch: worktree.branch,
                    reason,
                };
                self.kept.push(kept);
                Some(text)
            }
            Err(error) => {
                self.warn(format!(
                    "the worktree of {name} was not cleared away: {}",
                    chain(&error)
                ))
                .await;
                None
            }
        }
    }

    /// Returns the handle on this run's git worktrees. They are stored below the root folder,
    /// outside the user's checkout.
    pub(super) fn worktrees(&self) -> Worktrees {
        let folder = Worktrees::folder_below(&self.run_context.root);
        let worktrees = Worktrees::new(&self.run_context.cwd, folder)
            .with_ignored(self.run_context.ignored_files);
        let sandbox = self.run_context.sandbox.clone();
        let stores = trusted_stores(&self.run_context.root, sandbox.trusted_git());
        worktrees.confined(sandbox).trusting(stores).ended_by(self.sources.stopper.git())
    }
}

/// Returns the kind of end that is recorded for a teammate. If an agent writes to the teammate
/// later, the error message names this kind of end.
fn member_end(status: Status) -> MemberEnd {
    match status {
        Status::Failed => MemberEnd::Failed,
        Status::Killed => MemberEnd::Stopped,
        Status::Completed
        | Status::Pending
        | Status::Active
        | Status::Idle
        | Status::AwaitingPlanApproval
        | Status::Parked
        | Status::ShutdownRequested => MemberEnd::Left,
    }
}

/// Returns true if a teammate's last idle notice reports a failure with this reason.
async fn has_told_failure(team: &Team, name: &AgentName, reason: Option<&str>) -> bool {
    let notice = |mail: Mail| match mail.frame? {
        Frame::IdleNotification(idle) if mail.message.from == name.as_str() => Some(idle),
        _ => None,
    };
    let mail = team.mail(&AgentName::lead()).await.unwrap_or_default();
    let last = mail.into_iter().rev().find_map(notice);
    last.and_then(|idle| idle.failure_reason).is_some_and(|told| Some(told.as_str()) == reason)
}

pub(super) fn released(tasks: &[TaskId]) -> Option<String> {
    let ids: Vec<String> = tasks.iter().map(|id| format!("#{id}")).collect();
    (!ids.is_empty()).then(|| format!("Back in the pool, without an owner: {}.", ids.join(", ")))
}

/// Formats a `teammate_terminated` message for the lead's conversation. This message is not written
/// to an inbox.
fn terminated(message: &str) -> String {
    let frame = Frame::from(TeammateTerminated {
        kind: TeammateTerminated::TYPE.into(),
        message: message.to_owned(),
        foreign: Foreign::default(),
    });
    let text = frame.to_text().unwrap_or_else(|_| message.to_owned());
    render(&[Injected { from: "system".to_owned(), color: None, summary: None, text }])
}
