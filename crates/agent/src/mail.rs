//! Classifies mail for an agent: which messages its model reads, which start a turn, and which are
//! handled without the model.

use pitcrew_protocol::{Frame, MessageId, PermissionMode, PermissionResponse};
use serde_json::Value;

use super::Role;
use crate::Digest;
use crate::transcript::Grant;

/// One message from an inbox.
///
/// `team` has already checked that the sender may send such a frame. A frame that the sender may
/// not send arrives as plain text.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// The id of the message.
    pub id: MessageId,
    /// The sender.
    pub from: String,
    /// The text for the model, with its tags.
    pub rendered: String,
    /// The frame in the message, if any.
    pub frame: Option<Frame>,
}

/// The way an agent handles a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// The model reads the message at the next boundary between two steps. An idle agent starts a
    /// turn for the message.
    Read,
    /// The model reads the message in the next turn, but the message does not start a turn.
    Fold,
    /// A permission question was answered.
    Permission {
        /// The id of the request.
        request: String,
        /// The answer.
        grant: Grant,
        /// The digest of the call that the lead answered about, if the lead sent a digest.
        digest: Option<Digest>,
    },
    /// A plan was answered. The model reads the answer too.
    Plan {
        /// The id of the request.
        request: String,
        /// The agent's new mode, if the plan was approved.
        mode: Option<PermissionMode>,
    },
    /// The agent is asked to shut down. The model reads the request too.
    Shutdown {
        /// The id of the request.
        request: String,
    },
    /// The team's loop handles the message. The model does not read the message.
    Refer,
}

impl Mail {
    /// Whether the message only says that the sender is idle, so that a newer notice of the same
    /// sender replaces it.
    pub(super) fn says_only_idle(&self, role: Role) -> bool {
        let Some(Frame::IdleNotification(idle)) = &self.frame else { return false };
        self.kind(role) == Kind::Fold && idle.completed_task_id.is_none()
    }

    /// Returns how an agent of that role handles the message.
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

/// Parses the wire name of a mode. Returns `None` for `plan`, because an approved plan ends plan
/// mode.
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
