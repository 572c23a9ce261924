//! Protocol frames: JSON objects in the text of a message.
//!
//! Sources: the inboxes below `fixtures/`, the table of frames in the wire format document, and the
//! message system document for the older forms. A text is a frame only if it starts with `{`,
//! parses as JSON, and has a known `type`. Otherwise it is plain text.

use serde::Deserialize;
use serde_json::Value;

use crate::wire::wire_object;

wire_object! {
    /// A frame by which a teammate reports that its turn has ended.
    pub struct IdleNotification {
        /// The frame's type, always `idle_notification`.
        pub kind: String => "type" req,
        /// The teammate's name.
        pub from: String => "from" req,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// The idle reason: `available`, `interrupted` or `failed`.
        pub idle_reason: String => "idleReason" opt,
        /// The teammate's work in this turn, in a few words.
        pub summary: String => "summary" opt,
        /// The id of the task that the teammate completed in this turn.
        pub completed_task_id: String => "completedTaskId" opt,
        /// The final status of the task in `completed_task_id`.
        pub completed_status: String => "completedStatus" opt,
        /// The reason why the turn failed.
        pub failure_reason: String => "failureReason" opt,
        /// The last text of the turn. Only newer clients write it (session dialect).
        pub result: String => "result" opt,
    }
}

