//! The plans of teammates.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pitcrew_runtime::control_socket::ControlRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::body::Body;
use crate::etag::tagged;
use crate::failure::Failure;
use crate::routes::control::asked;

/// `GET /api/teams/{team}/plans`
pub(super) async fn list(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let plans = app.records(&team).await?.plans().await?;
    tagged(&headers, &json!({"plans": plans}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    member: String,
    approve: bool,
    feedback: Option<String>,
}

/// `POST /api/teams/{team}/plans/{request}`
pub(super) async fn answer(
    State(app): State<Shared>,
    Path((team, request)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let Answer { member, approve, feedback } = body.read()?;
    let (team, member) = app.member(&team, &member).await?;
    let member = member.to_string();
    asked(&team, ControlRequest::Plan { request, member, approve, feedback }).await
}
