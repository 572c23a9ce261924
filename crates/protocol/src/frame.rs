//! Protocol frames: JSON objects in the text of a message.
//!
//! Source: the inboxes below `fixtures/`, the wire format's table of frames, and the message system document for the
//! older forms. A text is a frame only if it starts with `{`, parses, and its `type` is known; otherwise it is text.

use serde::Deserialize;
use serde_json::Value;

use crate::wire::wire_object;

wire_object! {
    /// A teammate has ended its turn.
    pub struct IdleNotification {
        /// Always `idle_notification`.
        pub kind: String => "type" req,
        /// The teammate's name.
        pub from: String => "from" req,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// `available`, `interrupted` or `failed`.
        pub idle_reason: String => "idleReason" opt,
        /// What it did, in a few words.
        pub summary: String => "summary" opt,
        /// The task it completed in the turn.
        pub completed_task_id: String => "completedTaskId" opt,
        /// How that task ended.
        pub completed_status: String => "completedStatus" opt,
        /// Why the turn failed.
        pub failure_reason: String => "failureReason" opt,
        /// Session dialect: the turn's last text.
        pub result: String => "result" opt,
    }
}

wire_object! {
    /// A task was given to the receiver.
    pub struct TaskAssignment {
        /// Always `task_assignment`.
        pub kind: String => "type" req,
        /// The task's id.
        pub task_id: String => "taskId" req,
        /// Its title.
        pub subject: String => "subject" opt,
        /// What is to be done.
        pub description: String => "description" opt,
        /// Who gave it.
        pub assigned_by: String => "assignedBy" opt,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// A task was completed.
    pub struct TaskCompleted {
        /// Always `task_completed`.
        pub kind: String => "type" req,
        /// Who completed it.
        pub from: String => "from" req,
        /// The task's id.
        pub task_id: String => "taskId" req,
        /// Its title.
        pub task_subject: String => "taskSubject" opt,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// The receiver is asked to shut down.
    pub struct ShutdownRequest {
        /// Always `shutdown_request`.
        pub kind: String => "type" req,
        /// `shutdown-<ms>@<name>`, with a random part of ours before the `@`.
        pub request_id: String => "requestId" req,
        /// Who asks.
        pub from: String => "from" opt,
        /// Why.
        pub reason: String => "reason" opt,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// The sender agrees to shut down, and ends.
    pub struct ShutdownApproved {
        /// Always `shutdown_approved`.
        pub kind: String => "type" req,
        /// The request it answers.
        pub request_id: String => "requestId" req,
        /// Who ends.
        pub from: String => "from" opt,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// The pane to close.
        pub pane_id: String => "paneId" opt,
        /// What runs the sender.
        pub backend_type: String => "backendType" opt,
    }
}

wire_object! {
    /// The sender goes on working.
    pub struct ShutdownRejected {
        /// Always `shutdown_rejected`.
        pub kind: String => "type" req,
        /// The request it answers.
        pub request_id: String => "requestId" req,
        /// Who goes on.
        pub from: String => "from" opt,
        /// Why.
        pub reason: String => "reason" opt,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// The older form of the two answers to a shutdown request: read, never written.
    pub struct ShutdownResponse {
        /// Always `shutdown_response`.
        pub kind: String => "type" req,
        /// The request it answers.
        pub request_id: String => "requestId" req,
        /// Whether the sender ends.
        pub approved: bool => "approved" req,
        /// Why not.
        pub content: String => "content" opt,
    }
}

wire_object! {
    /// A teammate in plan mode asks its lead to approve a plan.
    pub struct PlanApprovalRequest {
        /// Always `plan_approval_request`.
        pub kind: String => "type" req,
        /// Who asks.
        pub from: String => "from" req,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// Where the plan stands.
        pub plan_file_path: String => "planFilePath" opt,
        /// The plan.
        pub plan_content: String => "planContent" opt,
        /// The older form of the two plan fields.
        pub plan: String => "plan" opt,
        /// `plan_approval-<ms>@<agent>@<team>`, with a random part of ours before the first `@`.
        pub request_id: String => "requestId" req,
    }
}

wire_object! {
    /// The lead's answer to a plan.
    pub struct PlanApprovalResponse {
        /// Always `plan_approval_response`.
        pub kind: String => "type" req,
        /// The request it answers.
        pub request_id: String => "requestId" req,
        /// Whether the plan may be carried out.
        pub approved: bool => "approved" req,
        /// What is to be changed.
        pub feedback: String => "feedback" opt,
        /// When, ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// On approval: the mode to go on in.
        pub permission_mode: String => "permissionMode" opt,
    }
}

wire_object! {
    /// A teammate asks its lead for leave to call a tool.
    pub struct PermissionRequest {
        /// Always `permission_request`.
        pub kind: String => "type" req,
        /// `perm-<ms>-<7 base36>`, with more random digits of ours.
        pub request_id: String => "request_id" req,
        /// The name of who asks.
        pub agent_id: String => "agent_id" req,
        /// The tool.
        pub tool_name: String => "tool_name" req,
        /// The call.
        pub tool_use_id: String => "tool_use_id" opt,
        /// What the call is for.
        pub description: String => "description" opt,
        /// The call's input.
        pub input: Value => "input" opt,
        /// What would allow it from now on.
        pub permission_suggestions: Vec<Value> => "permission_suggestions" opt,
    }
}

wire_object! {
    /// The lead's answer to a permission request.
    pub struct PermissionResponse {
        /// Always `permission_response`.
        pub kind: String => "type" req,
        /// The request it answers.
        pub request_id: String => "request_id" req,
        /// `success` or `error`.
        pub subtype: String => "subtype" req,
        /// The call it is about; from 2.1.330 on (`fixtures/claude-2.1.330/session-team`).
        pub tool_use_id: String => "tool_use_id" opt,
        /// What was approved: `tool_use_id`, `tool_name` and `input_digest`; from 2.1.330 on.
        pub approved_request: Value => "approved_request" opt,
        /// On success: `updated_input` and `permission_updates`; the latter may be left out when it is empty.
        pub response: Value => "response" opt,
        /// On error: why not.
        pub error: String => "error" opt,
    }
}

wire_object! {
    /// A teammate has ended; goes into the lead's conversation only, never into a file.
    pub struct TeammateTerminated {
        /// Always `teammate_terminated`.
        pub kind: String => "type" req,
        /// What happened.
        pub message: String => "message" req,
    }
}

macro_rules! frames {
    ($($variant:ident($tag:literal),)*) => {
        /// A protocol frame.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is named after the type that documents it")]
        pub enum Frame {
            $($variant($variant),)*
        }

        $(impl From<$variant> for Frame {
            fn from(frame: $variant) -> Self {
                Self::$variant(frame)
            }
        })*

        impl $($variant {
            /// The `type` of this frame on the wire.
            pub const TYPE: &'static str = $tag;
        } impl)* Frame {
            /// Every kind of frame with the names of its fields, in the recorded order.
            pub(crate) const KINDS: &'static [(&'static str, &'static [&'static str])] = &[$(($tag, $variant::FIELDS)),*];

            /// Tells a frame from a text: `None` is text.
            #[must_use]
            pub fn detect(text: &str) -> Option<Self> {
                #[derive(Deserialize)]
                struct Tag {
                    #[serde(rename = "type")]
                    kind: String,
                }
                if !text.starts_with('{') {
                    return None;
                }
                let tag: Tag = crate::from_text(text).ok()?;
                match tag.kind.as_str() {
                    $($tag => crate::from_text(text).ok().map(Self::$variant),)*
                    _ => None,
                }
            }

            /// The `type` on the wire.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $tag,)*
                }
            }

            /// The frame as the text of a message: compact JSON, fields in the recorded order.
            ///
            /// # Errors
            /// When a value in it cannot be written as JSON.
            pub fn to_text(&self) -> Result<String, serde_json::Error> {
                match self {
                    $(Self::$variant(frame) => serde_json::to_string(frame),)*
                }
            }
        }
    };
}

