//! The input of a tool call, as far as the fold needs it.
//!
//! Source: the schemas of the team tools in `protocol`. A client can have parameters that are
//! unknown here. They are skipped.

use std::borrow::Cow;

use pitcrew_protocol::{PermissionMode, StatusChange, TELLING, TaskCreateInput, TaskUpdateInput};

use super::calls::Ask;
use super::json::{Cursor, Field, Fields, Read, fields};
use super::raw::Raw;
use super::tasks::EDGES_MOST;
use crate::state::bounded;

/// The recipient of a message to all members.
const EVERYBODY: &str = "*";

/// The input of a call, and its JSON text. Both are absent if the input is no object.
#[derive(Debug, Default)]
pub(super) struct CallInput<'a> {
    pub(super) input: Input<'a>,
    pub(super) json: Option<&'a str>,
}

impl<'a> Field<'a> for CallInput<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Read<()> {
        cursor.peek();
        let start = cursor.offset();
        *self = Self::default();
        if cursor.object(&mut self.input)? {
            self.json = Some(cursor.since(start)?);
        }
        Ok(())
    }
}

/// The parameters of the team tools, and the most informative parameter of any tool.
#[derive(Debug, Default)]
pub(super) struct Input<'a> {
    /// The most informative text, with its place in [`TELLING`].
    telling: Option<(usize, Raw<'a>)>,
    /// What the team tool of older clients does.
    operation: Raw<'a>,
    // A new agent.
    name: Raw<'a>,
    subagent_type: Raw<'a>,
    model: Raw<'a>,
    mode: Raw<'a>,
    prompt: Raw<'a>,
    // A message, in both dialects.
    kind: Raw<'a>,
    recipient: Raw<'a>,
    content: Raw<'a>,
    to: Raw<'a>,
    message: Raw<'a>,
    // A task.
    task_id: Raw<'a>,
    subject: Raw<'a>,
    description: Raw<'a>,
    active_form: Raw<'a>,
    status: Raw<'a>,
    owner: Raw<'a>,
    add_blocks: Raw<'a>,
    add_blocked_by: Raw<'a>,
}

fields! {
    /// The parameter `message` of a message that is not a plain text.
    struct SpecialMessage<'a> {
        kind: Raw<'a> = "type",
        content: Raw<'a> = "content",
        reason: Raw<'a> = "reason",
        feedback: Raw<'a> = "feedback",
    }
}

impl<'a> Fields<'a> for Input<'a> {
    fn read_field(&mut self, name: &str, cursor: &mut Cursor<'a>) -> Read<()> {
        let value = cursor.raw()?;
        if let Some(rank) = TELLING.iter().position(|telling| *telling == name)
            && value.is_text()
            && self.telling.is_none_or(|(best, _)| rank <= best)
        {
            self.telling = Some((rank, value));
        }
        if let Some(field) = self.field(name) {
            *field = value;
        }
        Ok(())
    }
}

impl<'a> Input<'a> {
    /// Returns the text of the most informative parameter.
    pub(super) fn telling(&self) -> Option<Cow<'a, str>> {
        self.telling.and_then(|(_, text)| text.text())
    }

    /// Whether this is the call of an older client that cleans up the team.
    pub(super) fn is_cleanup(&self) -> bool {
        self.operation.is("cleanup")
    }

    /// Reads the start of an agent.
    pub(super) fn spawn(&self) -> Ask {
        let text = |raw: Raw<'_>| raw.id().map(Cow::into_owned);
        Ask::Spawn {
            name: text(self.name),
            agent_type: text(self.subagent_type),
            model: text(self.model),
            mode: self.mode.text().and_then(|mode| PermissionMode::named(&mode)),
            prompt: self.prompt.text().map(bounded),
        }
    }

    /// Reads a message. Returns `None` if its kind is not known.
    pub(super) fn send(&self) -> Option<Ask> {
        let special: SpecialMessage<'_> = self.message.object().unwrap_or_default();
        let to = self.recipient.text().or_else(|| self.to.text());
        let kind = match self.kind.text().or_else(|| special.kind.text()).as_deref() {
            // Only the dialect with `to` leaves out the kind of a plain text.
            None if !self.to.is_some() => return None,
            None | Some("message") if to.as_deref() == Some(EVERYBODY) => "broadcast",
            None | Some("message") => "message",
            Some("broadcast") => "broadcast",
            Some("shutdown_request") => "shutdown_request",
            Some("shutdown_response") => "shutdown_response",
            Some("plan_approval_response") => "plan_approval_response",
            Some(_) => return None,
        };
        let texts = [self.content, self.message, special.content, special.reason, special.feedback];
        let text = texts.into_iter().find_map(Raw::text).unwrap_or_default();
        Some(Ask::Send { kind, to: to.map(bounded), text: bounded(text) })
    }

    /// Reads a new task. Returns `None` if it has no title.
    pub(super) fn new_task(&self) -> Option<Ask> {
        Some(Ask::CreateTask(TaskCreateInput {
            subject: self.subject.text().map(bounded)?,
            description: self.description.text().map(bounded).unwrap_or_default(),
            active_form: self.active_form.text().map(bounded),
            metadata: None,
        }))
    }

    /// Reads the change of a task. Returns `None` if the task or the status is not known.
    pub(super) fn task_change(&self) -> Option<Ask> {
        let status = match self.status.text() {
            Some(name) => Some(StatusChange::from_name(&name)?),
            None => None,
        };
        Some(Ask::ChangeTask(TaskUpdateInput {
            task_id: self.task_id.id()?.into_owned(),
            subject: self.subject.text().map(bounded),
            description: self.description.text().map(bounded),
            active_form: self.active_form.text().map(bounded),
            status,
            add_blocks: self.add_blocks.ids(EDGES_MOST),
            add_blocked_by: self.add_blocked_by.ids(EDGES_MOST),
            owner: self.owner.text().map(bounded),
            metadata: None,
        }))
    }

    fn field(&mut self, name: &str) -> Option<&mut Raw<'a>> {
        Some(match name {
            "operation" => &mut self.operation,
            "name" => &mut self.name,
            "subagent_type" => &mut self.subagent_type,
            "model" => &mut self.model,
            "mode" => &mut self.mode,
            "prompt" => &mut self.prompt,
            "type" => &mut self.kind,
            "recipient" => &mut self.recipient,
            "content" => &mut self.content,
            "to" => &mut self.to,
            "message" => &mut self.message,
            "taskId" => &mut self.task_id,
            "subject" => &mut self.subject,
            "description" => &mut self.description,
            "activeForm" => &mut self.active_form,
            "status" => &mut self.status,
            "owner" => &mut self.owner,
            "addBlocks" => &mut self.add_blocks,
            "addBlockedBy" => &mut self.add_blocked_by,
            _ => return None,
        })
    }
}
