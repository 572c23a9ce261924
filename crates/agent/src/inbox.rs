//! The inbox of an agent: its mail is sorted when it is read, waits for a boundary, and is delivered there.
//!
//! What a single message means is in `mail`.

use pitcrew_protocol::MessageId;

use super::machine::Agent;
use super::mail::Kind;
use super::{Effect, Effects, Mail, Role};
use crate::transcript::Step;

/// How many superseded notices are marked read at once: each marking writes the whole inbox.
const SUPERSEDED_AT_ONCE: usize = 32;

impl Agent {
    /// Learns that there may be mail. An agent at rest reads it when it starts again.
    pub(super) fn mail_waits(&self, fx: &mut Effects) {
        if self.profile.role != Role::Subagent && !self.is_at_rest() {
            fx.push(Effect::TakeMail);
        }
    }

    pub(super) fn mail_arrived(&mut self, mail: Vec<Mail>, fx: &mut Effects) {
        let phase = self.phase;
        self.sort(mail, fx);
        // An answer among the mail may have brought the agent to a boundary, where the inbox is read anew.
        if self.phase == phase {
            self.proceed(fx);
        }
    }

    /// Acts on what is for the machine at once, and keeps the rest for the next boundary.
    fn sort(&mut self, mail: Vec<Mail>, fx: &mut Effects) {
        for mail in mail {
            if self.conversation.holds(&mail.id) {
                // Delivered before a crash that came before it was marked read.
                fx.push(Effect::Acknowledge(vec![mail.id]));
                continue;
            }
            if self.waiting.contains(&mail.id) {
                continue;
            }
            match mail.kind(self.profile.role) {
                // A call that a crash cut off is made again, and only then it is known which answer is its.
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

    /// Drops the notices of a sender that a newer one makes pointless. A lead at rest is sent thousands of them before its
    /// next turn, and each would be written again with every message that comes in.
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

    /// Takes note of a message that the model has no use for.
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

    /// Puts into the conversation what waits for it and fits: written first, then marked read. The rest stays unread until the
    /// next boundary.
    pub(super) fn deliver(&mut self, fx: &mut Effects) {
        // After it has agreed to shut down the model is not called again: what it has not read is left unread, and is dead.
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
                        // Before the delivery: after a crash in between, the mail comes again and sets it again.
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
