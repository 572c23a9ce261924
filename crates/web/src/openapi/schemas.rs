//! The schemas of the bodies and answers. An object can have more fields than its schema names: new
//! fields are no new version.

use serde_json::{Map, Value, json};

use super::operation::reference;

/// Returns all schemas by name.
pub(super) fn all() -> Map<String, Value> {
    let groups =
        [of_bodies(), of_control_bodies(), of_teams(), of_members(), of_work(), of_people()];
    groups.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

type Named = (&'static str, Value);

fn text() -> Value {
    json!({"type": "string"})
}

fn text_or_null() -> Value {
    json!({"type": ["string", "null"]})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn list_of(schema: &Value) -> Value {
    json!({"type": "array", "items": schema})
}

/// An object that has these fields and may have others. A name with a `?` is optional.
fn object(fields: &[(&str, Value)]) -> Value {
    Value::Object(described(fields))
}

/// An object that has no other fields than these.
fn closed(fields: &[(&str, Value)]) -> Value {
    let mut schema = described(fields);
    schema.insert("additionalProperties".to_owned(), false.into());
    Value::Object(schema)
}

fn described(fields: &[(&str, Value)]) -> Map<String, Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, schema) in fields {
        let bare = name.trim_end_matches('?');
        properties.insert(bare.to_owned(), schema.clone());
        if bare == *name {
            required.push(bare);
        }
    }
    Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), required.into()),
    ])
}

/// A page of a list.
fn page(entry: &Value, more: &[(&str, Value)]) -> Value {
    let fields = [("entries", list_of(entry)), ("next", count()), ("total", count())];
    object(&[&fields, more].concat())
}

fn of_bodies() -> Vec<Named> {
    let filled = json!({"type": "string", "minLength": 1});
    let ids = list_of(&text());
    let status = json!({"enum": ["pending", "in_progress", "completed", "deleted"]});
    vec![
        (
            "TeamCreate",
            closed(&[
                ("team_name", filled.clone()),
                ("description?", text()),
                ("agent_type?", text()),
            ]),
        ),
        (
            "TaskCreate",
            closed(&[
                ("subject", filled.clone()),
                ("description", text()),
                ("activeForm?", text()),
                ("metadata?", json!({"type": "object"})),
            ]),
        ),
        (
            "TaskUpdate",
            closed(&[
                ("taskId?", text()),
                ("subject?", filled.clone()),
                ("description?", text()),
                ("activeForm?", text()),
                ("status?", status),
                ("owner?", text()),
                ("addBlocks?", ids.clone()),
                ("addBlockedBy?", ids),
                ("metadata?", json!({"type": "object"})),
            ]),
        ),
        ("Claim", closed(&[("owner", filled.clone())])),
        (
            "Message",
            closed(&[("to", filled.clone()), ("content", filled), ("summary?", text_or_null())]),
        ),
        ("Merge", closed(&[("commit", text())])),
    ]
}

