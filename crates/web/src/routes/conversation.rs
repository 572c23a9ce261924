//! The conversation of an agent.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use pitcrew_protocol::AgentName;
use pitcrew_view::conversation::recorded;
use serde_json::json;

use crate::app::Shared;
use crate::etag::tagged;
use crate::failure::{Failure, code};
use crate::paging::Page;

/// `GET /api/teams/{team}/members/{name}/conversation`
pub(super) async fn page(
    State(app): State<Shared>,
    Path((team, name)): Path<(String, String)>,
    page: Page,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&team).await?;
    let config = records.config_with_former().await?;
    // A subagent has a conversation and is no member.
    let agent = match records.summary().await?.members.keys().find(|it| it.as_str() == name) {
        Some(agent) => agent.clone(),
        None => records.member(&name).await?,
    };
    let Some((program, conversation)) = recorded(&records, &config, &agent, &app.root).await?
    else {
        return Err(nothing_recorded(&agent));
    };
    let mut answer = page.of_list(conversation.parts);
    answer.insert("agent".to_owned(), json!(agent));
    answer.insert("program".to_owned(), program.into());
    answer.insert("unread_lines".to_owned(), conversation.unread_lines.into());
    tagged(&headers, &answer)
}

fn nothing_recorded(agent: &AgentName) -> Failure {
    let message = format!("no conversation of '{agent}' is recorded");
    Failure::new(StatusCode::NOT_FOUND, code::NOT_FOUND, message).with("agent", agent.as_str())
}
