//! Pairs a device: exchanges a one-time code for a token of its own.
//!
//! These two paths need no key, but the caller must be a process of the user, as everywhere.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::{check_caller, forbidden, is_known_browser, to_page, too_often};
use crate::app::{App, Shared};
use crate::body::Body;
use crate::devices::Paired;
use crate::failure::Failure;

/// How many codes may be tried in [`PERIOD`].
const TRIES_MOST: usize = 10;

/// The time to which the limit of tries applies.
const PERIOD: Duration = Duration::from_secs(60);

/// The latest tries to pair a device.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    times: Mutex<VecDeque<Instant>>,
}

impl Tries {
    /// Counts a try. If there were too many, returns how long the caller must wait.
    fn count(&self, now: Instant) -> Result<(), Duration> {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.retain(|time| now.saturating_duration_since(*time) < PERIOD);
        match times.front() {
            Some(first) if times.len() >= TRIES_MOST => Err((*first + PERIOD) - now),
            _ => {
                times.push_back(now);
                Ok(())
            }
        }
    }
}

/// The body of a request to pair a program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    code: String,
}

/// Checks the process that wants to pair a device.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    match check_caller(request.extensions().get()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

/// `POST /pair`: pairs a program, which gets its token as JSON.
pub(crate) async fn program(
    State(app): State<Shared>,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let Pair { code } = body.read()?;
    let Paired { name, scope, token } = paired(&app, &code).await?;
    let answer = json!({"name": name, "scope": scope, "token": token});
    Ok((StatusCode::CREATED, Json(answer)))
}

/// `GET /pair/{code}`: pairs a browser, which gets its token as a cookie.
pub(crate) async fn browser(
    State(app): State<Shared>,
    Path(code): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let Paired { token, .. } = match paired(&app, &code).await {
        Err(_refused) if is_known_browser(&app, &headers).await => return Ok(to_page()),
        paired => paired?,
    };
    let cookie = app.keys.device_cookie(&token);
    Ok((StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)]).into_response())
}

async fn paired(app: &App, code: &str) -> Result<Paired, Failure> {
    let counted = app.pair_tries.count(Instant::now());
    counted.map_err(|wait| too_often("too many codes were tried", wait))?;
    let found = app.devices.pair(code).await.map_err(|error| Failure::of_devices(&error))?;
    found.ok_or_else(|| {
        forbidden("this code is wrong, used or too old; `pitcrew devices add` makes another")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_limited_until_the_first_one_is_old() {
        let (tries, start) = (Tries::default(), Instant::now());
        for _ in 0..TRIES_MOST {
            tries.count(start).unwrap();
        }
        let soon = start + Duration::from_secs(20);
        assert_eq!(tries.count(soon), Err(Duration::from_secs(40)));
        tries.count(start + PERIOD).unwrap();
    }
}