frames! {
    IdleNotification("idle_notification"),
    TaskAssignment("task_assignment"),
    TaskCompleted("task_completed"),
    ShutdownRequest("shutdown_request"),
    ShutdownApproved("shutdown_approved"),
    ShutdownRejected("shutdown_rejected"),
    ShutdownResponse("shutdown_response"),
    PlanApprovalRequest("plan_approval_request"),
    PlanApprovalResponse("plan_approval_response"),
    PermissionRequest("permission_request"),
    PermissionResponse("permission_response"),
    TeammateTerminated("teammate_terminated"),
}

impl Frame {
    /// When it was made, for the kinds that say it.
    #[must_use]
    pub fn timestamp(&self) -> Option<&str> {
        match self {
            Self::IdleNotification(frame) => frame.timestamp.as_deref(),
            Self::TaskAssignment(frame) => frame.timestamp.as_deref(),
            Self::TaskCompleted(frame) => frame.timestamp.as_deref(),
            Self::ShutdownRequest(frame) => frame.timestamp.as_deref(),
            Self::ShutdownApproved(frame) => frame.timestamp.as_deref(),
            Self::ShutdownRejected(frame) => frame.timestamp.as_deref(),
            Self::PlanApprovalRequest(frame) => frame.timestamp.as_deref(),
            Self::PlanApprovalResponse(frame) => frame.timestamp.as_deref(),
            Self::ShutdownResponse(_)
            | Self::PermissionRequest(_)
            | Self::PermissionResponse(_)
            | Self::TeammateTerminated(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_frame_only_when_its_type_is_known() {
        for text in [
            "hello",
            " {\"type\":\"shutdown_request\"}",
            "{\"type\":\"other\"}",
            "{",
            "{\"type\":5}",
            "{\"type\":\"shutdown_request\"}",
        ] {
            assert_eq!(Frame::detect(text), None, "{text}");
        }
        let text = r#"{"type":"shutdown_request","requestId":"shutdown-1@w","from":"team-lead","x":{"y":[1.0]}}"#;
        let frame = Frame::detect(text).unwrap();
        assert_eq!(frame.kind(), "shutdown_request");
        assert_eq!(frame.to_text().unwrap(), text);
    }
}
