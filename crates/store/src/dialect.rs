//! The form in which a message enters an inbox, by the dialect of its team.
//!
//! Source: wire format, "Living with the session dialect". A session client deletes entries that are not exact.

use pitcrew_protocol::{ApiError, ErrorCode, Message, MessageId};

use crate::StoreError;

/// The id a message carries.
///
/// # Errors
/// [`StoreError::Refused`] for a message without one: it could not be told from its double.
pub(crate) fn id_of(message: &Message) -> Result<MessageId, StoreError> {
    let missing =
        || ApiError::new(ErrorCode::InternalError, "a message cannot be stored without an id");
    message.id().ok_or_else(|| StoreError::Refused(missing()))
}

/// Gives a message the fields that clients of the session dialect expect; a `msg_id` it has is kept.
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
