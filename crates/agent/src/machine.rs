//! The state machine of an agent: its phases, and its reaction to each event.
//!
//! A turn is a chain of steps with a boundary before each step. At a boundary, the agent reads its
//! inbox, and its mail is delivered. The agent then makes the next step: it makes tool calls, calls
//! its model, or ends the turn. The module `round` handles tool calls, and `inbox` sorts and
//! delivers mail. The module `pause` interrupts turns and stops agents whose team has no lead. The
//! module `compact` handles conversations that are nearly too long.

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

/// The state machine of an agent.
#[derive(Debug)]
pub struct Agent {
    pub(super) profile: Profile,
    pub(super) conversation: Conversation,
    pub(super) mode: PermissionMode,
    pub(super) phase: Phase,
    pub(super) stages: Vec<(String, Stage)>,
    /// The texts of hooks for tool calls that have no result yet, by the id of the call.
    pub(super) remarks: Vec<(String, Vec<String>)>,
    pub(super) pending: Vec<Mail>,
    /// The ids of messages that were read from the inbox but not delivered: the messages in
    /// `pending`, and idle notices that newer notices replaced. A busy agent reads its whole inbox
    /// again at each notification, and then skips the messages with these ids.
    pub(super) waiting: HashSet<MessageId>,
    /// The ids of idle notices that newer notices replaced and that are not marked as read yet.
    /// They are also in `waiting`, because the inbox can be read again before they are marked.
    pub(super) superseded: Vec<MessageId>,
    /// Steps that are added to the conversation at the next boundary (the moment between two steps
    /// of a turn).
    pub(super) told: Vec<Step>,
    pub(super) referred: HashSet<MessageId>,
    /// Whether answers have arrived for permission requests that the transcript does not contain. A
    /// crash came before the requests were on disk. The answers stay unread until the permissions
    /// are requested again.
    pub(super) has_early_answer: bool,
    pub(super) stop: Option<String>,
    pub(super) repeats: Repeats,
    is_waking: bool,
    pub(super) compacting: Compacting,
    /// Whether a person asked for a compaction that has not begun yet.
    pub(super) is_compaction_asked: bool,
    pub(super) is_parked: bool,
    pub(super) is_held: bool,
    /// Whether the model was asked again after a faulty answer and has not given a good answer
    /// since.
    pub(super) was_asked_again: bool,
    pub(super) announced: Status,
}

/// The phase of an agent's state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The agent is not started yet.
    Pending,
    /// The agent is between two steps of a turn, and its inbox is being read.
    Boundary,
    /// The model answered without tool calls. The inbox is being read once more.
    TurnEnd,
    /// A model call is running.
    Thinking,
    /// A model call for a summary is running.
    Compacting,
    /// Tool calls are running.
    Calling,
    /// The hooks for the end of the turn are running.
    Resting,
    /// The agent is between two turns.
    Idle,
    /// The agent has ended with this status.
    Over(Status),
}

impl Agent {
    /// Creates an agent that continues an earlier conversation, which can be empty.
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
            is_compaction_asked: false,
            is_parked: false,
            is_held: false,
            was_asked_again: false,
            announced: Status::Pending,
        }
    }

    /// Returns the agent's properties.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns the agent's permission mode.
    #[must_use]
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Whether the agent has ended. An ended agent ignores all events.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// Whether the agent was stopped because it repeated the same call again and again.
    #[must_use]
    pub fn was_looping(&self) -> bool {
        self.repeats.has_stopped
    }

    /// Returns the agent's state.
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

    /// Processes an event and returns the effects to carry out. An ended agent ignores all events.
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
                // The user's new instruction can be a good reason to repeat a call. Forget the
                // repeats so far.
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
            Event::Judged { call, replaced, judgement, context } => {
                self.replace_input(&call, replaced, &mut fx);
                self.judged(&call, judgement, context, &mut fx)
            }
            Event::PermissionAsked { call, request } => self.asked(&call, request, &mut fx),
            Event::Answered { call, grant } => self.granted(&call, Vec::new(), grant, &mut fx),
            Event::ToolFinished { call, ending } => self.ended(&call, ending, &mut fx),
            Event::Inspected { call, inspection } => self.inspected(&call, inspection, &mut fx),
            Event::HookAnswered { keep_going } => self.hooks_ran(keep_going, &mut fx),
            Event::ModeChanged(mode) => self.mode_changed(mode, &mut fx),
            Event::ModelChanged(context) => self.profile.context = context,
            Event::CompactionAsked => self.compaction_asked(&mut fx),
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

    /// Keeps steps with texts for the model. They are added to the conversation at the next
    /// boundary (the moment between two steps of a turn).
    fn learn(&mut self, steps: impl IntoIterator<Item = Step>, fx: &mut Effects) {
        // The model gets the texts before the next step of the turn. If the agent is idle, it
        // starts a turn for the texts.
        self.told.extend(steps);
        self.proceed_when_idle(fx);
    }

    /// Records the end of teammates, and marks their shutdown approvals as delivered. If the
    /// conversation already contains all these ends, the agent does not start a turn.
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

    /// Reports the agent's state if it changed. The start of work is reported before all other
    /// effects: an observer must see it before any mail is marked as read. Any other state is
    /// reported after all other effects.
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

    /// Enters a boundary (the moment between two steps of a turn), where the inbox is read. An
    /// agent without an inbox continues at once.
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

    /// The agent is at a boundary (the moment between two steps of a turn), and the inbox was read.
    /// Continues with the next step.
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
            // Do not deliver the waiting mail now. It is delivered after the summary.
            return self.compact(None, fx);
        }
        // If the agent is about to end, its model is not called again. Texts that the model has not
        // read must stay unread. Otherwise their senders would believe that the model read them.
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
                // Somebody woke the agent, but it has nothing to do. It reports its state again.
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
        // After a good answer, the model can be asked again about a later faulty answer.
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
        self.compact_at_rest(fx);
    }

    pub(super) fn send_idle(&self, cause: IdleCause, fx: &mut Effects) {
        fx.push(Effect::SendIdle(IdleReport { cause, result: self.conversation.last_text() }));
    }

    /// Ends the agent. The transcript of a lead gets no end mark, because a resumed team continues
    /// that transcript.
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

    /// Adds steps to the conversation in memory and to the transcript on disk.
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
