//! The questions that wait for a person.

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pitcrew_runtime::control_socket::ControlRequest;
use pitcrew_runtime::question::{Choice, Digest, Keep};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Holder;
use crate::app::Shared;
use crate::body::Body;
use crate::devices::Scope;
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
    Extension(holder): Extension<Holder>,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let Answer { digest, choice } = body.read()?;
    // It would change the user's settings, and outlive the device.
    if matches!(choice, Choice::Always { keep: Keep::Saved, .. }) {
        holder.must(Scope::Everything)?;
    }
    let team = app.team(&team).await?;
    let request = ControlRequest::Answer { question, digest, choice };
    let Json(mut answer) = asked(&team, request).await?;
    // A host of an earlier version does not say whether the answer is written.
    if let Some(fields) = answer.as_object_mut() {
        fields.entry("is_written").or_insert(Value::Null);
    }
    Ok(Json(answer))
}
