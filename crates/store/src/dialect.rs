//! Converts a message to the form that the team's dialect requires in an inbox.
//!
//! Source: section "Living with the session dialect" of the wire format document. A session client
//! deletes every inbox entry that does not have exactly this form.

use pitcrew_protocol::{ApiError, ErrorCode, Message, MessageId};

use crate::StoreError;

/// Returns the id that a message carries.
///
/// # Errors
/// [`StoreError::Refused`] if the message has no id. Without an id, the store could not detect a
/// second copy of the message.
pub(crate) fn id_of(message: &Message) -> Result<MessageId, StoreError> {
    let missing =
        || ApiError::new(ErrorCode::InternalError, "a message cannot be stored without an id");
    message.id().ok_or_else(|| StoreError::Refused(missing()))
}

/// Adds the fields that clients of the session dialect expect. An existing `msg_id` is kept.
pub(crate) fn in_session_form(mut message: Message) -> Message {
    message.msg_v.get_or_insert(1);
    message.msg_id.get_or_insert_with(|| uuid::Uuid::new_v4().to_string());
    message.kind.get_or_insert_with(|| "message".to_owned());
    message.read.get_or_insert(false);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_for_a_session_has_its_fields_in_its_order() {
        let message = Message::new("bob", "hi".into(), "2026-11-20T11:58:14.259Z".into());
        let message = in_session_form(message.with_id(&MessageId("m1".into())));
        let text = serde_json::to_string(&message).unwrap();
        let keys: Vec<_> =
            ["from", "text", "timestamp", "msgV", "msg_id", "type", "read", "metadata"]
                .map(|k| text.find(&format!("\"{k}\":")).unwrap())
                .to_vec();
        assert!(keys.is_sorted(), "{text}");
        assert_eq!(message.id(), Some(MessageId("m1".into())));
    }
}
