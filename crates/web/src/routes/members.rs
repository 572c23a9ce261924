//! Lists and shows the members of a team.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pitcrew_protocol::{Member, same_name};
use pitcrew_team::TeamRecords;
use pitcrew_view::AgentState;
use serde::Serialize;
use serde_json::json;

use crate::app::Shared;
use crate::etag::tagged;
use crate::failure::Failure;
use crate::records;

/// A member or former member of a team.
#[derive(Debug, Serialize)]
struct MemberRow {
    /// What the agent does and what it used.
    #[serde(flatten)]
    agent: AgentState,
    /// The agent's activity as one line of text.
    now: String,
    /// The member as its team's config has it. Null for an agent that left the team.
    member: Option<Member>,
}

async fn rows(records: &TeamRecords) -> Result<Vec<MemberRow>, Failure> {
    let config = records.config().await?;
    let agents = records::state(records).await?.team.agents;
    let row = |agent: AgentState| {
        let member = config.member(agent.name.as_str()).cloned();
        MemberRow { now: agent.now(), member, agent }
    };
    Ok(agents.into_iter().map(row).collect())
}

/// `GET /api/teams/{team}/members`
pub(super) async fn list(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&team).await?;
    tagged(&headers, &json!({"members": rows(&records).await?}))
}

/// `GET /api/teams/{team}/members/{name}`
pub(super) async fn show(
    State(app): State<Shared>,
    Path((team, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&team).await?;
    let all = rows(&records).await?;
    // A subagent is in the list and is no member.
    if let Some(row) = all.iter().find(|row| same_name(row.agent.name.as_str(), &name)) {
        return tagged(&headers, row);
    }
    let name = records.member(&name).await?;
    let row = all.into_iter().find(|row| row.agent.name == name);
    tagged(&headers, &row)
}
