//! The inbox of an agent. Mail is sorted when it is read, waits for the next boundary between two
//! steps of a turn, and is delivered there.
//!
//! The module `mail` classifies single messages.

use pitcrew_protocol::MessageId;

use super::machine::Agent;
use super::mail::Kind;
use super::{Effect, Effects, Mail, Role};
use crate::transcript::Step;

/// Number of superseded notices that are marked as read at once, because each marking rewrites the
/// whole inbox.
const SUPERSEDED_AT_ONCE: usize = 32;

impl Agent {
    /// Requests the inbox, because there may be mail. An agent between turns whose team has no lead
    /// reads its mail later.
    pub(super) fn mail_waits(&self, fx: &mut Effects) {
        if self.profile.role != Role::Subagent && !self.is_at_rest() {
            fx.push(Effect::TakeMail);
        }
    }

    pub(super) fn mail_arrived(&mut self, mail: Vec<Mail>, fx: &mut Effects) {
        let phase = self.phase;
        self.sort(mail, fx);
        // A permission answer among the mail may have led to a boundary. There the inbox is read
        // again.
        if self.phase == phase {
            self.proceed(fx);
        }
    }

    /// Handles mail that is for the state machine, and keeps the rest for the next boundary.
    fn sort(&mut self, mail: Vec<Mail>, fx: &mut Effects) {
        for mail in mail {
            if self.conversation.holds(&mail.id) {
                // The message was delivered before a crash, but not yet marked as read.
                fx.push(Effect::Acknowledge(vec![mail.id]));
                continue;
            }
            if self.waiting.contains(&mail.id) {
                continue;
            }
            match mail.kind(self.profile.role) {
                // A crash interrupted the call that sends the plan. The call is repeated, and only
                // then is it known which answer belongs to it.
                Kind::Plan { request, .. } if self.may_yet_send_plan(&request) => {}
                kind @ (Kind::Read | Kind::Fold | Kind::Plan { .. } | Kind::Shutdown { .. }) => {
                    if kind == Kind::Fold {
                        self.supersede(&mail.from, fx);
                    }
                    self.waiting.insert(mail.id.clone());
                    self.pending.push(mail);
                }
                Kind::Permission { request, grant, digest } => match self.call_asked_in(&request) {
                    Some(call) => {
                        let grant = self.if_for(&call, grant, digest.as_ref());
                        self.granted(&call, vec![mail.id], grant, fx);
                    }
                    None if self.may_yet_ask() => self.has_early_answer = true,
                    None => self.pass_over(mail.id, fx),
                },
                Kind::Refer => {
                    if self.referred.insert(mail.id.clone()) {
                        fx.push(Effect::Refer(mail));
                    }
                }
            }
        }
    }

    /// Drops older idle notices of a sender when a newer one arrives. An idle lead can receive
    /// thousands of notices before its next turn. Every new message rewrites the inbox with all
    /// unread notices.
    fn supersede(&mut self, sender: &str, fx: &mut Effects) {
        let role = self.profile.role;
        let superseded = &mut self.superseded;
        self.pending.retain(|mail| {
            let is_pointless = mail.from == sender && mail.says_only_idle(role);
            if is_pointless {
                superseded.push(mail.id.clone());
            }
            !is_pointless
        });
        if superseded.len() >= SUPERSEDED_AT_ONCE {
            fx.push(Effect::Acknowledge(std::mem::take(superseded)));
        }
    }

    /// Records a message that the model need not read.
    pub(super) fn pass_over(&mut self, id: MessageId, fx: &mut Effects) {
        self.write(vec![Step::Mail { ids: vec![id.clone()], text: String::new() }], fx);
        fx.push(Effect::Acknowledge(vec![id]));
    }

    pub(super) fn wakes(&self) -> bool {
        if self.is_parked {
            return false;
        }
        let wakes = |mail: &Mail| mail.kind(self.profile.role) != Kind::Fold;
        !self.told.is_empty() || self.pending.iter().any(wakes)
    }

    pub(super) fn has_text_to_read(&self) -> bool {
        self.pending.iter().any(|mail| mail.kind(self.profile.role) == Kind::Read)
    }

    /// Adds as much pending mail to the conversation as fits. The steps are written first, then the
    /// mail is marked as read. The rest of the mail stays unread until the next boundary.
    pub(super) fn deliver(&mut self, fx: &mut Effects) {
        // After the agent approved its shutdown, its model is not called again. Mail that it has
        // not read stays unread and counts as undelivered.
        if self.is_parked || self.is_agreeing_to_shut_down() {
            return;
        }
        let mut steps = Vec::new();
        let mut ids = Vec::new();
        for step in self.told.drain(..) {
            if let Step::Parted { ids: answered, .. } = &step {
                ids.extend(answered.iter().cloned());
            }
            steps.push(step);
        }
        let later = self.pending.split_off(self.mail_that_fits());
        let pending = std::mem::replace(&mut self.pending, later);
        let fresh: Vec<MessageId> = pending.iter().map(|mail| mail.id.clone()).collect();
        self.waiting.retain(|id| !fresh.contains(id));
        ids.extend(fresh.iter().cloned());
        ids.append(&mut self.superseded);
        for mail in &pending {
            match mail.kind(self.profile.role) {
                Kind::Plan { request, mode } => {
                    if let Some(mode) =
                        mode.filter(|_| self.conversation.plan() == Some(request.as_str()))
                    {
                        self.mode = mode;
                        // Store the mode before the delivery. After a crash in between, the mail
                        // arrives again and sets the mode again.
                        fx.push(Effect::SetMode(mode));
                    }
                    steps.push(Step::PlanAnswered { request });
                }
                Kind::Shutdown { request } => steps.push(Step::ShutdownAsked { request }),
                Kind::Read | Kind::Fold | Kind::Permission { .. } | Kind::Refer => {}
            }
        }
        if !fresh.is_empty() {
            let texts: Vec<&str> = pending.iter().map(|mail| mail.rendered.as_str()).collect();
            steps.push(Step::Mail { ids: fresh, text: texts.join("\n\n") });
        }
        self.write(steps, fx);
        if !ids.is_empty() {
            fx.push(Effect::Acknowledge(ids));
        }
    }
}
