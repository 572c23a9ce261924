//! Finds differences between a reference client's files and the recordings of such files in
//! `fixtures/`: new fields, missing fields, another field order.
//!
//! The wire type of an object declares the fields that are known. A `Shape` adds what the
//! recordings show about the object, for example which fields are always present and which other
//! field order occurs. The crate `store` chooses the files to examine.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::frame::PermissionResponse;
use crate::{Frame, LeadProcess, Member, Message, Task, TeamConfig};

/// The versions of the reference client whose files were recorded, below `fixtures/`.
pub const RECORDED_VERSIONS: [&str; 4] = ["2.1.39", "2.1.329", "2.1.330", "2.1.332"];

/// The kinds of team files that are compared with the recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// `config.json`: a team and its members.
    Config,
    /// An inbox: an array of messages.
    Inbox,
    /// A task file: one task.
    Task,
}

/// One difference between a file and the recordings of such files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Drift {
    /// The kind of the difference.
    pub kind: DriftKind,
    /// The kind of object in which the difference was found: `config`, `member`, `message`, the
    /// type of a frame, and so on.
    pub object: String,
    /// The name of the field that differs. For a frame of an unknown type, it is that type. For a
    /// different field order, it is the first field that is out of order.
    pub field: String,
}

/// The kinds of differences between a file and the recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    /// A frame of an unknown type.
    NewFrame,
    /// An unknown field.
    NewField,
    /// A field that every recording has is missing.
    MissingField,
    /// The fields are in an order that no recording has.
    OtherOrder,
}

/// The expected fields of one kind of object: the fields that the wire type declares, and what the
/// recordings show about these fields.
struct Shape {
    object: &'static str,
    /// The fields that the wire type declares, in the declared order.
    fields: &'static [&'static str],
    /// Fields that are known although the wire type does not declare them. They do not count as new
    /// fields.
    kept: &'static [&'static str],
    /// Fields that are present in every recording of this kind of object.
    always: &'static [&'static str],
    /// Fields that a client adds to an existing object. They come after all other fields, in any
    /// order.
    late: &'static [&'static str],
    /// A second field order that occurs in the recordings.
    also: &'static [&'static str],
}

impl Shape {
    const fn new(
        object: &'static str,
        fields: &'static [&'static str],
        always: &'static [&'static str],
    ) -> Self {
        Self { object, fields, kept: &[], always, late: &[], also: &[] }
    }
}

const CONFIG: Shape = Shape {
    late: &["hiddenPaneIds"],
    ..Shape::new(
        "config",
        TeamConfig::FIELDS,
        &["name", "createdAt", "leadAgentId", "leadSessionId", "members"],
    )
};

const LEAD_PROCESS: Shape = Shape::new("lead_process", LeadProcess::FIELDS, LeadProcess::FIELDS);

const MEMBER: Shape = Shape {
    // `rowSource` was seen from version 2.1.331 on, not in the recordings.
    kept: &["pitcrew", "rowSource"],
    late: &["isActive", "mode", "pitcrew", "rowSource"],
    // The field order of teammates in files of newer clients (session dialect).
    also: &[
        "agentId",
        "name",
        "color",
        "joinedAt",
        "tmuxPaneId",
        "subscriptions",
        "agentType",
        "model",
        "prompt",
        "planModeRequired",
        "cwd",
        "backendType",
    ],
    ..Shape::new(
        "member",
        Member::FIELDS,
        &["agentId", "name", "joinedAt", "tmuxPaneId", "cwd", "subscriptions"],
    )
};

const MESSAGE: Shape =
    Shape::new("message", Message::FIELDS, &["from", "text", "timestamp", "read"]);

const SESSION_MESSAGE: Shape = Shape {
    kept: &["lead_sig"],
    late: &["lead_sig", "metadata"],
    ..Shape::new(
        "message",
        Message::FIELDS,
        &["from", "text", "timestamp", "msgV", "msg_id", "type", "read"],
    )
};

const TASK: Shape = Shape {
    late: &["owner", "activeForm", "metadata"],
    ..Shape::new(
        "task",
        Task::FIELDS,
        &["id", "subject", "description", "status", "blocks", "blockedBy"],
    )
};

const PERMISSION_GRANTED: Shape = {
    const FIELDS: &[&str] = &["updated_input", "permission_updates"];
    Shape::new("permission_response.response", FIELDS, &["updated_input"])
};

