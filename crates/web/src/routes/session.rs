//! Who calls: the page shows only what its device may do.

use axum::Extension;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;

use crate::access::Holder;
use crate::devices::Scope;
use crate::etag::tagged;
use crate::failure::Failure;

/// The holder of the key of a request.
#[derive(Debug, Serialize)]
struct Session {
    caller: &'static str,
    /// The name of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    scope: Scope,
}

/// `GET /api/session`
pub(super) async fn show(
    headers: HeaderMap,
    Extension(holder): Extension<Holder>,
) -> Result<Response, Failure> {
    let scope = holder.scope();
    let (caller, name) = match holder {
        Holder::Token => ("token", None),
        Holder::Session(_) => ("browser", None),
        Holder::Device(device) => ("device", Some(device.name)),
    };
    tagged(&headers, &Session { caller, name, scope })
}
