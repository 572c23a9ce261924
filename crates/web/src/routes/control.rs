//! The requests that only the process of a team carries out.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use pitcrew_protocol::SendMessageInput;
use pitcrew_runtime::control_socket::ControlRequest;
use pitcrew_team::{Actor, SentView, Team, TeamRecords};
use pitcrew_view::lead;
use pitcrew_view::running::Running;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::body::Body;
use crate::etag::tagged;
use crate::failure::Failure;
use crate::records::{self, OfHost, PATIENCE};

/// The names of a team and of one of its members.
type MemberPath = Path<(String, String)>;

/// Asks the process of a team.
pub(super) async fn asked(team: &Team, request: ControlRequest) -> Result<Json<Value>, Failure> {
    if let Some(answer) = lead::ask(team, &request).await? {
        return Ok(Json(answer));
    }
    let running = Running::of(team, team.config().await?.as_ref()).await?;
    let name = team.name().as_str();
    Err(match running {
        Running::ByPitcrew { .. } | Running::No => Failure::not_running(name),
        Running::BySession { .. }
        | Running::Stale { .. }
        | Running::Elsewhere { .. }
        | Running::Unknown => Failure::led_by_another(name, &running),
    })
}

/// `POST /api/teams/{team}/members`
pub(super) async fn spawn(
    State(app): State<Shared>,
    Path(team): Path<String>,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let team = app.team(&team).await?;
    // A start may take minutes. A run that is suspended is told before that.
    let records = TeamRecords::Live(team.clone());
    if matches!(records::of_host(&records, PATIENCE).await?, OfHost::Silent) {
        return Err(Failure::silent(team.name().as_str()));
    }
    let answer = asked(&team, ControlRequest::Spawn { input: body.value() }).await?;
    Ok((StatusCode::CREATED, answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShutDown {
    reason: Option<String>,
}

/// `DELETE /api/teams/{team}/members/{name}`
pub(super) async fn shut_down(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let ShutDown { reason } = body.read()?;
    let (team, member) = app.member(&team, &name).await?;
    let request = ControlRequest::Shutdown { member: member.to_string(), reason: reason.clone() };
    if let Some(answer) = lead::ask(&team, &request).await? {
        return Ok(Json(answer));
    }
    // In a team whose lead signs nothing, the user can ask.
    let input =
        SendMessageInput::ShutdownRequest { recipient: member.to_string(), content: reason };
    let sent = team.send(&Actor::User, input, None).await;
    let sent = sent.map_err(|error| lead::without(&team, error))?;
    Ok(Json(json!(SentView(&sent))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mode {
    mode: String,
}

/// `POST /api/teams/{team}/members/{name}/mode`
pub(super) async fn mode(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let Mode { mode } = body.read()?;
    let (team, member) = app.member(&team, &name).await?;
    let request = ControlRequest::Mode { member: member.to_string(), mode: mode.clone() };
    if let Some(answer) = lead::ask(&team, &request).await? {
        return Ok(Json(answer));
    }
    // Without the lead, only plan mode can be set, and only in a team of ours.
    let set = team.set_mode(&Actor::User, &member, &mode).await;
    set.map_err(|error| lead::without(&team, error))?;
    Ok(Json(json!({"success": true, "name": member, "mode": mode})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    model: String,
}

/// `POST /api/teams/{team}/members/{name}/model`
pub(super) async fn model(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let Model { model } = body.read()?;
    let (team, member) = app.member(&team, &name).await?;
    asked(&team, ControlRequest::Model { member: member.to_string(), model }).await
}

/// `POST /api/teams/{team}/members/{name}/stop`
pub(super) async fn stop_member(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
) -> Result<Json<Value>, Failure> {
    let (team, member) = app.member(&team, &name).await?;
    asked(&team, ControlRequest::StopMember { member: member.to_string() }).await
}

/// `POST /api/teams/{team}/members/{name}/compact`
pub(super) async fn compact(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
) -> Result<Json<Value>, Failure> {
    let (team, member) = app.member(&team, &name).await?;
    asked(&team, ControlRequest::Compact { member: Some(member.to_string()) }).await
}

/// `POST /api/teams/{team}/members/{name}/interrupt`
pub(super) async fn interrupt(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
) -> Result<Json<Value>, Failure> {
    let (team, member) = app.member(&team, &name).await?;
    asked(&team, ControlRequest::Interrupt { member: Some(member.to_string()) }).await
}

/// `POST /api/teams/{team}/members/{name}/hide_pane`
pub(super) async fn hide_pane(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
) -> Result<Json<Value>, Failure> {
    let (team, member) = app.member(&team, &name).await?;
    asked(&team, ControlRequest::HidePane { member: member.to_string() }).await
}

/// `POST /api/teams/{team}/members/{name}/show_pane`
pub(super) async fn show_pane(
    State(app): State<Shared>,
    Path((team, name)): MemberPath,
) -> Result<Json<Value>, Failure> {
    let (team, member) = app.member(&team, &name).await?;
    asked(&team, ControlRequest::ShowPane { member: member.to_string() }).await
}

/// `GET /api/teams/{team}/permissions`
pub(super) async fn permissions(
    State(app): State<Shared>,
    Path(team): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let Json(permissions) = asked(&app.team(&team).await?, ControlRequest::Permissions).await?;
    tagged(&headers, &permissions)
}

/// The answer to a permission request of a member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Permission {
    allow: bool,
    reason: Option<String>,
    digest: Option<Value>,
}

/// `POST /api/teams/{team}/permissions/{request}`
pub(super) async fn permission(
    State(app): State<Shared>,
    Path((team, request)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let Permission { allow, reason, digest } = body.read()?;
    let digest = digest.map(serde_json::from_value).transpose();
    let digest =
        digest.map_err(|error| Failure::invalid(format!("the digest is none: {error}")))?;
    let team = app.team(&team).await?;
    asked(&team, ControlRequest::Permission { request, allow, reason, digest }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    wait_seconds: Option<u32>,
}

/// `POST /api/teams/{team}/end`
pub(super) async fn end(
    State(app): State<Shared>,
    Path(team): Path<String>,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let End { wait_seconds } = body.read()?;
    asked(&app.team(&team).await?, ControlRequest::EndTeam { wait_seconds }).await
}

/// `POST /api/teams/{team}/stop`
pub(super) async fn stop(
    State(app): State<Shared>,
    Path(team): Path<String>,
) -> Result<Json<Value>, Failure> {
    asked(&app.team(&team).await?, ControlRequest::StopRun).await
}
