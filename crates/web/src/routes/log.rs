//! The durable timeline of a team, archived or not.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;

use crate::app::Shared;
use crate::etag::tagged;
use crate::failure::Failure;
use crate::paging::Page;

/// `GET /api/teams/{team}/log`
pub(super) async fn page(
    State(app): State<Shared>,
    Path(team): Path<String>,
    page: Page,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&team).await?;
    tagged(&headers, &app.logs.read(&records, |log| page.of_list(log)).await?)
}
