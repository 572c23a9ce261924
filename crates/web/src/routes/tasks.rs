//! The tasks of a team.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use pitcrew_protocol::{ApiError, ErrorCode, StatusChange, Task, TaskCreateInput, TaskUpdateInput};
use pitcrew_team::{Actor, OnceTask, TaskListView, TaskView};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::body::Body;
use crate::etag::tagged;
use crate::failure::Failure;
use crate::routes::messages::{key_in, key_reused};

/// `GET /api/teams/{team}/tasks`
pub(super) async fn list(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let tasks = app.records(&team).await?.tasks().await?;
    tagged(&headers, &TaskListView::of(&tasks))
}

/// `GET /api/teams/{team}/tasks/{id}`
pub(super) async fn show(
    State(app): State<Shared>,
    Path((team, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let tasks = app.records(&team).await?.tasks().await?;
    let task = tasks.iter().find(|task| task.id.as_str() == id);
    let task = task.ok_or_else(|| unknown_task(&id, &tasks))?;
    tagged(&headers, &TaskView::of(task))
}

fn unknown_task(id: &str, tasks: &[Task]) -> ApiError {
    let valid: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    ApiError::new(ErrorCode::TaskNotFound, format!("Task '{id}' does not exist"))
        .with("task_id", id)
        .with("valid_tasks", valid)
}

/// `POST /api/teams/{team}/tasks`
pub(super) async fn create(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<TaskView>), Failure> {
    let key = key_in(&headers)?;
    let input = TaskCreateInput::parse(body.value())?;
    let team = app.team(&team).await?;
    let Some(key) = key else {
        let task = team.create_task(&Actor::User, input, None).await?;
        return Ok((StatusCode::CREATED, Json(TaskView::of(&task))));
    };
    match team.create_task_once(&Actor::User, input, &key).await? {
        OnceTask::Made(task) => Ok((StatusCode::CREATED, Json(TaskView::of(&task)))),
        OnceTask::KeyReused => Err(key_reused(&key)),
    }
}

/// `PATCH /api/teams/{team}/tasks/{id}`
pub(super) async fn update(
    State(app): State<Shared>,
    Path((team, id)): Path<(String, String)>,
    Body(mut fields): Body,
) -> Result<Json<Value>, Failure> {
    // The path names the task. A body with another id is a mistake of the caller.
    if fields.get("taskId").is_some_and(|given| given != id.as_str()) {
        return Err(Failure::invalid("the body names another task than the path"));
    }
    fields.insert("taskId".to_owned(), id.clone().into());
    let input = TaskUpdateInput::parse(Value::Object(fields))?;
    let team = app.team(&team).await?;
    let is_deleted = input.status == Some(StatusChange::Deleted);
    let updated = team.update_task(&Actor::User, input).await?;
    if is_deleted {
        return Ok(Json(json!({"taskId": updated.task_id, "status": "deleted"})));
    }
    let task = team.task(updated.task_id.as_str()).await?;
    Ok(Json(json!(TaskView::of(&task))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    owner: String,
}

/// `POST /api/teams/{team}/tasks/{id}/claim`
pub(super) async fn claim(
    State(app): State<Shared>,
    Path((team, id)): Path<(String, String)>,
    body: Body,
) -> Result<Json<TaskView>, Failure> {
    let Claim { owner } = body.read()?;
    let (team, owner) = app.member(&team, &owner).await?;
    let task = team.claim(&Actor::Member(owner), Some(&id)).await?;
    Ok(Json(TaskView::of(&task)))
}
