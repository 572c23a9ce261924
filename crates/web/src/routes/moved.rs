//! Reads of a team that moves to the archive in the middle of the read. The part that was not read
//! yet is then missing in the place of the team. A second read finds the whole team in the archive.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use crate::failure::NoTeam;

/// Repeats a read, once, if it did not find its team.
pub(super) async fn read_again(request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let again = Request::from_parts(parts.clone(), Body::empty());
    let answer = next.clone().run(Request::from_parts(parts, body)).await;
    match answer.extensions().get::<NoTeam>() {
        Some(NoTeam) => next.run(again).await,
        None => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::extract::State;
    use axum::http::StatusCode;
    use axum::middleware::from_fn;
    use axum::routing::{get, post};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use pitcrew_protocol::{ApiError, ErrorCode};

    use super::*;
    use crate::failure::Failure;

    /// A team that is not found by the first two calls.
    async fn third(State(calls): State<Arc<AtomicUsize>>) -> Result<(), Failure> {
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(ApiError::new(ErrorCode::TeamNotFound, "no such team").into()),
            _ => Ok(()),
        }
    }

    #[tokio::test]
    async fn a_read_that_does_not_find_its_team_is_repeated_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let router = Router::new()
            .route("/", get(third))
            .route("/", post(third))
            .layer(from_fn(read_again))
            .with_state(calls.clone());
        let service = TowerToHyperService::new(router);
        let status = async |method: Method| {
            let request = Request::builder().method(method).uri("/").body(Body::empty()).unwrap();
            let Ok(answer) = service.call(request).await;
            (answer.status(), calls.load(Ordering::Relaxed))
        };
        assert_eq!(status(Method::POST).await, (StatusCode::NOT_FOUND, 1));
        assert_eq!(status(Method::GET).await, (StatusCode::OK, 3));
        calls.store(0, Ordering::Relaxed);
        assert_eq!(status(Method::GET).await, (StatusCode::NOT_FOUND, 2));
    }
}
