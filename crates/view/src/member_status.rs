//! Finds the process, the pane and the state of each member of a team. The first source is
//! pitcrew's records of the members that it started. The second is the member's lease (a lock
//! file), whose holder is the member's process. The last source is the team's config, which can be
//! out of date.

use std::collections::BTreeMap;

use pitcrew_process::identity::{ProcessIdentity, process_of_agent};
use pitcrew_protocol::{
    AgentName, BACKEND_IN_PROCESS, LEAD_NAME, Member, PaneHost, Program, TeamConfig,
};
use pitcrew_team::store::LeaseName;
use pitcrew_team::{PanePlace, Request, RequestKind, SpawnRecord, Started, Team};
use serde::{Deserialize, Serialize};

use crate::error::ViewError;
use crate::running::Running;
use crate::text::printable;
use crate::wording::{ASKS_FOR_PLAN, asks};

/// The program, pane, process and state of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// The member's name.
    name: AgentName,
    /// The program that runs the member: `pitcrew` or `claude`. Null if the program is not known.
    program: Option<String>,
    /// The member's pane. Null if the member has no pane.
    pane: Option<PanePlace>,
    /// The process id of the member, or null if it is not known. For a member that runs in the
    /// lead's process, it is the process id of the lead.
    pid: Option<u32>,
    /// The state of the member's process.
    state: ProcessState,
    /// The text of the open request whose answer the member waits for. Null if the member waits for
    /// no answer.
    waits_for: Option<String>,
}

/// The state of a member's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// The member's process runs.
    Running,
    /// The member's process was started and is not ready yet.
    Starting,
    /// The member's process was started and is not ready, although its deadline is over.
    Late,
    /// The member's process was started and has ended. The next lead of the team starts the member
    /// again or removes it.
    Gone,
    /// No process runs the member at the moment.
    NotRunning,
    /// Another client runs the member or ran it earlier. That client does not record the process,
    /// so the state is not known.
    Unknown,
}

/// The time within which another client starts the process of a new member, in milliseconds.
const STARTS_WITHIN_MS: i64 = 10_000;

impl ProcessState {
    fn text(self) -> &'static str {
        match self {
            Self::Running => "runs",
            Self::Starting => "starts",
            Self::Late => "started, and not at work in time",
            Self::Gone => "gone",
            Self::NotRunning => "does not run",
            Self::Unknown => "unknown",
        }
    }
}

