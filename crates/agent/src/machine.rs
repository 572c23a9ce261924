//! The machine: its phases, and what each event makes of them.
//!
//! A turn is a chain of boundaries. At each the inbox is read and delivered; then come the next calls of the turn, or the
//! model, or the end of the turn. What happens to single calls is in `round`, how mail is sorted and delivered in `inbox`, how a turn is cut
//! off and an agent parked in `pause`, and what becomes of a conversation that is nearly too long in `compact`.

use std::collections::HashSet;

use pitcrew_model::Response;
use pitcrew_protocol::{AgentName, MessageId, PermissionMode, Status, counted, counted_is};

use super::compact::Compacting;
use super::repeats::Repeats;
use super::round::Stage;
use super::{
    Effect, Effects, Event, IdleCause, IdleReport, Mail, ModelFailure, Profile, Role, TurnEnd,
};
use crate::transcript::{AnswerFault, Conversation, Step};

/// An agent.
#[derive(Debug)]
pub struct Agent {
    pub(super) profile: Profile,
    pub(super) conversation: Conversation,
    pub(super) mode: PermissionMode,
    pub(super) phase: Phase,
    pub(super) stages: Vec<(String, Stage)>,
    /// What hooks said before calls that have no result yet.
    pub(super) remarks: Vec<(String, Vec<String>)>,
    pub(super) pending: Vec<Mail>,
    /// The messages in `pending`: a busy agent reads its whole inbox again each time it is rung.
    pub(super) waiting: HashSet<MessageId>,
    /// Idle notices that newer ones took the place of, until they are marked read. They stay in `waiting`, since the inbox
    /// may be read again before that.
    pub(super) superseded: Vec<MessageId>,
    /// What it is to know at the next boundary.
    pub(super) told: Vec<Step>,
    pub(super) referred: HashSet<MessageId>,
    /// Answers were read to questions that are not asked yet, since a crash came before the asking was on disk. They stay
    /// unread until then.
    pub(super) has_early_answer: bool,
    pub(super) stop: Option<String>,
    pub(super) repeats: Repeats,
    is_waking: bool,
    pub(super) compacting: Compacting,
    pub(super) is_parked: bool,
    pub(super) is_held: bool,
    /// Its faulty answer was asked for again, and no good one came since.
    pub(super) was_asked_again: bool,
    pub(super) announced: Status,
}

/// Where an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not started.
    Pending,
    /// Between two steps of a turn: the inbox is being read.
    Boundary,
    /// After an answer without calls: the inbox is being read once more.
    TurnEnd,
    /// The model is being called.
    Thinking,
    /// The model is being called for a summary.
    Compacting,
    /// Calls of tools are being made.
    Calling,
    /// The hooks for the end of the turn run.
    Resting,
    /// Between turns.
    Idle,
    /// No more.
    Over(Status),
}

impl Agent {
    /// Makes an agent, with the conversation it had if it had one.
    #[must_use]
    pub fn new(profile: Profile, mode: PermissionMode, conversation: Conversation) -> Self {
        Self {
            profile,
            conversation,
            mode,
            phase: Phase::Pending,
            stages: Vec::new(),
            remarks: Vec::new(),
            pending: Vec::new(),
            waiting: HashSet::new(),
            superseded: Vec::new(),
            told: Vec::new(),
            referred: HashSet::new(),
            has_early_answer: false,
            stop: None,
            repeats: Repeats::default(),
            is_waking: false,
            compacting: Compacting::default(),
            is_parked: false,
            is_held: false,
            was_asked_again: false,
            announced: Status::Pending,
        }
    }

