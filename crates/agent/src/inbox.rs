//! The inbox of an agent. When the inbox is read, mail for the state machine is handled at once.
//! Mail for the model waits for the next boundary (the moment between two steps of a turn), and is
//! delivered at that boundary.
//!
//! The module `mail` decides how a single message is handled.

use pitcrew_protocol::MessageId;

use super::machine::Agent;
use super::mail::Kind;
use super::{Effect, Effects, Mail, Role};
use crate::transcript::Step;

/// The number of replaced idle notices that are marked as read together. They are collected,
/// because each marking rewrites the whole inbox.
const SUPERSEDED_AT_ONCE: usize = 32;

impl Agent {
    /// Asks for the content of the inbox, because there is possibly new mail. If the team has no
    /// lead, an agent between two turns does not ask.
    pub(super) fn mail_waits(&self, fx: &mut Effects) {
        if self.profile.role != Role::Subagent && !self.is_at_rest() {
            fx.push(Effect::TakeMail);
        }
    }

    pub(super) fn mail_arrived(&mut self, mail: Vec<Mail>, fx: &mut Effects) {
        let phase = self.phase;
        self.sort(mail, fx);
        // If the mail contained a permission answer, the agent has possibly entered another phase.
        // The inbox is then read again in the new phase.
        if self.phase == phase {
            self.proceed(fx);
        }
    }

    /// Handles mail for the state machine at once. Keeps mail for the model until the next boundary
    /// (the moment between two steps of a turn).
    fn sort(&mut self, mail: Vec<Mail>, fx: &mut Effects) {
        for mail in mail {
            if self.conversation.holds(&mail.id) {
                // The message was delivered before a crash. Only the read mark is missing.
                fx.push(Effect::Acknowledge(vec![mail.id]));
                continue;
            }
            if self.waiting.contains(&mail.id) {
                continue;
            }
            match mail.kind(self.profile.role) {
                // The message answers a plan. A crash interrupted the call that sends a plan, and
                // this call will be made again. Before the call has a result, the agent does not
                // know whether the answer belongs to its plan. The answer stays unread until then.
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

    /// Drops the older idle notices of a sender when a newer notice arrives. An idle lead can
    /// receive thousands of notices before its next turn. If they all stayed unread, every new
    /// message would rewrite an inbox with all of them.
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

    /// The model need not read the message with this id. Records the message as delivered, and
    /// marks it as read.
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

    /// Adds texts for the model to the conversation: the texts in `told`, and as much of the
    /// waiting mail as fits. Writes these texts to the transcript first, and then marks the
    /// delivered mail as read. Other mail stays unread until the next boundary (the moment between
    /// two steps of a turn).
    pub(super) fn deliver(&mut self, fx: &mut Effects) {
        // After the agent approved its shutdown, its model is not called again. Mail that the model
        // has not read stays unread and counts as undelivered.
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
                        // Store the mode before the delivery. If a crash happens in between, the
                        // same mail arrives again and sets the mode again.
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