wire_object! {
    /// A frame by which the sender assigns a task to the receiver.
    pub struct TaskAssignment {
        /// The frame's type, always `task_assignment`.
        pub kind: String => "type" req,
        /// The task's id.
        pub task_id: String => "taskId" req,
        /// The task's title.
        pub subject: String => "subject" opt,
        /// The task's description.
        pub description: String => "description" opt,
        /// The member that assigned the task.
        pub assigned_by: String => "assignedBy" opt,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// A frame by which a member reports that it completed a task.
    pub struct TaskCompleted {
        /// The frame's type, always `task_completed`.
        pub kind: String => "type" req,
        /// The member that completed the task.
        pub from: String => "from" req,
        /// The task's id.
        pub task_id: String => "taskId" req,
        /// The task's title.
        pub task_subject: String => "taskSubject" opt,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// A frame by which the sender asks the receiver to shut down.
    pub struct ShutdownRequest {
        /// The frame's type, always `shutdown_request`.
        pub kind: String => "type" req,
        /// The request id, `shutdown-<ms>@<name>`. In pitcrew's own ids, a random part precedes the
        /// `@`.
        pub request_id: String => "requestId" req,
        /// The member that asks for the shutdown.
        pub from: String => "from" opt,
        /// The reason for the shutdown.
        pub reason: String => "reason" opt,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// A frame by which the sender agrees to shut down. The sender ends afterwards.
    pub struct ShutdownApproved {
        /// The frame's type, always `shutdown_approved`.
        pub kind: String => "type" req,
        /// The id of the answered request.
        pub request_id: String => "requestId" req,
        /// The member that shuts down.
        pub from: String => "from" opt,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// The sender's pane. The receiver closes this pane.
        pub pane_id: String => "paneId" opt,
        /// The backend that runs the sender.
        pub backend_type: String => "backendType" opt,
    }
}

wire_object! {
    /// A frame by which the sender refuses to shut down. The sender continues working.
    pub struct ShutdownRejected {
        /// The frame's type, always `shutdown_rejected`.
        pub kind: String => "type" req,
        /// The id of the answered request.
        pub request_id: String => "requestId" req,
        /// The member that continues working.
        pub from: String => "from" opt,
        /// The reason for the refusal.
        pub reason: String => "reason" opt,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
    }
}

wire_object! {
    /// The older form of a shutdown answer, for agreement and for refusal. Pitcrew reads this form
    /// but never writes it.
    pub struct ShutdownResponse {
        /// The frame's type, always `shutdown_response`.
        pub kind: String => "type" req,
        /// The id of the answered request.
        pub request_id: String => "requestId" req,
        /// Whether the sender shuts down.
        pub approved: bool => "approved" req,
        /// The reason for a refusal.
        pub content: String => "content" opt,
    }
}

wire_object! {
    /// A frame by which a teammate in plan mode asks its lead to approve a plan.
    pub struct PlanApprovalRequest {
        /// The frame's type, always `plan_approval_request`.
        pub kind: String => "type" req,
        /// The member that asks for the approval.
        pub from: String => "from" req,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// The path of the plan file.
        pub plan_file_path: String => "planFilePath" opt,
        /// The text of the plan.
        pub plan_content: String => "planContent" opt,
        /// The text of the plan in the older form of the frame, which has no other field for the
        /// plan.
        pub plan: String => "plan" opt,
        /// The request id, `plan_approval-<ms>@<agent>@<team>`. In pitcrew's own ids, a random part
        /// precedes the first `@`.
        pub request_id: String => "requestId" req,
    }
}

wire_object! {
    /// A frame by which the lead answers a plan approval request.
    pub struct PlanApprovalResponse {
        /// The frame's type, always `plan_approval_response`.
        pub kind: String => "type" req,
        /// The id of the answered request.
        pub request_id: String => "requestId" req,
        /// Whether the teammate is allowed to carry out the plan.
        pub approved: bool => "approved" req,
        /// The changes that the lead wants in the plan.
        pub feedback: String => "feedback" opt,
        /// The frame's creation time, in ISO 8601.
        pub timestamp: String => "timestamp" opt,
        /// The teammate's permission mode after the approval.
        pub permission_mode: String => "permissionMode" opt,
    }
}

wire_object! {
    /// A frame by which a teammate asks its lead for permission to call a tool.
    pub struct PermissionRequest {
        /// The frame's type, always `permission_request`.
        pub kind: String => "type" req,
        /// The request id: `perm-`, the time in milliseconds, `-`, and seven base-36 digits.
        /// Pitcrew's own ids have more random digits at the end.
        pub request_id: String => "request_id" req,
        /// The name of the teammate that asks.
        pub agent_id: String => "agent_id" req,
        /// The name of the tool.
        pub tool_name: String => "tool_name" req,
        /// The id of the tool call.
        pub tool_use_id: String => "tool_use_id" opt,
        /// A description of the call's purpose.
        pub description: String => "description" opt,
        /// The input of the call.
        pub input: Value => "input" opt,
        /// The permission updates that would allow similar calls in the future.
        pub permission_suggestions: Vec<Value> => "permission_suggestions" opt,
    }
}

wire_object! {
    /// A frame by which the lead answers a permission request.
    pub struct PermissionResponse {
        /// The frame's type, always `permission_response`.
        pub kind: String => "type" req,
        /// The id of the answered request.
        pub request_id: String => "request_id" req,
        /// The outcome: `success` or `error`.
        pub subtype: String => "subtype" req,
        /// The id of the tool call. The field is present from reference client version 2.1.330 on
        /// (`fixtures/claude-2.1.330/session-team`).
        pub tool_use_id: String => "tool_use_id" opt,
        /// The approved call: `tool_use_id`, `tool_name` and `input_digest`. The field is present
        /// from reference client version 2.1.330 on.
        pub approved_request: Value => "approved_request" opt,
        /// The data of an approval: `updated_input` and `permission_updates`. `permission_updates`
        /// can be absent if it would be empty.
        pub response: Value => "response" opt,
        /// The reason for a refusal.
        pub error: String => "error" opt,
    }
}

wire_object! {
    /// A frame that reports the end of a teammate. The frame enters only the lead's conversation
    /// and is never written to a file.
    pub struct TeammateTerminated {
        /// The frame's type, always `teammate_terminated`.
        pub kind: String => "type" req,
        /// A sentence that describes the teammate's end.
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
            /// The `type` of this frame in JSON.
            pub const TYPE: &'static str = $tag;
        } impl)* Frame {
            /// The fields of each frame type, in the recorded order.
            pub(crate) const KINDS: &'static [(&'static str, &'static [&'static str])] = &[$(($tag, $variant::FIELDS)),*];

            /// Returns the frame in a message's text, or `None` for plain text.
            #[must_use]
            pub fn detect(text: &str) -> Option<Self> {
                #[derive(Deserialize)]
                struct Tag {
                    #[serde(rename = "type")]
                    kind: String,
                }
                // Most messages are plain text and do not start with `{`. Such a text need not be
                // parsed as JSON.
                if !text.starts_with('{') {
                    return None;
                }
                let tag: Tag = crate::from_text(text).ok()?;
                match tag.kind.as_str() {
                    $($tag => crate::from_text(text).ok().map(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the frame's `type` in JSON.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $tag,)*
                }
            }

            /// Returns the frame as the text of a message: compact JSON with the fields in the
            /// recorded order.
            ///
            /// # Errors
            /// When a value in the frame cannot be written as JSON.
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
    /// Returns the frame's creation time. Some frame types have none.
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
