//! Mail as an agent takes it: which messages its model is to read, which wake it, and which are for the machine alone.

use pitcrew_protocol::{Frame, MessageId, PermissionMode, PermissionResponse};
use serde_json::Value;

use super::Role;
use crate::Digest;
use crate::transcript::Grant;

/// A message out of an inbox.
///
/// Whether its sender may send such a frame was checked by `team`; a frame that nobody may send comes as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// The message.
    pub id: MessageId,
    /// Who sent it.
    pub from: String,
    /// What the model would read of it, tag and all.
    pub rendered: String,
    /// The frame it holds.
    pub frame: Option<Frame>,
}

/// What an agent does with a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// The model reads it, at the next boundary or at once.
    Read,
    /// The model reads it with the next turn, whatever starts that.
    Fold,
    /// A permission was answered.
    Permission {
        /// The request.
        request: String,
        /// The answer.
        grant: Grant,
        /// The digest of the call that it answers, if the lead says so.
        digest: Option<Digest>,
    },
    /// A plan was answered; the model reads that too.
    Plan {
        /// The request.
        request: String,
        /// The mode the agent works in from now on, if the plan was approved.
        mode: Option<PermissionMode>,
    },
    /// The agent is asked to shut down; the model reads that too.
    Shutdown {
        /// The request.
        request: String,
    },
    /// The crew acts on it, and the model does not read it.
    Refer,
}

impl Mail {
    /// Whether a newer notice of the same sender says all that this one says: that its turn is over.
    pub(super) fn says_only_idle(&self, role: Role) -> bool {
        let Some(Frame::IdleNotification(idle)) = &self.frame else { return false };
        self.kind(role) == Kind::Fold && idle.completed_task_id.is_none()
    }

    /// Tells what an agent of that role does with the message.
    pub(super) fn kind(&self, role: Role) -> Kind {
        let Some(frame) = &self.frame else { return Kind::Read };
        match (role, frame) {
            (Role::Lead, Frame::IdleNotification(idle)) => {
                if idle.idle_reason.as_deref() == Some("failed") || idle.failure_reason.is_some() {
                    Kind::Read
                } else {
                    Kind::Fold
                }
            }
            (Role::Lead, Frame::PermissionRequest(_) | Frame::ShutdownApproved(_)) => Kind::Refer,
            (Role::Lead, Frame::ShutdownResponse(response)) if response.approved => Kind::Refer,
            (Role::Teammate, Frame::PermissionResponse(response)) => {
                let digest = body_field(response, "digest").and_then(Value::as_str);
                let digest = digest.map(|digits| Digest::from(digits.to_owned()));
                Kind::Permission {
                    request: response.request_id.clone(),
                    grant: grant(response),
                    digest,
                }
            }
            (Role::Teammate, Frame::PlanApprovalResponse(response)) => {
                let mode =
                    response.permission_mode.as_deref().and_then(mode_named).unwrap_or_default();
                Kind::Plan {
                    request: response.request_id.clone(),
                    mode: response.approved.then_some(mode),
                }
            }
            (Role::Teammate, Frame::ShutdownRequest(request)) => {
                Kind::Shutdown { request: request.request_id.clone() }
            }
            (
                Role::Lead | Role::Teammate | Role::Subagent,
                Frame::IdleNotification(_)
                | Frame::TaskAssignment(_)
                | Frame::TaskCompleted(_)
                | Frame::ShutdownRequest(_)
                | Frame::ShutdownApproved(_)
                | Frame::ShutdownRejected(_)
                | Frame::ShutdownResponse(_)
                | Frame::PlanApprovalRequest(_)
                | Frame::PlanApprovalResponse(_)
                | Frame::PermissionRequest(_)
                | Frame::PermissionResponse(_)
                | Frame::TeammateTerminated(_),
            ) => Kind::Read,
        }
    }
}

/// Reads a mode as the wire names it; `plan` is none to go on in.
fn mode_named(name: &str) -> Option<PermissionMode> {
    PermissionMode::named(name).filter(|mode| *mode != PermissionMode::Plan)
}

fn grant(response: &PermissionResponse) -> Grant {
    if response.subtype != "success" {
        let reason = response.error.clone().unwrap_or_else(|| "no reason was given".to_owned());
        return Grant::Denied { reason };
    }
    let updates = body_field(response, "permission_updates")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let input = body_field(response, "updated_input").filter(|input| input.is_object()).cloned();
    Grant::Allowed { input, updates }
}

fn body_field<'a>(response: &'a PermissionResponse, name: &str) -> Option<&'a Value> {
    response.response.as_ref()?.get(name)
}
