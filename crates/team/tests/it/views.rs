//! The results for programs, checked against the API reference: a result must have every field that
//! the API reference names, with the right type.

use pitcrew_protocol::{ErrorCode, SendMessageInput, TaskUpdateInput};
use pitcrew_team::{Actor, SentView, SpawnView, TaskListView, TaskView, Team};
use serde::Serialize;
use serde_json::{Value, json};

use crate::team_env::{Crew, create, member, message, name, task, update};

/// Whether a value has the type `kind`. `kind` is written as in the API reference, for example
/// `string or null`.
fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "string or null" => value.is_string() || value.is_null(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "array of strings" => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
        "object" => value.is_object(),
        literal => value == literal,
    }
}

#[track_caller]
fn check(method: &str, answer: impl Serialize, fields: &[(&str, &str)]) -> Value {
    let answer = serde_json::to_value(answer).unwrap();
    for (field, kind) in fields {
        let value = answer.pointer(&format!("/{}", field.replace('.', "/")));
        assert!(
            value.is_some_and(|value| is(value, kind)),
            "{method}: {field} is no {kind}: {answer:#}"
        );
    }
    answer
}

#[tokio::test]
async fn answers_have_the_fields_of_the_api_reference() {
    let crew = Crew::new().await;
    let (team, created) = crew.teams.create(create("backend-ci-team")).await.unwrap();
    check_team_and_spawn(&team, created).await;
    check_tasks(&team).await;
    check_task_list(&team).await;
    check_messages(&team).await;
    check_end_of_team_and_error(&crew, &team).await;
}

async fn check_team_and_spawn(team: &Team, created: impl Serialize) {
    let answer = check(
        "TeamCreate",
        created,
        &[
            ("team_name", "backend-ci-team"),
            ("team_file_path", "string"),
            ("lead_agent_id", "string"),
        ],
    );
    assert_eq!(answer["lead_agent_id"], "team-lead@backend-ci-team");
    assert!(
        answer["team_file_path"].as_str().unwrap().ends_with("teams/backend-ci-team/config.json")
    );

    let spawned = team.spawn(member("ci-fix-agent")).await.unwrap();
    let answer = SpawnView::of(&spawned, &team.config().await.unwrap());
    let fields =
        [("name", "ci-fix-agent"), ("team_name", "backend-ci-team"), ("agentType", "string")];
    let answer = check("Task", answer, &[&fields[..], &[("status", "spawned")]].concat());
    assert_eq!(answer["agent_id"], "ci-fix-agent@backend-ci-team");
}

async fn check_tasks(team: &Team) {
    let mut with_all = task("Fix it");
    with_all.active_form = Some("Fixing it".into());
    with_all.metadata = Some(json!({"priority": "high"}).as_object().unwrap().clone());
    let made = team.create_task(&Actor::Lead, with_all, None).await.unwrap();
    let fields = [
        ("taskId", "1"),
        ("subject", "Fix it"),
        ("description", "string"),
        ("created_at", "string"),
        ("blockedBy", "array of strings"),
        ("blocks", "array of strings"),
    ];
    check(
        "TaskCreate",
        TaskView::of(&made),
        &[&fields[..], &[("status", "pending"), ("owner", "null")]].concat(),
    );

    team.create_task(&Actor::Lead, task("Tell of it"), None).await.unwrap();
    let change = TaskUpdateInput {
        owner: Some("ci-fix-agent".into()),
        add_blocks: vec!["2".into()],
        ..update("1")
    };
    team.update_task(&Actor::Lead, change).await.unwrap();
    let got = team.task("1").await.unwrap();
    let more = [
        ("status", "string"),
        ("owner", "ci-fix-agent"),
        ("updated_at", "string"),
        ("activeForm", "Fixing it"),
    ];
    let answer = check(
        "TaskUpdate, TaskGet",
        TaskView::of(&got),
        &[&fields[..], &more, &[("metadata", "object")]].concat(),
    );
    assert_eq!(
        (&answer["metadata"], &answer["blocks"]),
        (&json!({"priority": "high"}), &json!(["2"]))
    );
}