impl MemberStatus {
    /// Finds the process, pane and state of every member of a team. The lead comes first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of(
        team: &Team,
        config: &TeamConfig,
        lead: &Running,
    ) -> Result<Vec<Self>, ViewError> {
        // Read pitcrew's records only if pitcrew started a member of the team. Otherwise there are
        // no records, and reading them would create pitcrew's folder in the team's folder.
        let has_ours = config.members.iter().any(|member| SpawnRecord::of(member).is_some());
        let started = if has_ours { team.started().await? } else { BTreeMap::new() };
        let now_ms = team.teams().now_ms();
        let requests = match has_ours {
            true => team.requests().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "what members wait for is not known");
                BTreeMap::new()
            }),
            false => BTreeMap::new(),
        };
        let mut found: Vec<Self> = Vec::new();
        for member in &config.members {
            found.push(match started.get(&member.name) {
                Some(started) => Self::of_started(member, started, now_ms),
                None if member.is_called(LEAD_NAME) || is_in_process(member) => {
                    Self::in_lead(member, lead)
                }
                None => {
                    let lease = LeaseName::of_member(&member.name);
                    let holder = team
                        .lease_holder(&lease)
                        .await
                        .map_err(|source| ViewError::Store { team: team.dir().clone(), source })?;
                    let holder = holder.map(|holder| holder.pid);
                    match lead {
                        // A teammate in a pane can still run after the lead of its session has
                        // ended.
                        Running::BySession { .. } | Running::Stale { .. }
                            if holder.is_none() && SpawnRecord::of(member).is_none() =>
                        {
                            Self::of_session(member, now_ms)
                        }
                        Running::BySession { .. }
                        | Running::ByPitcrew { .. }
                        | Running::Stale { .. }
                        | Running::Elsewhere { .. }
                        | Running::No
                        | Running::Unknown => Self::on_its_own(member, holder),
                    }
                }
            });
        }
        let of_lead = asks_of_lead(team, lead).await?;
        for found in &mut found {
            found.waits_for = waits_for(&found.name, &requests);
            if found.name.as_str() == LEAD_NAME {
                found.waits_for = found.waits_for.take().or_else(|| of_lead.clone());
            }
        }
        Ok(found)
    }

    /// Returns the member's name.
    pub fn name(&self) -> &AgentName {
        &self.name
    }

    /// Returns the state of the member's process.
    pub fn state(&self) -> ProcessState {
        self.state
    }

    /// Returns the member's process id, or `None` if it is not known.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Sets what the member waits for. pitcrew has no record of a request between other clients.
    pub(crate) fn wait_for(&mut self, asked: String) {
        self.waits_for = Some(asked);
    }

    /// Returns what the member waits for, as text: a permission, or an answer to its plan.
    pub fn waits_for(&self) -> Option<&str> {
        self.waits_for.as_deref()
    }

    /// Returns true if the member's process is certainly running.
    pub fn runs(&self) -> bool {
        match self.state {
            ProcessState::Running | ProcessState::Starting | ProcessState::Late => true,
            ProcessState::Gone | ProcessState::NotRunning | ProcessState::Unknown => false,
        }
    }

    /// Returns two texts for the cells of a table: the place and the state of the member.
    /// `backend_type` is the value of this field in the team's config.
    #[must_use]
    pub fn cells(&self, backend_type: Option<&str>) -> [String; 2] {
        let place = match &self.pane {
            Some(pane) => format!("{} {}", printable(&pane.host.backend), printable(&pane.id)),
            None => backend_type.filter(|kind| !kind.is_empty()).unwrap_or("-").to_owned(),
        };
        let who = match (self.program.as_deref(), self.pid) {
            (Some(program), Some(pid)) => format!(", {} {pid}", printable(program)),
            (None, Some(pid)) => format!(", process {pid}"),
            (Some(_) | None, None) => String::new(),
        };
        let asks = self
            .waits_for
            .as_ref()
            .map(|what| format!(", {}", printable(what)))
            .unwrap_or_default();
        [printable(&place).into_owned(), format!("{}{who}{asks}", self.state.text())]
    }

    fn of_started(member: &Member, started: &Started, now_ms: i64) -> Self {
        let process = started
            .process
            .map(|process| ProcessIdentity { pid: process.pid, start_ticks: process.start_ticks });
        let state = match (process, started.deadline_ms) {
            (None, _) => ProcessState::Unknown,
            (Some(process), _) if !process.is_alive() => ProcessState::Gone,
            (Some(_), None) => ProcessState::Running,
            (Some(_), Some(deadline_ms)) if now_ms <= deadline_ms => ProcessState::Starting,
            (Some(_), Some(_)) => ProcessState::Late,
        };
        Self {
            name: member.name.clone(),
            program: Some(started.program.to_string()),
            pane: started.pane.clone(),
            pid: process.map(|process| process.pid),
            state,
            waits_for: None,
        }
    }

    /// Creates the status of the lead, or of a member that runs in the lead's process.
    fn in_lead(member: &Member, lead: &Running) -> Self {
        let (program, pid, state) = match lead {
            Running::ByPitcrew { pid } => (Some("pitcrew"), Some(*pid), ProcessState::Running),
            Running::BySession { pid } => (Some("claude"), Some(*pid), ProcessState::Running),
            Running::Elsewhere { pid, .. } => (Some("claude"), Some(*pid), ProcessState::Unknown),
            Running::Stale { .. } => (Some("claude"), None, ProcessState::Gone),
            Running::No => (Some("pitcrew"), None, ProcessState::NotRunning),
            Running::Unknown => (None, None, ProcessState::Unknown),
        };
        Self {
            name: member.name.clone(),
            program: program.map(str::to_owned),
            pane: None,
            pid,
            state,
            waits_for: None,
        }
    }

    /// Creates the status of a teammate that runs in a pane of a session on this machine. The
    /// client of the session records no process. The process is therefore found by its command
    /// line, which contains the agent id.
    fn of_session(member: &Member, now_ms: i64) -> Self {
        let process = member.agent_id.as_ref().and_then(|id| process_of_agent(id.as_ref()));
        let unknown = Self::on_its_own(member, None);
        match process {
            Some(process) => Self {
                program: Some(Program::Claude.as_str().to_owned()),
                pid: Some(process.pid),
                state: ProcessState::Running,
                ..unknown
            },
            // The client adds a member to the config before it starts the member's process.
            None if member.joined_at_ms.is_some_and(|at_ms| now_ms - at_ms < STARTS_WITHIN_MS) => {
                Self { state: ProcessState::Starting, ..unknown }
            }
            None => Self { state: ProcessState::Gone, ..unknown },
        }
    }

    /// Creates the status of a member that runs in its own process and whose start pitcrew did not
    /// record. `pid` is the process that holds the member's lease.
    fn on_its_own(member: &Member, pid: Option<u32>) -> Self {
        let record = SpawnRecord::of(member);
        let state = match (&record, pid) {
            (_, Some(_)) => ProcessState::Running,
            (Some(_), None) => ProcessState::NotRunning,
            (None, None) => ProcessState::Unknown,
        };
        let pane = member.backend_type.clone().zip(member.tmux_pane_id.clone());
        let pane = pane
            .filter(|(_, id)| !id.is_empty())
            .map(|(backend, id)| PanePlace { host: PaneHost::of(&backend), id });
        // Only a member that pitcrew runs holds a lease.
        let program = record.map(|record| record.program.as_str()).or(pid.map(|_| "pitcrew"));
        Self {
            name: member.name.clone(),
            program: program.map(str::to_owned),
            pane,
            pid,
            state,
            waits_for: None,
        }
    }
}

