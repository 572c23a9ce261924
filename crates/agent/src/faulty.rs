//! Handles faulty answers of a model. If a teammate's answer was cut off or empty, its model is
//! asked once more. If the second answer is cut off too, or if the model refused to answer, the
//! lead is informed.
//!
//! The model of a lead is not asked again here, because a lead is allowed to stay silent while its
//! teammates work. The loop that runs the team asks the lead's model for a better answer at the end
//! of the run.

use super::machine::{Agent, Phase};
use super::{Effects, IdleCause, Role};
use crate::transcript::{AnswerFault, Step};

/// The text for the model after its answer was cut off.
const CUT_OFF: &str = "<system-reminder>\nYour last answer was cut off at its greatest length. Give it again, whole and \
    shorter.\n</system-reminder>";

/// The text for the model after its answer was empty.
const EMPTY: &str = "<system-reminder>\nYour last answer has no text. Go on with your work; if it is done, say what came \
    of it.\n</system-reminder>";

impl Agent {
    /// If the model's last answer is faulty, asks the model for a better answer, but only once. In
    /// all other cases, ends the turn.
    pub(super) fn rest_or_answer_again(&mut self, fx: &mut Effects) {
        match self.to_ask_again() {
            Some(text) if !std::mem::replace(&mut self.was_asked_again, true) => {
                self.write(vec![Step::Told { text: text.to_owned() }], fx);
                self.boundary(Phase::Boundary, fx);
            }
            Some(_) | None => self.rest(fx),
        }
    }

    fn to_ask_again(&self) -> Option<&'static str> {
        match self.conversation.answer_fault()? {
            _ if self.profile.role == Role::Lead => None,
            AnswerFault::Truncated => Some(CUT_OFF),
            // If the agent has just sent a message, it has already reported its result.
            AnswerFault::Empty => (!self.has_just_sent()).then_some(EMPTY),
            // A model that refused to answer would refuse again. Do not ask it again.
            AnswerFault::Refused => None,
        }
    }

    /// Returns the reason why the agent becomes idle, which can be a faulty answer.
    pub(super) fn cause_of_rest(&self) -> IdleCause {
        match self.conversation.answer_fault() {
            Some(fault @ (AnswerFault::Truncated | AnswerFault::Refused)) => {
                IdleCause::BadAnswer(fault)
            }
            // An empty answer is not reported. The agent has just sent a message with its result,
            // or its model was asked again and has nothing to say. The turn has ended normally.
            Some(AnswerFault::Empty) | None => IdleCause::TurnOver,
        }
    }
}

#[cfg(test)]
mod tests {
    use pitcrew_model::{Block, Response, StopReason, Usage};

    use super::super::Event;
    use super::super::tests::{Play, allowed, answer, calls, done, mail, says};

    fn cut_off() -> Event {
        let response = Response {
            id: "msg".to_owned(),
            model: "scripted".to_owned(),
            blocks: vec![Block::text("It is do")],
            stop: StopReason::MaxTokens,
            usage: Usage::default(),
        };
        Event::ModelFinished { response, cost_usd: None }
    }

    #[test]
    fn a_teammate_is_asked_once_more_for_an_answer_that_was_cut_off_or_is_empty() {
        for faulty in [cut_off(), answer(Vec::new())] {
            let mut play = Play::teammate();
            play.then(faulty, &["write assistant", "take mail"])
                .then(mail(&[]), &["write told", "take mail"])
                .then(mail(&[]), &["call model"])
                .then(says("It is done."), &["write assistant", "take mail"])
                .then(mail(&[]), &["end turn"])
                .then(
                    Event::HookAnswered { keep_going: None },
                    &["send idle available: It is done.", "write rested", "announce idle"],
                );
        }
    }

    #[test]
    fn a_teammate_that_has_sent_a_message_needs_no_word_more() {
        let mut play = Play::teammate();
        play.then(calls(&[("a", "SendMessage")]), &["write assistant", "take mail"])
            .then(mail(&[]), &["judge a in default"])
            .then(allowed("a"), &["run a {}"])
            .then(done("a"), &["write result", "report a done", "take mail"])
            .then(mail(&[]), &["call model"])
            .then(answer(Vec::new()), &["write assistant", "take mail"])
            .then(mail(&[]), &["end turn"])
            .then(
                Event::HookAnswered { keep_going: None },
                &["send idle available: nothing", "write rested", "announce idle"],
            );
    }

    #[test]
    fn a_lead_learns_that_a_teammate_has_no_whole_answer() {
        let mut play = Play::teammate();
        play.then(cut_off(), &["write assistant", "take mail"])
            .then(mail(&[]), &["write told", "take mail"])
            .then(mail(&[]), &["call model"])
            .then(cut_off(), &["write assistant", "take mail"])
            .then(mail(&[]), &["end turn"])
            .then(
                Event::HookAnswered { keep_going: None },
                &[
                    "send idle the last answer was cut off at its greatest length: It is do",
                    "write rested",
                    "announce idle",
                ],
            )
            // New mail starts another turn. Its answer has no fault, and so the turn ends without
            // another request for a better answer.
            .then(
                mail(&[("m1", "go on")]),
                &["announce running", "write mail", "acknowledge m1", "call model"],
            )
            .then(says("I do."), &["write assistant", "take mail"])
            .then(mail(&[]), &["end turn"]);
    }
}