/// The fields that every recorded frame of a type has, for each frame type. The field `type` itself
/// is left out. A frame type that was never recorded has no entry.
const FRAMES: [(&str, &[&str]); 10] = [
    ("idle_notification", &["from", "timestamp", "idleReason"]),
    ("task_assignment", &["taskId", "subject", "description", "assignedBy", "timestamp"]),
    ("task_completed", &["from", "taskId"]),
    ("shutdown_request", &["requestId", "from", "timestamp"]),
    ("shutdown_approved", &["requestId", "from", "timestamp"]),
    ("shutdown_rejected", &["requestId", "from", "reason", "timestamp"]),
    ("plan_approval_request", &["from", "timestamp", "planFilePath", "planContent", "requestId"]),
    ("plan_approval_response", &["requestId", "approved", "timestamp"]),
    (
        "permission_request",
        &[
            "request_id",
            "agent_id",
            "tool_name",
            "tool_use_id",
            "description",
            "input",
            "permission_suggestions",
        ],
    ),
    (PermissionResponse::TYPE, &["request_id", "subtype"]),
];

/// Returns the differences between the text of a file and all recordings, sorted and without
/// duplicates.
///
/// A text that is not JSON gives no differences. If the format has an object at some place, and the
/// text has another JSON type there, this value gives no differences either. The command `doctor`
/// finds such damage in another step.
#[must_use]
pub fn drift(written: Written, text: &str) -> Vec<Drift> {
    let mut found = Vec::new();
    let Ok(value) = serde_json::from_str::<Value>(text) else { return found };
    match written {
        Written::Config => of_config(&value, &mut found),
        Written::Inbox => objects(&value).for_each(|message| of_message(message, &mut found)),
        Written::Task => {
            value.as_object().into_iter().for_each(|task| compare(&TASK, task, &mut found))
        }
    }
    found.sort();
    found.dedup();
    found
}

fn of_config(value: &Value, found: &mut Vec<Drift>) {
    let Some(config) = value.as_object() else { return };
    compare(&CONFIG, config, found);
    if let Some(process) = config.get("leadProcess").and_then(Value::as_object) {
        compare(&LEAD_PROCESS, process, found);
    }
    for member in config.get("members").into_iter().flat_map(objects) {
        compare(&MEMBER, member, found);
    }
}

fn of_message(message: &Map<String, Value>, found: &mut Vec<Drift>) {
    let is_session =
        ["msgV", "msg_id", "type", "lead_sig"].iter().any(|field| message.contains_key(*field));
    // One inbox can contain messages of both dialects (older and newer clients). Each message is
    // therefore compared with the shape of its own dialect.
    compare(if is_session { &SESSION_MESSAGE } else { &MESSAGE }, message, found);
    let text = message.get("text").and_then(Value::as_str).filter(|text| text.starts_with('{'));
    if let Some(Value::Object(frame)) = text.and_then(|text| serde_json::from_str(text).ok()) {
        of_frame(&frame, found);
    }
}

fn of_frame(frame: &Map<String, Value>, found: &mut Vec<Drift>) {
    let Some(kind) = frame.get("type").and_then(Value::as_str) else { return };
    let Some((object, fields)) = Frame::KINDS.iter().find(|(known, _)| *known == kind) else {
        found.push(Drift {
            kind: DriftKind::NewFrame,
            object: "frame".to_owned(),
            field: kind.to_owned(),
        });
        return;
    };
    let always =
        FRAMES.iter().find(|(known, _)| known == object).map_or(&[][..], |(_, always)| always);
    compare(&Shape::new(object, fields, always), frame, found);
    if *object == PermissionResponse::TYPE
        && let Some(granted) = frame.get("response").and_then(Value::as_object)
    {
        compare(&PERMISSION_GRANTED, granted, found);
    }
}

fn compare(shape: &Shape, object: &Map<String, Value>, found: &mut Vec<Drift>) {
    let mut tell = |kind, field: &str| {
        found.push(Drift { kind, object: shape.object.to_owned(), field: field.to_owned() });
    };
    let is_known = |field: &str| shape.fields.contains(&field) || shape.kept.contains(&field);
    for field in object.keys().filter(|field| !is_known(field)) {
        tell(DriftKind::NewField, field);
    }
    for field in shape.always.iter().filter(|field| !object.contains_key(**field)) {
        tell(DriftKind::MissingField, field);
    }
    let known: Vec<&str> =
        object.keys().map(String::as_str).filter(|field| is_known(field)).collect();
    if let Some(field) = misplaced(shape, &known) {
        tell(DriftKind::OtherOrder, field);
    }
}