async fn check_task_list(team: &Team) {
    let list = TaskListView::of(&team.tasks().await.unwrap());
    let answer = check("TaskList", list, &[("tasks", "array"), ("total", "number")]);
    for row in answer["tasks"].as_array().unwrap() {
        let fields = [
            ("id", "string"),
            ("subject", "string"),
            ("status", "string"),
            ("owner", "string or null"),
        ];
        check(
            "TaskList",
            row,
            &[&fields[..], &[("blockedBy", "array of strings"), ("blocks", "array of strings")]]
                .concat(),
        );
    }
    assert_eq!((&answer["total"], &answer["tasks"][1]["blockedBy"]), (&json!(2), &json!(["1"])));
}

async fn check_messages(team: &Team) {
    let routing = [
        ("routing.sender", "team-lead"),
        ("routing.target", "string"),
        ("routing.summary", "string"),
    ];
    let fields =
        [("success", "boolean"), ("message", "string"), ("recipients", "array of strings")];
    let sent = team.send(&Actor::Lead, message("ci-fix-agent", "look"), None).await.unwrap();
    let answer = check("SendMessage", SentView(&sent), &[&fields[..], &routing].concat());
    assert_eq!(
        (&answer["success"], &answer["recipients"]),
        (&json!(true), &json!(["ci-fix-agent"]))
    );
    let all = SendMessageInput::Broadcast { content: "all".into(), summary: Some("to all".into()) };
    let sent = team.send(&Actor::Lead, all, None).await.unwrap();
    check("SendMessage", SentView(&sent), &[&fields[..], &routing].concat());
    let stop = SendMessageInput::ShutdownRequest {
        recipient: "ci-fix-agent".into(),
        content: Some("bye".into()),
    };
    let sent = team.send(&Actor::Lead, stop, None).await.unwrap();
    check("SendMessage", SentView(&sent), &fields);
}

async fn check_end_of_team_and_error(crew: &Crew, team: &Team) {
    let refused = team.delete(&Actor::Lead).await.unwrap();
    assert!(!refused.success, "there is a teammate");
    team.remove_member(&Actor::Lead, &name("ci-fix-agent")).await.unwrap();
    check(
        "TeamDelete",
        team.delete(&Actor::Lead).await.unwrap(),
        &[("success", "boolean"), ("message", "string")],
    );

    let error = crew.teams.open("backend-ci-team").await.unwrap_err();
    let fields = [
        ("error", "team_not_found"),
        ("message", "string"),
        ("details.team_name", "backend-ci-team"),
    ];
    let answer = check(
        "errors",
        error,
        &[&fields[..], &[("details.available_teams", "array of strings")]].concat(),
    );
    assert_eq!(answer["success"], false);
}

#[test]
fn the_codes_are_those_of_the_api_reference_and_two_of_ours() {
    let reference = [
        ("team_not_found", 404),
        ("agent_not_found", 404),
        ("task_not_found", 404),
        ("team_already_exists", 409),
        ("agent_already_exists", 409),
        ("invalid_status", 400),
        ("circular_dependency", 400),
        ("permission_denied", 403),
        ("rate_limit", 429),
        ("internal_error", 500),
    ];
    let ours = ErrorCode::ALL.map(|code| (code.as_str(), code.status()));
    assert_eq!(ours[..10], reference);
    assert_eq!(ours[10..], [("invalid_request", 400), ("message_not_found", 404)]);
    for code in ErrorCode::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
    }
}

#[test]
fn the_times_of_a_task_are_read_in_every_form_in_which_clients_note_them() {
    let times = |fields: &str| {
        let text = format!(
            r#"{{"id":"1","subject":"s","description":"d","status":"pending","blocks":[],"blockedBy":[]{fields}}}"#
        );
        let times = pitcrew_team::task_times(&pitcrew_protocol::from_text(&text).unwrap());
        (times.created_at, times.updated_at)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(times(""), (None, None));
    let as_text = r#","created_at":"2026-02-11T14:30:00Z","updated_at":"2026-02-11T14:35:00Z""#;
    assert_eq!(times(as_text), (some("2026-02-11T14:30:00Z"), some("2026-02-11T14:35:00Z")));
    let as_ms = r#","createdAt":1795175309433,"updatedAt":null"#;
    assert_eq!(times(as_ms), (some("2026-11-20T11:48:29.433Z"), None));
    // pitcrew's own record has priority. When pitcrew changes the task, it does not update the
    // fields of other programs.
    let ours = r#","metadata":{"pitcrew":{"updatedAt":1795175309434}},"created_at":"2026-02-11T14:30:00Z","updated_at":"x""#;
    assert_eq!(times(ours), (some("2026-02-11T14:30:00Z"), some("2026-11-20T11:48:29.434Z")));
}
