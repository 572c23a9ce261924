//! How agents end, and what follows from it: for the team, for the lead, for their worktrees, for the limits.

use std::path::Path;
use std::time::Duration;

use pitcrew_protocol::{AgentName, Foreign, Frame, Injected, LEAD_NAME, MessageId, TaskId, TeammateTerminated, render};
use pitcrew_team::{Actor, Mail, MemberEnd, RefusedFrame, Team};

use super::client_start::note_never_read;
use super::course::{News, Why};
use super::elsewhere::{answered_request, is_goodbye};
use super::errands::{Errand, ErrandAnswer, notice, outcome};
use super::ledger::RESUMABLE;
use super::team_loop::{Farewell, Hand, Part, TeamLoop};
use crate::agent::{Event, Status};
use crate::driver::{chain, output_file, task_notification};
use crate::events::Spending;
use crate::gate::PermissionMode;
use crate::run::{KeptWorktree, Limit};
use crate::tools::ToolOutcome;
use crate::transcript::{AnswerFault, Conversation};
use crate::worktree::{Finished, Worktrees};

/// Whether an agent can answer a request to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// It can.
    Yes,
    /// When its model is available again, for which its call waits.
    Later,
    /// It cannot go on.
    No,
}

impl TeamLoop {
    /// Counts a model call, and sees whether the run has become too dear.
    pub(super) async fn spent(&mut self, agent: &AgentName, spending: &Spending) -> Vec<News> {
        self.quarters.note_turn(agent, spending).await;
        self.count(agent, spending)
    }

