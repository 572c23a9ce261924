//! Interruptions of an agent: a person interrupts the turn, the team has no lead, the run is being
//! stopped, or the model is unavailable.

use std::time::Duration;

use pitcrew_protocol::Status;
use serde_json::Value;

use super::compact::Compacting;
use super::machine::{Agent, Phase};
use super::{Answerer, Effect, Effects, Ending, IdleCause, Role, Settlement};
use crate::transcript::{Step, ToolCall};

/// The text for the model after a turn was interrupted. The reference client (Claude Code) uses the
/// same text.
const CUT_OFF: &str = "[Request interrupted by user]";

/// The result of a tool call in an interrupted turn. The reference client (Claude Code) uses the
/// same text.
const CALL_CUT_OFF: &str = "[Request interrupted by user for tool use]";

/// The reason why a permission request needs no answer any more: its turn was interrupted.
const NOBODY_ASKS: &str = "the user interrupted the turn";

impl Agent {
    /// Whether the agent reads no mail now. This is so if the agent is between two turns and the
    /// team has no lead.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_parked && matches!(self.phase, Phase::Pending | Phase::Idle)
    }

    /// Handles the event that the team has a lead again. An idle agent reads the mail that arrived
    /// while the team had no lead.
    pub(super) fn unparked(&mut self, fx: &mut Effects) {
        self.is_parked = false;
        if self.phase == Phase::Idle {
            fx.push(Effect::TakeMail);
        }
    }

    /// Ends the turn at once. Running work is cancelled, and each open tool call gets a result that
    /// says so.
    pub(super) fn interrupted(&mut self, fx: &mut Effects) {
        match self.phase {
            Phase::Pending | Phase::Idle | Phase::Over(_) => return,
            Phase::Boundary
            | Phase::TurnEnd
            | Phase::Thinking
            | Phase::Compacting
            | Phase::Calling
            | Phase::Resting => {}
        }
        // A subagent ignores the interruption. Its only turn is the turn for which its caller
        // waits. When the caller's tool call is cancelled, the subagent is cancelled too.
        if self.profile.role == Role::Subagent {
            return;
        }
        fx.push(Effect::CutOff);
        if self.is_compacting_at_rest() {
            // There is no turn to end. The conversation stays as it was.
            self.compacting = Compacting::default();
            return self.boundary(Phase::Idle, fx);
        }
        // The cancelled tool calls are no longer in `stages`. Results that arrive later are
        // ignored.
        self.stages.clear();
        self.remarks.clear();
        let open: Vec<_> =
            self.conversation.open_calls().iter().map(|open| open.call.clone()).collect();
        let had_calls = !open.is_empty();
        for call in open {
            let request = self.asked_for(&call.id).map(|request| (request, call.id.clone()));
            self.cut_off(call, fx);
            if let Some((request, call)) = request {
                let refused = Some(NOBODY_ASKS.to_owned());
                fx.push(Effect::Settle(Settlement { call, request, by: Answerer::Here, refused }));
            }
        }
        if !had_calls {
            self.write(vec![Step::Told { text: CUT_OFF.to_owned() }], fx);
        }
        self.fall_idle(IdleCause::Interrupted, fx);
        // Mail that waited for the next boundary of the interrupted turn starts a new turn.
        self.proceed_when_idle(fx);
    }

    /// Cancels running work, because the run is being stopped. The transcript stays as after a
    /// crash: it contains no result of the cancelled work. A resumed agent continues from the
    /// transcript.
    pub(super) fn held(&mut self, fx: &mut Effects) {
        self.is_held = true;
        fx.push(Effect::CutOff);
    }

    /// Stops the turn because the model is unavailable. The conversation still waits for the
    /// model's answer.
    ///
    /// A lead stops, and its run ends. The next run makes the model call again. A teammate stays in
    /// the team and becomes idle. Its lead gets the reason. When the teammate gets its next
    /// message, it calls its model again. A subagent ends, and its caller gets the reason.
    pub(super) fn model_unavailable(
        &mut self,
        reason: String,
        retry_after: Option<Duration>,
        fx: &mut Effects,
    ) {
        self.compacting = Compacting::default();
        match self.profile.role {
            Role::Lead => {
                self.phase = Phase::Over(Status::Parked);
                self.announced = Status::Parked;
                fx.push(Effect::Park { reason, retry_after });
            }
            Role::Teammate => {
                self.phase = Phase::Idle;
                let reason = format!(
                    "{reason}. It is still on the team, and tries again when it gets a message"
                );
                self.send_idle(IdleCause::Failed(reason), fx);
                self.proceed_when_idle(fx);
            }
            Role::Subagent => self.finish(Status::Failed, Some(reason), fx),
        }
    }

    fn cut_off(&mut self, call: ToolCall, fx: &mut Effects) {
        let text = CALL_CUT_OFF.to_owned();
        self.write(
            vec![Step::Result {
                call: call.id.clone(),
                text: text.clone(),
                is_error: true,
                context: Vec::new(),
                seen: Vec::new(),
            }],
            fx,
        );
        let data = Value::String(format!("Error: {text}"));
        fx.push(Effect::Report(
            call,
            Ending { text, data, is_error: true, context: Vec::new(), seen: Vec::new() },
        ));
    }
}

#[cfg(test)]
mod tests;
