//! The questions that wait for a person.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pitcrew_runtime::control_socket::ControlRequest;
use pitcrew_runtime::question::{Choice, Digest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::body::Body;
use crate::etag::tagged;
use crate::failure::Failure;
use crate::records;
use crate::routes::control::asked;

/// `GET /api/teams/{team}/questions`
pub(super) async fn list(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&team).await?;
    let state = records::state(&records).await?;
    tagged(&headers, &json!({"questions": state.questions}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    digest: Digest,
    choice: Choice,
}

/// `POST /api/teams/{team}/questions/{id}/answer`
pub(super) async fn answer(
    State(app): State<Shared>,
    Path((team, question)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let Answer { digest, choice } = body.read()?;
    let team = app.team(&team).await?;
    asked(&team, ControlRequest::Answer { question, digest, choice }).await
}
