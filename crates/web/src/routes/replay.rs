//! The replay of a team: its run as timed events.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pitcrew_view::replay::Replay;

use crate::app::Shared;
use crate::etag::tagged_json;
use crate::failure::Failure;

/// `GET /api/teams/{team}/replay`
pub(super) async fn of_team(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    // The semaphore is never closed.
    let _permit = app.replay_permits.acquire().await.map_err(|error| Failure::internal(&error))?;
    let replay = Replay::of_records(&app.records(&team).await?).await?;
    let json = serde_json::to_vec(&replay).map_err(|error| Failure::internal(&error))?;
    Ok(tagged_json(&headers, json))
}
