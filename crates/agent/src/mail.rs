//! Decides how an agent handles each message of its mail: whether its model reads the message,
//! whether the message starts a turn, or whether it is handled without the model.

use pitcrew_protocol::{Frame, MessageId, PermissionMode, PermissionResponse};
use serde_json::Value;

use super::Role;
use crate::Digest;
use crate::transcript::Grant;

/// One message from an inbox.
///
/// The crate `team` has already checked whether the sender is allowed to send the frame in the
/// message. If the sender is not allowed to send it, the message arrives here as plain text.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// The id of the message.
    pub id: MessageId,
    /// The name of the sender.
    pub from: String,
    /// The text that the model reads, including the tags around it.
    pub rendered: String,
    /// The protocol frame in the message. `None` if the message is plain text.
    pub frame: Option<Frame>,
}

/// How an agent handles a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// The model reads the message at the next boundary between two steps of a turn. If the agent
    /// is idle, it starts a turn for the message.
    Read,
    /// The model reads the message at the next boundary between two steps of a turn. If the agent
    /// is idle, the message does not start a turn.
    Fold,
    /// The message answers a permission request.
    Permission {
        /// The id of the permission request.
        request: String,
        /// The answer to the permission request.
        grant: Grant,
        /// The digest of the tool call for which the lead gave the answer. `None` if the lead sent
        /// no digest.
        digest: Option<Digest>,
    },
    /// The message answers a plan of this agent. The model reads the answer too.
    Plan {
        /// The id of the plan approval request.
        request: String,
        /// The agent's new permission mode if the plan was approved.
        mode: Option<PermissionMode>,
    },
    /// The message asks the agent to shut down. The model reads the request too.
    Shutdown {
        /// The id of the shutdown request.
        request: String,
    },
    /// The loop that runs the team handles the message. The model does not read the message.
    Refer,
}

impl Mail {
    /// Whether the message says nothing except that the sender is idle. A newer notice of the same
    /// sender then replaces the message.
    pub(super) fn says_only_idle(&self, role: Role) -> bool {
        let Some(Frame::IdleNotification(idle)) = &self.frame else { return false };
        self.kind(role) == Kind::Fold && idle.completed_task_id.is_none()
    }

    /// Returns how an agent with this role handles the message.
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

/// Returns the permission mode with this name. Returns `None` for `plan`, because an approved plan
/// ends plan mode.
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
