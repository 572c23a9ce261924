//! The mail of one member: its unread messages, the valid frames among them, and the delivery state
//! of each message. This file holds the type of a message. The modules below read and change
//! inboxes.

use pitcrew_protocol::{Frame, Message, MessageId};

use crate::requests::RequestKind;

mod acknowledgement;
mod idle;
mod inbox;
mod notice;
mod past;
mod valid_frames;

pub use idle::{IdleNotice, IdleReason};
pub use inbox::{Collected, InboxOwner};
pub(crate) use valid_frames::archived_mail;

/// A message as the receiver of the message sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// The id of the message.
    pub id: MessageId,
    /// The message as it is stored in the inbox.
    pub message: Message,
    /// The frame that the message carries, if its sender is allowed to send such a frame to this
    /// receiver. Otherwise the message is text.
    pub frame: Option<Frame>,
}

impl Mail {
    /// Returns the id of the request, if the message carries one.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request().map(|(_, id, _)| id)
    }

    /// If the message carries a request, returns its kind, its id, and the tool that needs
    /// permission.
    pub(crate) fn request(&self) -> Option<(RequestKind, &str, Option<&str>)> {
        match self.frame.as_ref()? {
            Frame::ShutdownRequest(frame) => Some((RequestKind::Shutdown, &frame.request_id, None)),
            Frame::PlanApprovalRequest(frame) => Some((RequestKind::Plan, &frame.request_id, None)),
            Frame::PermissionRequest(frame) => {
                Some((RequestKind::Permission, &frame.request_id, Some(&frame.tool_name)))
            }
            Frame::IdleNotification(_)
            | Frame::TaskAssignment(_)
            | Frame::TaskCompleted(_)
            | Frame::ShutdownApproved(_)
            | Frame::ShutdownRejected(_)
            | Frame::ShutdownResponse(_)
            | Frame::PlanApprovalResponse(_)
            | Frame::PermissionResponse(_)
            | Frame::TeammateTerminated(_) => None,
        }
    }
}

/// If the frame answers a request, returns the id of that request.
pub(crate) fn answered(frame: &Frame) -> Option<&str> {
    match frame {
        Frame::ShutdownApproved(frame) => Some(&frame.request_id),
        Frame::ShutdownRejected(frame) => Some(&frame.request_id),
        Frame::ShutdownResponse(frame) => Some(&frame.request_id),
        Frame::PlanApprovalResponse(frame) => Some(&frame.request_id),
        Frame::PermissionResponse(frame) => Some(&frame.request_id),
        Frame::IdleNotification(_)
        | Frame::TaskAssignment(_)
        | Frame::TaskCompleted(_)
        | Frame::ShutdownRequest(_)
        | Frame::PlanApprovalRequest(_)
        | Frame::PermissionRequest(_)
        | Frame::TeammateTerminated(_) => None,
    }
}
