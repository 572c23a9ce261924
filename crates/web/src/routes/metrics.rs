//! The metrics of the server and of the teams.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use crate::app::Shared;
use crate::failure::Failure;
use crate::metrics::{TEXT_FORMAT, scrape};

/// `GET /metrics`
pub(super) async fn all(State(app): State<Shared>) -> Result<Response, Failure> {
    let text = scrape(&app).await?;
    Ok(([(CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}
