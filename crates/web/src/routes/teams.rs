//! Lists, makes, shows and deletes teams.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::future::{Either, join_all, ready};
use futures_util::stream::{self, StreamExt as _};
use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, LEAD_NAME, Task, TaskStatus, TeamCreateInput, TeamCreated,
    TeamDeleted, TeamDir,
};
use pitcrew_team::{Actor, CreateTeam, MadeBy, OnTaken, TeamRecords};
use pitcrew_view::TeamState;
use pitcrew_view::agent_now::Spending;
use pitcrew_view::host::OpenQuestion;
use pitcrew_view::recorded;
use pitcrew_view::running::Running;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::app::{NewTeams, Shared};
use crate::body::Body;
use crate::etag::tagged;
use crate::failure::Failure;
use crate::records::{self, OfHost, TeamStatus};

/// The model that the config names for a lead that was never started.
const INHERITED: &str = "inherit";

/// How long the list of all teams waits for the host of one. The hosts are asked at the same time.
const LIST_PATIENCE: Duration = Duration::from_millis(500);

/// The maximum number of teams of the list that are opened at once.
const OPENED_AT_ONCE: usize = 32;

/// One team in the list.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    description: Option<String>,
    state: TeamStatus,
    /// The id of the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<String>,
    lead: Option<AgentName>,
    members: Vec<AgentName>,
    tasks: TaskCounts,
    /// How many requests wait for a person. `None` if no pitcrew process runs the team and answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
    created_at_ms: Option<i64>,
    /// When the team was archived. `None` if it is not, or if the archive does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_at_ms: Option<i64>,
    /// The cost in US dollars of all runs. `None` if no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    /// Why the team cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct TaskCounts {
    open: usize,
    done: usize,
}

impl TaskCounts {
    fn of(tasks: &[Task]) -> Self {
        let done = tasks.iter().filter(|task| task.status == TaskStatus::Completed).count();
        Self { open: tasks.len() - done, done }
    }
}

impl Row {
    async fn of(records: &TeamRecords) -> Result<Self, Failure> {
        let config = records.config().await?;
        let running = records::running(records).await?;
        let archive = match records {
            TeamRecords::Live(_) => None,
            TeamRecords::Archived(_, archived) => Some(archived.name.to_string()),
        };
        // All members have left an archived team.
        let members = match archive {
            None => config.members.iter().map(|member| member.name.clone()).collect(),
            Some(_) => records.all_members().await?,
        };
        // A team whose journal cannot be read is listed all the same.
        let spending = records.summary().await.map(|summary| Spending::of_team(&summary));
        Ok(Self {
            name: config.name.to_string(),
            description: config.description.clone(),
            state: records::status(running.as_ref()),
            archive,
            lead: config.member(LEAD_NAME).map(|lead| lead.name.clone()),
            members,
            tasks: TaskCounts::of(&records.tasks().await?),
            waiting: waiting(records).await?,
            created_at_ms: config.created_at_ms,
            archived_at_ms: archived_at_ms(records),
            cost_usd: spending.ok().and_then(|spending| spending.cost_usd),
            problem: None,
        })
    }

    fn unreadable(name: String, state: TeamStatus, problem: String) -> Self {
        let archive = (state == TeamStatus::Archived).then(|| name.clone());
        Self {
            name,
            description: None,
            state,
            archive,
            lead: None,
            members: Vec::new(),
            tasks: TaskCounts::default(),
            waiting: None,
            created_at_ms: None,
            archived_at_ms: None,
            cost_usd: None,
            problem: Some(problem),
        }
    }
}

/// Asks the host of a team how many requests wait for a person.
async fn waiting(records: &TeamRecords) -> Result<Option<usize>, Failure> {
    Ok(match records::of_host(records, LIST_PATIENCE).await? {
        OfHost::State(state) => Some(state.questions.len()),
        OfHost::NoHost | OfHost::Silent => None,
    })
}

fn archived_at_ms(records: &TeamRecords) -> Option<i64> {
    match records {
        TeamRecords::Live(_) => None,
        TeamRecords::Archived(_, archived) => archived.archived_at_ms,
    }
}

