//! The input of the tool SendMessage, in both dialects of the reference client.
//!
//! Source for the named dialect, which has `type`, `recipient` and `content`:
//! `fixtures/claude-2.1.39/tool-input-schemas.json` and the founding guide. Source for the session
//! dialect, which has `to` and `message`: the wire format document. The crate `team` decides which
//! messages a sender is allowed to send.

use serde_json::Value;

use crate::input::{InputError, Parameters, invalid};

/// The recipient name that stands for all members.
const EVERYBODY: &str = "*";

const KINDS: &str = "one of `message`, `broadcast`, `shutdown_request`, `shutdown_response`, `plan_approval_response`";

/// The input of SendMessage, which writes to a teammate or answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendMessageInput {
    /// A message to one member.
    Message {
        /// The recipient's name or agent id.
        recipient: String,
        /// The text of the message.
        content: String,
        /// A preview of 5 to 10 words. A tool call must have a preview: [`SendMessageInput::parse`]
        /// reports a missing preview as a fault. A message from a person needs no preview.
        summary: Option<String>,
    },
    /// A message to every member except the sender.
    Broadcast {
        /// The text of the message.
        content: String,
        /// A preview of 5 to 10 words. It is required under the same conditions as the `summary` of
        /// `Message`.
        summary: Option<String>,
    },
    /// A request to a member to shut down.
    ShutdownRequest {
        /// The recipient's name or agent id.
        recipient: String,
        /// The reason for the shutdown.
        content: Option<String>,
    },
    /// An answer to a shutdown request.
    ShutdownResponse {
        /// The id of the shutdown request.
        request_id: String,
        /// Whether the sender agrees to shut down.
        approve: bool,
        /// The reason for a refusal. Every refusal (`approve` is false) has a reason.
        content: Option<String>,
    },
    /// An answer to a plan approval request.
    PlanApprovalResponse {
        /// The id of the plan approval request.
        request_id: String,
        /// The name of the teammate that sent the plan.
        recipient: String,
        /// Whether the teammate is allowed to carry out the plan.
        approve: bool,
        /// The changes that the lead wants in the plan.
        content: Option<String>,
    },
}

impl SendMessageInput {
    /// Reads the input of a call. Two forms are accepted: `{type, recipient, content, ...}`, and
    /// `{to, message, summary}` where `message` is a text or an object with a `type`. A mixture of
    /// both forms is accepted if the values do not contradict each other.
    ///
    /// # Errors
    /// [`InputError`] with every fault. The error uses the parameter names of the form in which the
    /// call was written.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(crate::tool_name::SEND_MESSAGE, input);
        let form = Form::merge(&mut given);
        let Some(kind) = Kind::take(&mut given, form) else {
            return Err(given.fail().renamed(|name| form.name_of(name)));
        };
        let read = match kind {
            Kind::Message => Self::Message {
                recipient: recipient(&mut given),
                content: given.required_text("content"),
                summary: Some(given.required_text("summary")),
            },
            Kind::Broadcast => Self::Broadcast {
                content: given.required_text("content"),
                summary: Some(given.required_text("summary")),
            },
            Kind::ShutdownRequest => Self::ShutdownRequest {
                recipient: recipient(&mut given),
                content: given.text("content"),
            },
            Kind::ShutdownResponse => {
                let request_id = given.required_text("request_id");
                // A refusal must have a reason. An approval needs none.
                let refuses = given.peek("approve") == Some(&Value::Bool(false));
                let approve = given.required_flag("approve");
                let content = if refuses {
                    Some(given.required_text("content"))
                } else {
                    given.text("content")
                };
                Self::ShutdownResponse { request_id, approve, content }
            }
            Kind::PlanApprovalResponse => Self::PlanApprovalResponse {
                request_id: given.required_text("request_id"),
                recipient: recipient(&mut given),
                approve: given.required_flag("approve"),
                content: given.text("content"),
            },
        };
        // Some calls also give a parameter that belongs to another message type. Remove such a
        // parameter, so that it is not refused as unknown.
        for allowed in ["recipient", "content", "summary", "request_id", "approve"] {
            given.value(allowed);
        }
        given.finish(read).map_err(|e| e.renamed(|name| form.name_of(name)))
    }
}

fn recipient(given: &mut Parameters) -> String {
    if given.peek("recipient").and_then(Value::as_str).is_some_and(|name| name.trim().is_empty()) {
        given.fault(invalid("recipient", "the name of a member"));
    }
    given.required_text("recipient")
}

#[derive(Clone, Copy)]
enum Kind {
    Message,
    Broadcast,
    ShutdownRequest,
    ShutdownResponse,
    PlanApprovalResponse,
}

impl Kind {
    /// Removes `type` from the parameters and returns the message type. In the session dialect, a
    /// plain text message has no `type`.
    fn take(given: &mut Parameters, form: Form) -> Option<Self> {
        let to_everybody = given.peek("recipient").and_then(Value::as_str) == Some(EVERYBODY);
        let text = if to_everybody { Self::Broadcast } else { Self::Message };
        if given.peek("type").is_none() {
            match form {
                Form::SessionText => return Some(text),
                Form::Named | Form::SessionObject => given.missing("type", "string"),
            }
        }
        match given.text("type")?.as_str() {
            "message" => Some(text),
            "broadcast" => Some(Self::Broadcast),
            "shutdown_request" => Some(Self::ShutdownRequest),
            "shutdown_response" => Some(Self::ShutdownResponse),
            "plan_approval_response" => Some(Self::PlanApprovalResponse),
            _ => given.refuse(invalid("type", KINDS)),
        }
    }
}

/// The form of a call: the dialect whose parameter names the call uses, and for the session dialect
/// whether `message` is a text or an object.
#[derive(Clone, Copy)]
enum Form {
    Named,
    SessionText,
    SessionObject,
}

impl Form {
    /// Renames the parameters of the session dialect to the names of the named dialect. Returns the
    /// form in which the call was written.
    fn merge(given: &mut Parameters) -> Self {
        let to = given.value("to");
        let message = given.value("message");
        let form = match (&to, &message) {
            (_, Some(Value::Object(_))) => Self::SessionObject,
            (None, None) => Self::Named,
            (_, _) => Self::SessionText,
        };
        if let Some(to) = to {
            given.put("recipient", to, "to");
        }
        match message {
            Some(Value::Object(fields)) => {
                for (key, value) in fields {
                    let name = match key.as_str() {
                        "reason" | "feedback" => "content",
                        "requestId" => "request_id",
                        "approved" => "approve",
                        other => other,
                    };
                    given.put(name, value, &format!("message.{key}"));
                }
            }
            Some(text) => given.put("content", text, "message"),
            None => {}
        }
        form
    }

    /// Returns the name that the caller used for the parameter that the named dialect calls `name`.
    fn name_of(self, name: &str) -> Option<&'static str> {
        match (self, name) {
            (Self::SessionText | Self::SessionObject, "recipient") => Some("to"),
            (Self::SessionText, "content") => Some("message"),
            (Self::SessionObject, "content") => Some("message.reason"),
            (Self::SessionObject, "type") => Some("message.type"),
            (Self::SessionObject, "request_id") => Some("message.request_id"),
            (Self::SessionObject, "approve") => Some("message.approve"),
            _ => None,
        }
    }
}