    /// What the agent is.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Its conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The permission mode it works in.
    #[must_use]
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Whether it does nothing more, whatever happens.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// Whether it was stopped since it made the same call again and again.
    #[must_use]
    pub fn was_looping(&self) -> bool {
        self.repeats.has_stopped
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Pending => Status::Pending,
            Phase::Over(status) => status,
            Phase::Idle if self.is_parked => Status::Parked,
            Phase::Idle if self.conversation.plan().is_some() => Status::AwaitingPlanApproval,
            Phase::Idle => Status::Idle,
            Phase::Boundary
            | Phase::TurnEnd
            | Phase::Thinking
            | Phase::Compacting
            | Phase::Calling
            | Phase::Resting => {
                if self.conversation.shutdown().is_some() {
                    Status::ShutdownRequested
                } else {
                    Status::Active
                }
            }
        }
    }

    /// Takes what happened, and tells what is to be done about it. After the end nothing happens any more.
    pub fn handle(&mut self, event: Event) -> Effects {
        let mut fx = Effects::default();
        if matches!(self.phase, Phase::Over(_)) || (self.is_held && !event.is_heard_when_held()) {
            return fx;
        }
        match event {
            Event::Started { prompt } => {
                self.write(vec![Step::Told { text: prompt }], &mut fx);
                self.boundary(Phase::Boundary, &mut fx);
            }
            Event::Resumed => self.resume(&mut fx),
            Event::MailWaiting => self.mail_waits(&mut fx),
            Event::MailArrived(mail) => self.mail_arrived(mail, &mut fx),
            Event::Told { text } => self.learn([Step::Told { text }], &mut fx),
            Event::ShutdownWithdrawn { text } => {
                self.learn([Step::ShutdownRefused, Step::Told { text }], &mut fx)
            }
            Event::Rejoined { members, text } => {
                self.learn([Step::Rejoined { members, text }], &mut fx)
            }
            Event::TeamMade => self.learn([Step::TeamMade], &mut fx),
            Event::Parted { members, ids, text } => self.parted(members, ids, text, &mut fx),
            Event::Instructed { text } => {
                self.repeats.forget();
                self.learn([Step::Instructed { text }], &mut fx);
            }
            Event::Settled(ids) => ids.into_iter().for_each(|id| self.pass_over(id, &mut fx)),
            Event::Wake => self.wake(&mut fx),
            Event::ModelFinished { response, cost_usd } => {
                self.answered(response, cost_usd, &mut fx)
            }
            Event::Summarised(summary) => self.summarised(summary, &mut fx),
            Event::ModelFailed { reason, failure } => self.model_failed(reason, failure, &mut fx),
            Event::Judged { call, judgement, context } => {
                self.judged(&call, judgement, context, &mut fx)
            }
            Event::PermissionAsked { call, request } => self.asked(&call, request, &mut fx),
            Event::Answered { call, grant } => self.granted(&call, Vec::new(), grant, &mut fx),
            Event::ToolFinished { call, ending } => self.ended(&call, ending, &mut fx),
            Event::Inspected { call, inspection } => self.inspected(&call, inspection, &mut fx),
            Event::HookAnswered { keep_going } => self.hooks_ran(keep_going, &mut fx),
            Event::ModeChanged(mode) => self.mode_changed(mode, &mut fx),
            Event::Interrupted => self.interrupted(&mut fx),
            Event::Parked => self.is_parked = true,
            Event::Unparked => self.unparked(&mut fx),
            Event::Held => self.held(&mut fx),
            Event::StopAsked { reason } => self.stop_asked(reason, &mut fx),
            Event::Killed { reason } => self.finish(Status::Killed, Some(reason), &mut fx),
            Event::Broken { reason } => self.end(Status::Failed, Some(reason), &mut fx),
        }
        self.announce(&mut fx);
        fx
    }

    fn wake(&mut self, fx: &mut Effects) {
        if self.phase == Phase::Idle && !self.is_parked {
            self.is_waking = true;
            fx.push(Effect::TakeMail);
        }
    }

    fn stop_asked(&mut self, reason: String, fx: &mut Effects) {
        self.stop = Some(reason);
        if matches!(self.phase, Phase::Pending | Phase::Idle) {
            self.proceed(fx);
        }
    }

    fn mode_changed(&mut self, mode: PermissionMode, fx: &mut Effects) {
        if mode == PermissionMode::Plan && self.mode != mode {
            fx.push(Effect::StopCommands);
        }
        self.mode = mode;
    }

    /// Is to know something at the next boundary; an idle agent starts a turn.
    fn learn(&mut self, steps: impl IntoIterator<Item = Step>, fx: &mut Effects) {
        self.told.extend(steps);
        self.proceed_when_idle(fx);
    }

    /// Learns of the end of teammates, with their goodbyes. What it knows already does not wake it.
    fn parted(
        &mut self,
        members: Vec<AgentName>,
        ids: Vec<MessageId>,
        text: String,
        fx: &mut Effects,
    ) {
        if members.iter().all(|name| self.conversation.parted().contains(name)) {
            return ids.into_iter().for_each(|id| self.pass_over(id, fx));
        }
        self.learn([Step::Parted { members, ids, text }], fx);
    }

    /// Tells a new state: a start of work before the first deed, so that who sees the mail marked read has heard of it,
    /// and everything else after the last.
    fn announce(&mut self, fx: &mut Effects) {
        let status = self.status();
        if status == self.announced {
            return;
        }
        self.announced = status;
        match status {
            Status::Active | Status::ShutdownRequested => fx.push_first(Effect::Announce(status)),
            Status::Pending | Status::Idle | Status::AwaitingPlanApproval | Status::Parked => {
                fx.push(Effect::Announce(status));
            }
            Status::Completed | Status::Failed | Status::Killed => {}
        }
    }

    fn resume(&mut self, fx: &mut Effects) {
        if let Some((status, reason)) = self.conversation.ended().cloned() {
            self.end(status, reason, fx);
        } else if self.profile.role == Role::Teammate && self.has_agreed_to_shut_down() {
            self.finish(Status::Completed, None, fx);
        } else if self.conversation == Conversation::default() && !self.is_parked {
            self.boundary(Phase::Pending, fx);
        } else if self.conversation.rested() || self.conversation == Conversation::default() {
            self.boundary(Phase::Idle, fx);
        } else if self.conversation.wants_answer() || !self.conversation.open_calls().is_empty() {
            self.boundary(Phase::Boundary, fx);
        } else {
            self.boundary(Phase::TurnEnd, fx);
        }
    }

    /// Comes to a boundary, where the inbox is read. An agent without an inbox goes straight on.
    pub(super) fn boundary(&mut self, phase: Phase, fx: &mut Effects) {
        self.phase = phase;
        match self.profile.role {
            Role::Lead | Role::Teammate if self.is_at_rest() => {}
            Role::Lead | Role::Teammate => fx.push(Effect::TakeMail),
            Role::Subagent => self.proceed(fx),
        }
    }

    pub(super) fn proceed_when_idle(&mut self, fx: &mut Effects) {
        if self.phase == Phase::Idle {
            self.proceed(fx);
        }
    }

    /// Goes on from a boundary, once the inbox was read.
    pub(super) fn proceed(&mut self, fx: &mut Effects) {
        if self.is_held {
            return;
        }
        let was_called = std::mem::take(&mut self.is_waking);
        let woken = self.wakes() || (was_called && !self.pending.is_empty());
        let goes_on = match self.phase {
            Phase::Boundary => true,
            Phase::Pending | Phase::TurnEnd | Phase::Idle => woken,
            Phase::Thinking
            | Phase::Compacting
            | Phase::Calling
            | Phase::Resting
            | Phase::Over(_) => return,
        };
        let waits_for_its_plan = self.conversation.plan().is_some() && !woken;
        if goes_on && !waits_for_its_plan && (self.is_to_compact() || self.mail_needs_room()) {
            // What waits for the boundary stays where it is, so that it is delivered behind the summary.
            return self.compact(None, fx);
        }
        // The model is not called again: a text that it has not read stays unread, so that nobody is told that it was read.
        if goes_on && !(self.stop.is_some() && self.has_text_to_read()) {
            self.deliver(fx);
        }
        if let Some(reason) = self.stop.take() {
            self.finish(Status::Completed, Some(reason), fx);
        } else if !goes_on {
            if self.phase == Phase::TurnEnd {
                self.rest_or_answer_again(fx);
            } else if self.phase == Phase::Pending {
                self.phase = Phase::Idle;
            } else if was_called {
                // The answer to a call to wake: there is nothing to do.
                fx.push(Effect::Announce(self.announced));
            }
        } else if self.has_calls_to_make() {
            self.phase = Phase::Calling;
            self.make_calls(fx);
        } else if self.conversation.plan().is_some() && !woken {
            self.fall_idle(IdleCause::TurnOver, fx);
        } else {
            self.call_model(fx);
        }
    }

    pub(super) fn call_model(&mut self, fx: &mut Effects) {
        let most = self.profile.max_turns.unwrap_or(u32::MAX);
        if self.conversation.turns() < most {
            self.fit_unanswered(fx);
            self.phase = Phase::Thinking;
            fx.push(Effect::CallModel);
            return;
        }
        self.phase = Phase::Idle;
        if self.profile.role == Role::Teammate {
            self.send_idle(
                IdleCause::Failed(format!("it has used all of its {}", counted(most, "turn"))),
                fx,
            );
        }
        match self.profile.role {
            Role::Lead | Role::Teammate => fx.push(Effect::ReportLimit),
            Role::Subagent => self.finish(
                Status::Completed,
                Some(format!("all of its {} used", counted_is(most, "turn"))),
                fx,
            ),
        }
    }

    fn answered(&mut self, response: Response, cost_usd: Option<f64>, fx: &mut Effects) {
        if self.phase != Phase::Thinking {
            return;
        }
        let fault = AnswerFault::of(&response.stop, &response.blocks);
        self.was_asked_again &= fault.is_some();
        self.write(
            vec![Step::Assistant {
                blocks: response.blocks,
                usage: response.usage,
                cost_usd,
                fault,
            }],
            fx,
        );
        let next = if self.conversation.open_calls().is_empty() {
            Phase::TurnEnd
        } else {
            Phase::Boundary
        };
        self.boundary(next, fx);
    }

    fn model_failed(&mut self, reason: String, failure: ModelFailure, fx: &mut Effects) {
        if !matches!(self.phase, Phase::Thinking | Phase::Compacting) {
            return;
        }
        match failure {
            ModelFailure::TooLong => self.too_long(reason, fx),
            ModelFailure::Unavailable { retry_after } => {
                self.model_unavailable(reason, retry_after, fx)
            }
            ModelFailure::Other => self.finish(Status::Failed, Some(reason), fx),
        }
    }

    pub(super) fn rest(&mut self, fx: &mut Effects) {
        self.phase = Phase::Resting;
        fx.push(Effect::EndTurn(TurnEnd { text: self.conversation.last_text() }));
    }

    fn hooks_ran(&mut self, keep_going: Option<String>, fx: &mut Effects) {
        if self.phase != Phase::Resting {
            return;
        }
        if let Some(text) = keep_going {
            self.write(vec![Step::Told { text }], fx);
            self.boundary(Phase::Boundary, fx);
        } else if self.wakes() || self.stop.is_some() {
            self.phase = Phase::TurnEnd;
            self.proceed(fx);
        } else if self.profile.role == Role::Subagent {
            self.finish(Status::Completed, None, fx);
        } else {
            self.fall_idle(self.cause_of_rest(), fx);
        }
    }

    pub(super) fn fall_idle(&mut self, cause: IdleCause, fx: &mut Effects) {
        self.phase = Phase::Idle;
        if self.profile.role == Role::Teammate {
            self.send_idle(cause, fx);
        }
        self.write(vec![Step::Rested], fx);
    }

    pub(super) fn send_idle(&self, cause: IdleCause, fx: &mut Effects) {
        fx.push(Effect::SendIdle(IdleReport { cause, result: self.conversation.last_text() }));
    }

    /// Ends the agent. A lead's transcript stays open: a team that is resumed goes on with it.
    pub(super) fn finish(&mut self, status: Status, reason: Option<String>, fx: &mut Effects) {
        if self.profile.role == Role::Teammate {
            if status == Status::Failed {
                self.send_idle(IdleCause::Failed(reason.clone().unwrap_or_default()), fx);
            }
            self.write(vec![Step::Ended { status, reason: reason.clone() }], fx);
        }
        self.end(status, reason, fx);
    }

    fn end(&mut self, status: Status, reason: Option<String>, fx: &mut Effects) {
        self.phase = Phase::Over(status);
        self.announced = status;
        fx.push(Effect::Announce(status));
        fx.push(Effect::End { status, reason, text: self.conversation.last_text() });
    }

    /// Makes steps part of the conversation, here and on disk.
    pub(super) fn write(&mut self, steps: Vec<Step>, fx: &mut Effects) {
        if steps.is_empty() {
            return;
        }
        for step in &steps {
            self.conversation.apply(step);
        }
        fx.push(Effect::Append(steps));
    }
}
