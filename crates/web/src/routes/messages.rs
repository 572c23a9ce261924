//! The messages of a team.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use pitcrew_protocol::SendMessageInput;
use pitcrew_team::{Actor, Once, Receipt, Team};
use pitcrew_view::team_log::LogKind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::body::Body;
use crate::etag::tagged;
use crate::failure::{Failure, code};
use crate::paging::Page;

/// The recipient that means all members.
const ALL: &str = "*";

/// The header with which a caller names its request, so that it may repeat it.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The maximum number of characters of such a name.
const KEY_CHARS: usize = 128;

/// `GET /api/teams/{team}/messages`
pub(super) async fn list(
    State(app): State<Shared>,
    Path(team): Path<String>,
    page: Page,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&team).await?;
    let messages = app.logs.read(&records, |mut log| {
        // An inbox that cannot be read is named in the place of its messages.
        log.retain(|entry| entry.kind == LogKind::Mail || entry.is_unread());
        page.of_list(log)
    });
    tagged(&headers, &messages.await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    to: String,
    content: String,
    summary: Option<String>,
}

/// `POST /api/teams/{team}/messages`
pub(super) async fn send(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let key = key_in(&headers)?;
    let Message { to, content, summary } = body.read()?;
    let team = app.team(&team).await?;
    let routing = json!({"sender": "user", "target": to, "summary": summary});
    let input = match to.as_str() {
        ALL => SendMessageInput::Broadcast { content, summary },
        _ => SendMessageInput::Message { recipient: to, content, summary },
    };
    let receipts = sent(&team, input, key.as_deref()).await?;
    let recipients: Vec<&str> = receipts.iter().map(|receipt| receipt.to.as_str()).collect();
    let answer = json!({
        "success": true,
        "message": format!("Message sent to {}", recipients.join(", ")),
        "recipients": recipients,
        "receipts": receipts,
        "routing": routing,
    });
    Ok((StatusCode::CREATED, Json(answer)))
}

async fn sent(
    team: &Team,
    input: SendMessageInput,
    key: Option<&str>,
) -> Result<Vec<Receipt>, Failure> {
    let Some(key) = key else {
        return Ok(team.send(&Actor::User, input, None).await?.receipts);
    };
    match team.send_once(&Actor::User, input, key).await? {
        Once::Sent(receipts) => Ok(receipts),
        Once::KeyReused => Err(key_reused(key)),
    }
}

/// The error for a key that another request had.
pub(super) fn key_reused(key: &str) -> Failure {
    let message = "another request had this Idempotency-Key; a new request needs a new key";
    Failure::new(StatusCode::CONFLICT, code::KEY_REUSED, message).with("idempotency_key", key)
}

/// Returns the name that the caller gave its request.
///
/// # Errors
/// If the name is empty, too long, or has other characters than visible ASCII.
pub(super) fn key_in(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = key.to_str().unwrap_or_default();
    let is_key =
        (1..=KEY_CHARS).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if is_key {
        return Ok(Some(key.to_owned()));
    }
    Err(Failure::invalid(format!(
        "an Idempotency-Key has 1 to {KEY_CHARS} visible ASCII characters"
    )))
}
