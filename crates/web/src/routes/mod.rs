//! The operations of the API, one file for each group.

mod changes;
mod control;
mod conversation;
mod events;
mod log;
mod members;
mod messages;
mod metrics;
mod moved;
mod plans;
mod questions;
mod replay;
mod session;
mod tasks;
mod teams;
mod view;

pub(crate) use events::Snapshots;
pub(crate) use messages::IDEMPOTENCY_KEY;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};

use crate::app::Shared;
use crate::etag::tagged;
use crate::failure::{Failure, code};
use crate::metrics::count;
use crate::viewing::View;
use crate::{access, assets, error_page, openapi, pairing};

/// Returns all paths of the server, with the checks before them.
pub(crate) fn all(app: Shared) -> Router {
    let api = Router::new()
        .route("/openapi.json", get(described))
        .route("/session", get(session::show))
        .route("/teams", get(teams::list).post(teams::create))
        .nest("/teams/{team}", of_team().layer(from_fn(moved::read_again)))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), access::guard_api));
    let for_operators = Router::new()
        .route("/metrics", get(metrics::all))
        .layer(from_fn_with_state(app.clone(), access::guard_api));
    // A GET of these two paths uses up a one-time secret. Without a handler of its own, HEAD would do
    // the same.
    let pairing = Router::new()
        .route("/pair", post(pairing::program))
        .route("/pair/{code}", get(pairing::browser).head(no_such_method))
        .layer(from_fn(pairing::guard));
    Router::new()
        .merge(pairing)
        .route("/", get(assets::index))
        .route("/assets/{*name}", get(assets::asset))
        .route("/open/{nonce}", get(access::open).head(no_such_method))
        .route("/api/health", get(health))
        .merge(for_operators)
        .nest("/api", api)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), access::guard_site))
        .layer(from_fn(error_page::for_browsers))
        // The last layer is the outer one, so refused requests are counted too.
        .layer(from_fn_with_state(app.clone(), count))
        .with_state(app)
}

/// Returns all paths of a server that was started for one view, with the same checks before them.
pub(crate) fn of_view(app: Shared, view: View) -> Router {
    let api = Router::new()
        .route("/replay", get(view::whole))
        .route("/events", get(view::events))
        .layer(Extension(view))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), access::guard_api));
    Router::new()
        .route("/", get(assets::view))
        .route("/assets/{*name}", get(assets::asset))
        .route("/open/{nonce}", get(access::open).head(no_such_method))
        .route("/api/health", get(health))
        .nest("/api/view", api)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), access::guard_site))
        .layer(from_fn(error_page::for_browsers))
        .with_state(app)
}

fn of_team() -> Router<Shared> {
    Router::new()
        .route("/", get(teams::show).delete(teams::remove))
        .route("/members", get(members::list).post(control::spawn))
        .nest("/members/{name}", of_member())
        .route("/tasks", get(tasks::list).post(tasks::create))
        .route("/tasks/{id}", get(tasks::show).patch(tasks::update))
        .route("/tasks/{id}/claim", post(tasks::claim))
        .route("/messages", get(messages::list).post(messages::send))
        .route("/questions", get(questions::list))
        .route("/questions/{id}/answer", post(questions::answer))
        .route("/plans", get(plans::list))
        .route("/plans/{request}", post(plans::answer))
        .route("/permissions", get(control::permissions))
        .route("/permissions/{request}", post(control::permission))
        .route("/end", post(control::end))
        .route("/stop", post(control::stop))
        .route("/log", get(log::page))
        .route("/replay", get(replay::of_team))
        .route("/events", get(events::stream))
}

fn of_member() -> Router<Shared> {
    Router::new()
        .route("/", get(members::show))
        .route("/", delete(control::shut_down))
        .route("/stop", post(control::stop_member))
        .route("/mode", post(control::mode))
        .route("/model", post(control::model))
        .route("/compact", post(control::compact))
        .route("/interrupt", post(control::interrupt))
        .route("/hide_pane", post(control::hide_pane))
        .route("/show_pane", post(control::show_pane))
        .route("/conversation", get(conversation::page))
        .route("/changes", get(changes::list))
        .route("/merge", post(changes::merge))
}

/// `GET /api/health`
async fn health() -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}

/// `GET /api/openapi.json`
async fn described(headers: HeaderMap, State(_): State<Shared>) -> Result<Response, Failure> {
    tagged(&headers, &openapi::document())
}

async fn no_such_path() -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        code::NOT_FOUND,
        "there is no such path; /api/openapi.json lists them",
    )
}

async fn no_such_method() -> Failure {
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        code::METHOD_NOT_ALLOWED,
        "this path has no such method; /api/openapi.json lists them",
    )
}