    /// Counts a model call that is in the journal.
    pub(super) fn count(&mut self, agent: &AgentName, spending: &Spending) -> Vec<News> {
        if let Some(hand) = self.crew.get_mut(agent) {
            hand.turns += 1;
            hand.answers = Answers::Yes;
            if hand.body.is_foreign() {
                // A client has names of its own for models, and its user may choose another one.
                spending.model.clone_into(&mut self.ledger.of(agent).model);
            }
        }
        self.ledger.spend(agent, spending);
        match self.limits.max_cost_usd {
            Some(most) if self.ledger.cost_usd() >= most => {
                vec![News::EndAsked(Why::Limit(Limit::Cost, format!("the team has cost its ${most:.2}")))]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Takes note of an agent's end.
    pub(super) async fn ended(
        &mut self,
        agent: &AgentName,
        status: Status,
        reason: Option<String>,
        text: Option<String>,
    ) -> Vec<News> {
        let account = self.ledger.of(agent);
        (account.state, account.reason) = (status, reason.clone());
        let Some(Hand { part, .. }) = self.crew.remove(agent) else { return Vec::new() };
        match part {
            Part::Lead => {
                self.quarters.note_state(agent, status, reason.clone()).await;
                self.lead_text = self.unapproved_plan.take().or(text);
                self.drop_errands(&AgentName::lead(), |_| true);
                vec![News::LeadEnded(status, reason)]
            }
            Part::Errand(errand) => self.errand_ended(agent, *errand, status, reason, text),
            Part::Teammate { worktree } => {
                self.drop_errands(agent, |_| true);
                self.quarters.note_state(agent, status, reason.clone()).await;
                self.retire(agent, status, reason, worktree.as_deref()).await;
                vec![News::Left(agent.clone())]
            }
        }
    }

    /// Takes note that an agent was dropped where it stood. It stays in the team, for the next run.
    pub(super) async fn dropped(&mut self, agent: &AgentName) -> Vec<News> {
        self.ledger.of(agent).reason = Some(RESUMABLE.to_owned());
        self.ledger.of(agent).state = Status::Killed;
        match self.crew.remove(agent).map(|hand| hand.part) {
            None => Vec::new(),
            Some(Part::Lead) => {
                self.drop_errands(&AgentName::lead(), |_| true);
                vec![News::LeadEnded(Status::Killed, None)]
            }
            Some(Part::Errand(errand)) => {
                if let ErrandAnswer::Call(answer) = errand.answer {
                    let _not_waited_for = answer.send(ToolOutcome::interrupted());
                }
                Vec::new()
            }
            Some(Part::Teammate { worktree }) => {
                self.drop_errands(agent, |_| true);
                if self.course.why().is_none_or(|why| !why.is_resumable()) && !self.wakers.was_killed {
                    self.retire(agent, Status::Killed, Some("it did not end in time".to_owned()), worktree.as_deref())
                        .await;
                }
                vec![News::Left(agent.clone())]
            }
        }
    }

    /// Takes note of an agent's state. An idle agent with a reason cannot go on: it used all its turns, or its model is
    /// unavailable.
    pub(super) async fn announced(
        &mut self,
        agent: AgentName,
        status: Status,
        detail: Option<String>,
        fault: Option<AnswerFault>,
    ) -> Vec<News> {
        let account = self.ledger.of(&agent);
        (account.state, account.reason) = (status, detail.clone());
        if self.crew.get(&agent).is_some_and(|hand| matches!(hand.part, Part::Errand(_))) {
            return Vec::new();
        }
        self.quarters.note_state(&agent, status, detail.clone()).await;
        self.set_answers(&agent, if detail.is_some() { Answers::No } else { Answers::Yes });
        let stuck = detail.map(|reason| News::Unavailable(agent.clone(), reason));
        let answered = (agent.as_str() == LEAD_NAME).then_some(News::LeadAnswered(fault));
        answered.into_iter().chain([News::Announced(agent.clone(), status)]).chain(stuck).collect()
    }

    /// Takes note of whether an agent can answer. One that was asked to shut down, and cannot answer, is not waited for.
    pub(super) fn set_answers(&mut self, agent: &AgentName, answers: Answers) {
        if let Some(hand) = self.crew.get_mut(agent) {
            hand.answers = answers;
        }
        self.stopped_unasked(agent);
    }

    /// Stops a teammate that cannot answer a request to shut down. A run that can be resumed asks nobody: it has dropped all.
    pub(super) fn stopped_unasked(&self, agent: &AgentName) -> bool {
        if self.course.why().is_none_or(Why::is_resumable) {
            return false;
        }
        let mate = self.crew.get(agent).filter(|hand| matches!(hand.part, Part::Teammate { .. }));
        match mate.map(|hand| (hand.answers, &hand.body)) {
            Some((Answers::No, body)) => body.end("it could not answer the request to shut down"),
            Some((Answers::Yes | Answers::Later, _)) | None => return false,
        }
        true
    }

    /// Stops a teammate that could not be asked to shut down: it would be waited for in vain.
    pub(super) fn stop_unasked(&self, agent: &AgentName) {
        if let Some(hand) = self.crew.get(agent) {
            hand.body.end("it could not be asked to shut down");
        }
    }

    /// Takes note that an agent does nothing more in this run, as its model is unavailable. Only a lead parks.
    pub(super) async fn parked(
        &mut self,
        agent: &AgentName,
        reason: String,
        retry_after: Option<Duration>,
    ) -> Vec<News> {
        let account = self.ledger.of(agent);
        (account.state, account.reason) = (Status::Parked, Some(reason.clone()));
        self.crew.remove(agent);
        self.quarters.note_state(agent, Status::Parked, Some(reason.clone())).await;
        self.retry_after = retry_after;
        self.drop_errands(&AgentName::lead(), |_| true);
        vec![News::LeadEnded(Status::Parked, Some(reason))]
    }

    pub(super) async fn tell_who_is_late(&mut self) {
        let mates = self.crew.iter().filter(|(_, hand)| matches!(hand.part, Part::Teammate { .. }));
        let late: Vec<&str> = mates.map(|(name, _)| name.as_str()).collect();
        let late = if late.is_empty() { LEAD_NAME.to_owned() } else { late.join(", ") };
        self.warn(format!("{late} did not shut down in time")).await;
    }

    /// Drops those subagents of an agent.
    pub(super) fn drop_errands(&self, caller: &AgentName, which: impl Fn(&Errand) -> bool) {
        for hand in self.crew.values() {
            if let Part::Errand(errand) = &hand.part
                && errand.caller == *caller
                && which(errand)
            {
                hand.body.cancel();
            }
        }
    }

    /// Lets the subagents of an agent do no more than that agent in its new mode.
    pub(super) fn narrow_errands(&mut self, caller: &AgentName, mode: PermissionMode) {
        for hand in self.crew.values_mut() {
            if let Part::Errand(errand) = &mut hand.part
                && errand.caller == *caller
                && let (Some(mode), Some(link)) = (errand.narrowed(mode), hand.body.link())
            {
                link.tell(Event::ModeChanged(mode));
            }
        }
    }

    /// Whether a subagent works whose caller goes on meanwhile.
    pub(super) fn has_errands_in_background(&self) -> bool {
        let is_one = |hand: &Hand| matches!(&hand.part, Part::Errand(errand) if errand.is_in_background());
        self.crew.values().any(is_one)
    }

    /// Takes what a subagent that has just ended knows.
    pub(super) fn remembers(&mut self, agent: &AgentName, conversation: Conversation) -> Vec<News> {
        if let Some(Part::Errand(errand)) = self.crew.get_mut(agent).map(|hand| &mut hand.part) {
            errand.remember(conversation);
        }
        Vec::new()
    }

    /// Answers for a subagent that has ended.
    fn errand_ended(
        &mut self,
        agent: &AgentName,
        mut errand: Errand,
        status: Status,
        reason: Option<String>,
        text: Option<String>,
    ) -> Vec<News> {
        let answer = std::mem::replace(&mut errand.answer, ErrandAnswer::Notice);
        self.errands.keep(agent, errand);
        match answer {
            ErrandAnswer::Call(answer) => {
                // The only error is that the call is not waited for any more.
                let _not_waited_for = answer.send(outcome(agent, status, reason, text));
                Vec::new()
            }
            // Only a lead has subagents in the background.
            ErrandAnswer::Notice => {
                self.tell_lead(Event::Told { text: notice(agent, status, reason, text) });
                vec![News::LeadTold]
            }
        }
    }

    /// Looks at a goodbye in the lead's inbox. One of a member that was not asked to leave is refused.
    pub(super) async fn goodbye(&mut self, name: &AgentName, mail: MessageId, frame: &Frame) {
        let ledger = match self.quarters.team.requests().await {
            Ok(ledger) => ledger,
            Err(error) => return self.warn(format!("a goodbye of {name} waits: {}", chain(&error))).await,
        };
        let config = self.quarters.team.config().await;
        let is_member = config.is_ok_and(|config| config.member(name.as_str()).is_some());
        if !is_member || is_goodbye(&ledger, name, frame) {
            return self.said_goodbye(name, mail).await;
        }
        let reason =
            format!("nobody asked it to shut down by the request {:?}", answered_request(frame).unwrap_or_default());
        let refused = RefusedFrame { id: mail.clone(), from: name.to_string(), frame: frame.kind().to_owned(), reason };
        if let Err(error) = self.quarters.team.refuse(&AgentName::lead(), std::slice::from_ref(&refused)).await {
            tracing::warn!(%error, "a refused frame is not marked as read");
        }
        self.warn(format!("in the inbox of {LEAD_NAME}, {refused}")).await;
        self.tell_lead(Event::Settled(vec![mail]));
    }

    /// Hears that a teammate shuts down. One that runs here ends by itself and reports it; one that runs elsewhere is taken
    /// out of the team; and one that is no member any more was taken out before a crash that came before the lead knew.
    pub(super) async fn said_goodbye(&mut self, name: &AgentName, mail: MessageId) {
        if let Some(hand) = self.crew.get(name) {
            hand.body.said_goodbye();
            self.farewells.insert(name.clone(), Farewell::Said(mail));
            return;
        }
        let text = match self.farewells.remove(name) {
            Some(Farewell::Gone(text)) => text,
            Some(Farewell::Said(_)) | None => {
                let config = self.quarters.team.config().await;
                if config.is_ok_and(|config| config.member(name.as_str()).is_some()) {
                    self.take_out(name, Status::Completed, None, None).await
                } else {
                    self.farewell(name, Status::Completed, None, Vec::new()).await
                }
            }
        };
        self.tell_farewell(vec![name.clone()], text, vec![mail]);
    }

    /// Takes a teammate that ended out of the team, and tells the lead.
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
        match self.farewells.remove(name) {
            Some(Farewell::Said(mail)) => self.tell_farewell(vec![name.clone()], text, vec![mail]),
            Some(Farewell::Gone(_)) | None if status == Status::Completed => {
                self.farewells.insert(name.clone(), Farewell::Gone(text));
            }
            Some(Farewell::Gone(_)) | None => self.tell_farewell(vec![name.clone()], text, Vec::new()),
        }
    }

    /// A lead that is being ended has no use for the news now; when it can be resumed, the message stays unread until then.
    pub(super) fn tell_farewell(&mut self, members: Vec<AgentName>, text: String, ids: Vec<MessageId>) {
        match self.course.why() {
            Some(why) if why.is_resumable() => return,
            Some(_) => return self.tell_lead(Event::Settled(ids)),
            None => {}
        }
        self.tell_lead(Event::Parted { members, ids, text });
        let orders = self.course.hear(News::LeadTold);
        debug_assert!(orders.is_empty(), "nothing is to be done at once");
    }

    /// Takes a teammate out of the team: its tasks go back to the pool, its worktree is cleared away or kept. Answers with
    /// what the lead is to know of it.
    pub(super) async fn take_out(
        &mut self,
        name: &AgentName,
        status: Status,
        reason: Option<String>,
        worktree: Option<&Path>,
    ) -> String {
        self.ask_no_more_for(name);
        self.note_never_read(name).await;
        let mut more = Vec::new();
        match self.quarters.team.remove_ended(&Actor::Lead, name, member_end(status)).await {
            Ok(removed) => more.extend(released(&removed.released)),
            Err(error) => {
                // Its worktree stays with it: without one the next run could not start it again.
                self.remove_later(name, worktree);
                more.push(format!("It cannot be taken out of the team yet, and keeps its tasks: {}.", chain(&error)));
                return self.farewell(name, status, reason, more).await;
            }
        }
        if let Some(path) = worktree {
            more.extend(self.clear_worktree(name, path).await);
        }
        self.farewell(name, status, reason, more).await
    }

    /// Tells the senders of what the client of a member had taken, and its model never had.
    async fn note_never_read(&mut self, name: &AgentName) {
        match note_never_read(&self.quarters.team, &self.quarters.root, name).await {
            Ok(0) => {}
            Ok(count) => self.warn(format!("{name} has ended with {count} unread: the senders are told")).await,
            Err(error) => tracing::warn!(agent = %name, error = %chain(&error), "what it had not read is not known"),
        }
    }

    /// What the lead learns of an end. The reason of a failure is left out where the teammate has told it itself, in an
    /// idle notice, since its lead reads that too.
    pub(super) async fn farewell(
        &mut self,
        name: &AgentName,
        status: Status,
        reason: Option<String>,
        more: Vec<String>,
    ) -> String {
        let is_told = status == Status::Failed && has_told_failure(&self.quarters.team, name, reason.as_deref()).await;
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
                // It was asked to and agreed, which says nothing of its tasks.
                (format!("Teammate \"{name}\" has shut down, as it was asked to."), "has shut down")
            }
        };
        let told: Vec<String> = std::iter::once(format!("{name} {verb}.")).chain(more).collect();
        let ended = terminated(&told.join(" "));
        if is_told {
            return ended;
        }
        let output = output_file(&self.quarters.team, name);
        let notice = task_notification(name.as_str(), &output, status.as_str(), &message);
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
                let kept = KeptWorktree { agent: name.clone(), path: worktree.path, branch: worktree.branch, reason };
                self.kept.push(kept);
                Some(text)
            }
            Err(error) => {
                self.warn(format!("the worktree of {name} was not cleared away: {}", chain(&error))).await;
                None
            }
        }
    }

    /// The worktrees of this run. They stand outside the checkout, below the root.
    pub(super) fn worktrees(&self) -> Worktrees {
        let folder = Worktrees::folder_below(&self.quarters.root);
        let worktrees = Worktrees::new(&self.quarters.cwd, folder).with_ignored(self.quarters.ignored_files);
        worktrees.confined(self.quarters.sandbox.clone())
    }
}

/// What is noted of a teammate's end, for whoever writes to it.
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

/// Whether the last idle notice of a teammate says that it failed, and for this reason.
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

/// The `teammate_terminated` frame as the lead's conversation takes it; it goes into no file.
fn terminated(message: &str) -> String {
    let frame = Frame::from(TeammateTerminated {
        kind: TeammateTerminated::TYPE.into(),
        message: message.to_owned(),
        foreign: Foreign::default(),
    });
    let text = frame.to_text().unwrap_or_else(|_| message.to_owned());
    render(&[Injected { from: "system".to_owned(), color: None, summary: None, text }])
}