/// Returns the latest open permission request of a lead that runs here, as text. Such a request is in
/// the journal and not among the requests between members.
async fn asks_of_lead(team: &Team, lead: &Running) -> Result<Option<String>, ViewError> {
    match lead {
        Running::ByPitcrew { .. } => {}
        Running::BySession { .. }
        | Running::Stale { .. }
        | Running::Elsewhere { .. }
        | Running::No
        | Running::Unknown => return Ok(None),
    }
    let summary = team.journal_summary().await;
    let (summary, _position) =
        summary.map_err(|source| ViewError::Store { team: team.dir().clone(), source })?;
    let lead = summary.members.get(&AgentName::lead());
    Ok(lead.and_then(|lead| lead.asks.last()).map(|open| asks(&open.tool)))
}

/// Returns the latest open request of a member as text: a request for a permission or for the
/// approval of a plan.
fn waits_for(name: &AgentName, requests: &BTreeMap<String, Request>) -> Option<String> {
    let open = requests.values().filter(|request| request.is_open() && request.from == *name);
    let latest = open
        .filter(|request| request.kind != RequestKind::Shutdown)
        .max_by_key(|request| request.at_ms)?;
    Some(match (latest.kind, &latest.tool) {
        (RequestKind::Permission, Some(tool)) => asks(tool),
        (RequestKind::Permission, None) => "asks permission".to_owned(),
        (RequestKind::Plan, _) => ASKS_FOR_PLAN.to_owned(),
        (RequestKind::Shutdown, _) => return None,
    })
}

fn is_in_process(member: &Member) -> bool {
    member.backend_type.as_deref() == Some(BACKEND_IN_PROCESS)
}