/// Compares the order of `fields` with the recorded orders. If the order matches none of them,
/// returns the first field that is out of order.
fn misplaced<'a>(shape: &Shape, fields: &[&'a str]) -> Option<&'a str> {
    let behind = fields.iter().rev().take_while(|field| shape.late.contains(field)).count();
    // Late fields are at the end, in any order. Only the fields before them are compared.
    let settled = fields.len() - behind;
    let stray = |order| stray(order, fields.iter().take(settled).copied());
    let field = stray(shape.fields)?;
    stray(shape.also).map(|_| field)
}

/// Returns the first field of `fields` that is out of order, or that is missing from `order`. A
/// field is out of order if `order` lists it before a field that precedes it in `fields`.
fn stray<'a>(order: &[&str], mut fields: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut last = 0;
    fields.find(|field| match order.iter().position(|known| known == field) {
        Some(at) if at >= last => {
            last = at;
            false
        }
        Some(_) | None => true,
    })
}

fn objects(value: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    value.as_array().into_iter().flatten().filter_map(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK_TEXT: &str = r#"{"id":"1","subject":"s","description":"d","status":"pending","blocks":[],"blockedBy":[]}"#;

    fn check(written: Written, text: &str, expected: &[(DriftKind, &str, &str)]) {
        let found = drift(written, text);
        let found: Vec<_> =
            found.iter().map(|it| (it.kind, it.object.as_str(), it.field.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    fn message(text: &str) -> String {
        serde_json::json!([{"from": "w", "text": text, "timestamp": "t", "color": "blue", "read": false}]).to_string()
    }

    #[test]
    fn every_recorded_frame_is_a_known_one() {
        for (kind, always) in FRAMES {
            let (_, fields) = Frame::KINDS.iter().find(|(known, _)| *known == kind).unwrap();
            assert!(always.iter().all(|field| fields.contains(field)), "{kind}");
        }
    }

    #[test]
    fn a_new_field_is_told_wherever_it_stands() {
        check(
            Written::Task,
            &TASK_TEXT.replacen('{', r#"{"priority":1,"#, 1),
            &[(DriftKind::NewField, "task", "priority")],
        );
        let frame = r#"{"type":"idle_notification","from":"w","timestamp":"t","idleReason":"available","mood":"good"}"#;
        check(
            Written::Inbox,
            &message(frame),
            &[(DriftKind::NewField, "idle_notification", "mood")],
        );
    }

    #[test]
    fn a_missing_field_is_told() {
        check(
            Written::Task,
            &TASK_TEXT.replace(r#","blocks":[]"#, ""),
            &[(DriftKind::MissingField, "task", "blocks")],
        );
        check(
            Written::Inbox,
            r#"[{"from":"w","text":"x","timestamp":"t"}]"#,
            &[(DriftKind::MissingField, "message", "read")],
        );
    }

    #[test]
    fn another_order_is_told_and_a_field_that_was_set_later_is_not() {
        let swapped = TASK_TEXT.replace(r#""id":"1","subject":"s""#, r#""subject":"s","id":"1""#);
        check(Written::Task, &swapped, &[(DriftKind::OtherOrder, "task", "id")]);
        check(Written::Task, &TASK_TEXT.replace('}', r#","owner":"w"}"#), &[]);
        check(Written::Task, &TASK_TEXT.replace(r#""status""#, r#""owner":"w","status""#), &[]);
        let early = TASK_TEXT.replacen('{', r#"{"owner":"w","#, 1);
        check(Written::Task, &early, &[(DriftKind::OtherOrder, "task", "id")]);
    }

    #[test]
    fn an_unknown_frame_is_told_and_a_text_is_none() {
        check(
            Written::Inbox,
            &message(r#"{"type":"mood_ring","x":1}"#),
            &[(DriftKind::NewFrame, "frame", "mood_ring")],
        );
        for text in ["hello", "{", "{}", r#"{"answer":42}"#, r#" {"type":"x"}"#] {
            check(Written::Inbox, &message(text), &[]);
        }
    }

    #[test]
    fn what_is_not_what_it_should_be_differs_in_nothing() {
        for text in ["", "{", "[]", "{}", "null", "[1]", r#"{"members":7}"#] {
            assert!(drift(Written::Inbox, text).is_empty(), "{text}");
        }
        assert!(drift(Written::Config, "[1]").is_empty());
    }
}