fn of_control_bodies() -> Vec<Named> {
    let choice = json!({
        "oneOf": [
            {"const": "once"},
            closed(&[("no", object(&[("reason?", text_or_null())]))]),
            closed(&[("always", object(&[("offer", json!({})), ("keep", json!({"enum": ["run", "saved"]}))]))]),
        ],
    });
    vec![
        (
            "Spawn",
            object(&[
                ("name", text()),
                ("description", text()),
                ("prompt", text()),
                ("subagent_type?", text()),
            ]),
        ),
        ("ShutDown", closed(&[("reason?", text_or_null())])),
        ("Mode", closed(&[("mode", text())])),
        ("Model", closed(&[("model", text())])),
        (
            "End",
            closed(&[(
                "wait_seconds?",
                json!({"type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX}),
            )]),
        ),
        ("Answer", closed(&[("digest", text()), ("choice", choice)])),
        (
            "PlanAnswer",
            closed(&[
                ("member", text()),
                ("approve", json!({"type": "boolean"})),
                ("feedback?", text_or_null()),
            ]),
        ),
        (
            "PermissionAnswer",
            closed(&[
                ("allow", json!({"type": "boolean"})),
                ("reason?", text_or_null()),
                ("digest?", text_or_null()),
            ]),
        ),
    ]
}

fn of_teams() -> Vec<Named> {
    let state = json!({"enum": ["running", "unknown", "stopped", "archived"]});
    let counts = object(&[("open", count()), ("done", count())]);
    let at_ms = json!({"type": ["integer", "null"]});
    vec![
        (
            "Session",
            object(&[
                ("caller", json!({"enum": ["token", "browser", "device"]})),
                ("name?", text()),
                ("scope", json!({"enum": ["watch", "answer", "everything"]})),
            ]),
        ),
        ("Health", object(&[("status", json!({"const": "ok"})), ("version", text())])),
        ("OpenApi", object(&[("openapi", text()), ("paths", json!({"type": "object"}))])),
        (
            "Error",
            object(&[
                ("success", json!({"const": false})),
                ("error", text()),
                ("message", text()),
                ("details?", json!({"type": "object"})),
            ]),
        ),
        ("Done", object(&[("success", json!({"const": true}))])),
        (
            "TeamCreated",
            object(&[("team_name", text()), ("team_file_path", text()), ("lead_agent_id", text())]),
        ),
        ("TeamList", object(&[("teams", list_of(&reference("TeamRow")))])),
        (
            "TeamRow",
            object(&[
                ("name", text()),
                ("description", text_or_null()),
                ("state", state.clone()),
                ("archive?", text()),
                ("lead", text_or_null()),
                ("members", list_of(&text())),
                ("tasks", counts),
                ("waiting?", count()),
                ("created_at_ms", at_ms),
                ("archived_at_ms?", count()),
                ("cost_usd?", json!({"type": "number"})),
                ("problem?", text()),
            ]),
        ),
        (
            "TeamShown",
            object(&[
                ("name", text()),
                ("state", state),
                ("archive?", text()),
                ("archived_at_ms?", count()),
                ("running?", json!({"type": "object"})),
                ("running_in_words?", text()),
                ("team", object(&[("team", text()), ("agents", list_of(&reference("Agent")))])),
                ("tasks", list_of(&reference("TaskFile"))),
                ("questions", list_of(&reference("Question"))),
                ("unread", list_of(&text())),
            ]),
        ),
        ("EventStream", event()),
        ("Metrics", text()),
    ]
}

/// One event of a stream. Its data is JSON.
fn event() -> Value {
    let names = json!({"enum": ["snapshot", "event", "silent", "gone", "end"]});
    object(&[("event", names), ("data", text()), ("id?", text())])
}

fn of_members() -> Vec<Named> {
    let agent = [("name", text()), ("status", text()), ("turns", count()), ("tool_calls", count())];
    let more = [("now", text()), ("member", json!({"type": ["object", "null"]}))];
    let part = object(&[("part", text())]);
    let file = object(&[
        ("path", text()),
        ("status", json!({"enum": ["added", "changed", "deleted", "unknown"]})),
        ("diff", text_or_null()),
        ("not_shown?", text()),
    ]);
    vec![
        ("Agent", object(&agent)),
        ("Member", object(&[&agent[..], &more[..]].concat())),
        ("MemberList", object(&[("members", list_of(&reference("Member")))])),
        (
            "Spawned",
            object(&[
                ("agent_id", text()),
                ("name", text()),
                ("team_name", text()),
                ("status", text()),
            ]),
        ),
        ("ConversationPage", page(&part, &[("agent", text()), ("program", text())])),
        (
            "Changes",
            object(&[
                ("member", text()),
                ("branch", json!({"type": ["object", "null"]})),
                ("files", list_of(&file)),
                ("left_out", count()),
                ("counts", list_of(&object(&[("member", text()), ("files", count())]))),
            ]),
        ),
    ]
}

fn of_work() -> Vec<Named> {
    let ids = list_of(&text());
    let task = |id: &'static str| {
        object(&[
            (id, text()),
            ("subject", text()),
            ("status", text()),
            ("owner?", text_or_null()),
            ("blockedBy", ids.clone()),
            ("blocks", ids.clone()),
        ])
    };
    let entry = object(&[
        ("at_ms", json!({"type": "integer"})),
        ("kind", text()),
        ("event", text()),
        ("agent", text_or_null()),
        ("text", text()),
    ]);
    let receipt = object(&[("id", text()), ("to", text()), ("state", text())]);
    let change = json!({
        "type": "object", "minProperties": 1, "maxProperties": 1,
        "propertyNames": {"enum": ["changed", "happened", "part", "call"]},
    });
    let at_ms = json!({"type": "integer"});
    let timed = object(&[("seq", count()), ("at_ms", at_ms), ("what", change)]);
    vec![
        ("Task", task("taskId")),
        ("TaskRow", task("id")),
        ("TaskFile", task("id")),
        ("TaskList", object(&[("tasks", list_of(&reference("TaskRow"))), ("total", count())])),
        ("TaskChanged", object(&[("taskId", text()), ("status", text())])),
        ("LogPage", page(&entry, &[])),
        (
            "Replay",
            object(&[
                ("name", text()),
                ("clock", json!({"enum": ["recorded", "lines"]})),
                ("from_ms", json!({"type": "integer"})),
                ("to_ms", json!({"type": "integer"})),
                ("first", json!({"type": "object"})),
                ("events", list_of(&timed)),
                ("left_out", count()),
                ("unread", list_of(&text())),
            ]),
        ),
        (
            "Sent",
            object(&[
                ("success", json!({"const": true})),
                ("message", text()),
                ("recipients", list_of(&text())),
                ("receipts", list_of(&receipt)),
            ]),
        ),
    ]
}

fn of_people() -> Vec<Named> {
    let plan = object(&[
        ("request_id", text()),
        ("member", text()),
        ("state", json!({"enum": ["open", "approved", "rejected", "void"]})),
        ("plan", text_or_null()),
    ]);
    let question = object(&[
        ("id", text()),
        ("since_ms", json!({"type": "integer"})),
        ("question", object(&[("digest", text()), ("lines", json!({"type": "array"}))])),
        ("input", json!({})),
    ]);
    let rule = object(&[
        ("list", json!({"enum": ["deny", "ask", "allow"]})),
        ("rule", text()),
        ("origin", text()),
    ]);
    let permissions = object(&[
        ("answers", json!({"enum": ["person", "nobody", "yes"]})),
        ("rules", list_of(&rule)),
        ("granted", json!({"type": "array"})),
        ("left_out", count()),
    ]);
    vec![
        (
            "Answered",
            object(&[
                ("success", json!({"const": true})),
                ("question", text()),
                ("is_written", json!({"type": ["boolean", "null"]})),
                ("warning?", text()),
            ]),
        ),
        ("Question", question),
        ("QuestionList", object(&[("questions", list_of(&reference("Question")))])),
        ("PlanList", object(&[("plans", list_of(&plan))])),
        ("Permissions", permissions),
    ]
}