/// `GET /api/teams`
pub(super) async fn list(
    State(app): State<Shared>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let mut rows = Vec::new();
    let folders = app.reads.folders().await.map_err(|error| Failure::internal(&error))?;
    // A config that is being written is waited for, and the others need not wait for it.
    let open = async |folder: TeamDir| (app.reads.open(folder.as_str()).await, folder);
    let mut opened = stream::iter(folders.into_iter().map(open)).buffered(OPENED_AT_ONCE);
    while let Some((opened, folder)) = opened.next().await {
        match opened {
            Ok(team) => {
                // An error is in the row.
                let _remembered = app.remember(&team).await;
                rows.push(Either::Left(row(folder.to_string(), TeamRecords::Live(team))));
            }
            // The team was deleted after the folders were listed.
            Err(error) if error.code == ErrorCode::TeamNotFound => {}
            Err(error) => {
                // Its config would say who leads it.
                let unknown = TeamStatus::Unknown;
                let row = Row::unreadable(folder.to_string(), unknown, error.message);
                rows.push(Either::Right(ready(row)));
            }
        }
    }
    for entry in app.reads.archived().await? {
        let id = entry.name.to_string();
        match entry.team {
            Ok(team) => {
                let records = TeamRecords::Archived(app.reads.clone(), Box::new(team));
                rows.push(Either::Left(row(id, records)));
            }
            Err(error) => {
                let row = Row::unreadable(id, TeamStatus::Archived, error.message);
                rows.push(Either::Right(ready(row)));
            }
        }
    }
    tagged(&headers, &json!({"teams": join_all(rows).await}))
}

async fn row(name: String, records: TeamRecords) -> Row {
    let state = match &records {
        TeamRecords::Live(_) => TeamStatus::Stopped,
        TeamRecords::Archived(..) => TeamStatus::Archived,
    };
    match Row::of(&records).await {
        Ok(row) => row,
        Err(failure) => Row::unreadable(name, state, failure.message().to_owned()),
    }
}

/// `POST /api/teams`
pub(super) async fn create(
    State(app): State<Shared>,
    body: Body,
) -> Result<(StatusCode, Json<TeamCreated>), Failure> {
    let input = TeamCreateInput::parse(body.value())?;
    let folder = match &app.new_teams {
        NewTeams::In(folder) => folder,
        NewTeams::Refused(error) => return Err(error.clone().into()),
    };
    let wanted = CreateTeam {
        input,
        cwd: folder.display().to_string(),
        model: INHERITED.to_owned(),
        session_id: Uuid::new_v4().to_string(),
        on_taken: OnTaken::Refuse,
        made_by: MadeBy::Caller,
        first_run: None,
    };
    let (_, created) = app.teams.create(wanted).await?;
    Ok((StatusCode::CREATED, Json(created)))
}

/// The whole state of a team.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    state: TeamStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_at_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Running>,
    /// `running` as a text for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    running_in_words: Option<String>,
    description: Option<String>,
    team: TeamState,
    tasks: Vec<Task>,
    questions: Vec<OpenQuestion>,
    /// What of the journal and of the tasks cannot be read, as texts for a person.
    unread: Vec<String>,
}

/// `GET /api/teams/{team}`
pub(super) async fn show(
    State(app): State<Shared>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&name).await?;
    let config = records.config().await?;
    let running = records::running(&records).await?;
    let state = records::state(&records).await?;
    let shown = Shown {
        name: config.name.to_string(),
        state: records::status(running.as_ref()),
        archive: match &records {
            TeamRecords::Live(_) => None,
            TeamRecords::Archived(_, archived) => Some(archived.name.to_string()),
        },
        archived_at_ms: archived_at_ms(&records),
        running_in_words: running.as_ref().map(Running::text),
        running,
        description: config.description,
        team: state.team,
        tasks: state.tasks,
        questions: state.questions,
        unread: recorded::unread(&records).await?,
    };
    tagged(&headers, &shown)
}

/// `DELETE /api/teams/{team}`
pub(super) async fn remove(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Json<TeamDeleted>, Failure> {
    let team = app.team(&name).await?;
    let running = Running::of(&team, team.config().await?.as_ref()).await?;
    if let Running::ByPitcrew { .. } | Running::BySession { .. } = running {
        let message = format!("team '{}' is {}; end it first", team.name(), running.text());
        return Err(ApiError::new(ErrorCode::InvalidStatus, message)
            .with("team_name", team.name().as_str())
            .into());
    }
    let deleted = team.delete(&Actor::User).await?;
    if deleted.success {
        return Ok(Json(deleted));
    }
    Err(ApiError::new(ErrorCode::InvalidStatus, deleted.message)
        .with("team_name", team.name().as_str())
        .into())
}
