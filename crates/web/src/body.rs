//! The body of a request: one JSON object of a limited length, which must come in time.

use std::error::Error;
use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::{Failure, code};

/// The maximum length of a body in bytes. The limits of texts are far below it.
pub(crate) const BYTES_MOST: usize = 1 << 20;

/// How long the body of a request may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The JSON object in the body of a request. A missing body is an empty object.
#[derive(Debug)]
pub(crate) struct Body(pub(crate) Map<String, Value>);

impl Body {
    /// Reads the object as a type.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, Failure> {
        serde_json::from_value(Value::Object(self.0))
            .map_err(|error| Failure::invalid(format!("the body cannot be used: {error}")))
    }

    /// Returns the object as a JSON value.
    pub(crate) fn value(self) -> Value {
        Value::Object(self.0)
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Failure;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Failure> {
        let headers = request.headers();
        let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > BYTES_MOST as u64) {
            return Err(too_large());
        }
        let is_json = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok()?.split(';').next())
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        let bytes = bytes_of(request).await?;
        if bytes.is_empty() {
            return Ok(Self(Map::new()));
        }
        // A form of another site cannot have this type.
        if !is_json {
            let message = "the body must be JSON, with the header Content-Type: application/json";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Failure::new(status, code::MEDIA_TYPE, message));
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(Failure::invalid("the body must be a JSON object")),
            Err(error) => Err(Failure::invalid(format!("the body is not JSON: {error}"))),
        }
    }
}

async fn bytes_of(request: Request) -> Result<Bytes, Failure> {
    let read = to_bytes(request.into_body(), BYTES_MOST);
    match tokio::time::timeout(TIMEOUT, read).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.source().is_some_and(<dyn Error>::is::<LengthLimitError>) => {
            Err(too_large())
        }
        Ok(Err(error)) => Err(Failure::invalid(format!("the body cannot be read: {error}"))),
        Err(_) => {
            let message = "the body of the request did not come in time";
            Err(Failure::new(StatusCode::REQUEST_TIMEOUT, code::TIMEOUT, message))
        }
    }
}

fn too_large() -> Failure {
    let message = format!("a body of at most {BYTES_MOST} bytes is read");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, code::TOO_LARGE, message).with("limit", BYTES_MOST)
}
