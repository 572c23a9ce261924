//! Adds the steps of a transcript to a conversation.

use pitcrew_agent::transcript::{Grant, Step};
use pitcrew_model::Block;

use super::{Conversation, Part, Permission};
use crate::wording::short;

impl Conversation {
    pub(crate) fn add_step(&mut self, step: &Step) {
        match step {
            Step::Told { text } => self.tell(text),
            Step::Instructed { text } => self.parts.push(Part::Prompt { text: text.clone() }),
            Step::Mail { ids, text } => {
                let known = self.delivered.len();
                self.delivered.extend(ids.iter().cloned());
                // After a crash, a transcript can contain a message twice. The model got it once.
                if self.delivered.len() > known {
                    self.tell(text);
                }
            }
            Step::Parted { text, .. } | Step::Rejoined { text, .. } => self.tell(text),
            Step::TeamMade => self.event("made another team"),
            Step::Assistant { blocks, fault, .. } => {
                blocks.iter().for_each(|block| self.answer(block));
                if let Some(fault) = fault {
                    self.event(fault.in_words());
                }
            }
            Step::Replaced { call, input } => self.replaced(call, input),
            Step::Began { .. } | Step::Rested => {}
            Step::Asked { call, .. } => self.permission(call, Permission::Asked),
            Step::Granted { call, grant, .. } => self.permission(
                call,
                match grant {
                    Grant::Allowed { .. } => Permission::Allowed,
                    Grant::Denied { reason } => Permission::Denied(reason.clone()),
                },
            ),
            Step::Result { call, text, is_error, context, .. } => {
                self.result(call, text.clone(), *is_error);
                context.iter().for_each(|text| self.tell(text));
            }
            Step::PlanSent { .. } => self.event("handed in its plan"),
            Step::PlanAnswered { .. } => self.event("got an answer to its plan"),
            Step::ShutdownAsked { .. } => self.event("was asked to shut down"),
            Step::ShutdownRefused => self.event("did not shut down"),
            Step::Cut { keep } => {
                self.event(format!("older results were removed for the model: {keep} are left"));
            }
            Step::Shortened { most } => {
                self.event(format!("new texts were shortened for the model to {most} characters"));
            }
            Step::Compacted { briefing, summary, usage, .. } => {
                self.open.clear();
                let tokens = short(usage.context_tokens());
                self.event(format!("a summary was made of {tokens} tokens"));
                let briefing = Some(briefing.clone()).filter(|text| !text.is_empty());
                self.parts.push(Part::Summary { text: summary.clone(), briefing });
            }
            Step::NotCompacted { .. } => self.event("a summary was made and not used"),
            Step::Ended { status, reason } => {
                self.parts.push(Part::Ended { status: *status, reason: reason.clone() });
            }
        }
    }

    /// Adds a block of a model's answer.
    pub(super) fn answer(&mut self, block: &Block) {
        match block {
            Block::Text { text, .. } if !text.trim().is_empty() => {
                self.parts.push(Part::Text { text: text.clone() });
            }
            Block::Thinking { thinking, .. } if !thinking.trim().is_empty() => {
                self.parts.push(Part::Thinking { text: thinking.clone() });
            }
            Block::ToolUse { id, name, input, .. } => self.call(id, name, input),
            Block::Text { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolResult { .. }
            | Block::Image { .. }
            | Block::Other(_) => {}
        }
    }

    fn permission(&mut self, call: &str, permission: Permission) {
        if let Some(call) = self.open_call(call) {
            call.permission = Some(permission);
        }
    }
}
