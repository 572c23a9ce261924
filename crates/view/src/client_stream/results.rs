//! The results of team tools, and the mail in the lead's conversation.
//!
//! A result is read by its own fields, because a stream can begin after the call.

use std::borrow::Cow;

use pitcrew_protocol::{AgentId, AgentName, Frame, Injected, PermissionMode, Status, id_by_rank};
use pitcrew_runtime::events::{AgentStarted, RunEvent};

use super::calls::Ask;
use super::fact::{StreamFact, tell};
use super::line::{ResultData, Routing};
use super::raw::Raw;
use super::session::{AGENTS_MOST, Session, lead, set_status};
use crate::fold::{color_of, fold_run};
use crate::state::{Cleanup, Happened, Mail, Route, TeamState, bounded};

/// The status in the result of a call that started a teammate.
const SPAWNED: &str = "teammate_spawned";

/// Maximum number of recipients that are kept of one message.
const RECIPIENTS_MOST: usize = 1_000;

impl Session {
    /// Folds the result of a team tool into the state. `ask` is `None` if the call is not known.
    pub(super) fn team_result(
        &mut self,
        state: &mut TeamState,
        agent: &AgentName,
        ask: Option<Ask>,
        data: &ResultData<'_>,
    ) {
        let is_failure = data.success.flag() == Some(false);
        if data.status.is(SPAWNED) {
            self.spawned(state, ask.as_ref(), data);
        } else if data.team_file_path.is_some() {
            self.team_created(state, data);
        } else if is_cleanup(ask.as_ref(), data) {
            self.cleaned_up(state, is_failure, text(data.message));
        } else if is_failure {
            // The message was not sent, or the task was not changed.
        } else if let Some(routing) = &data.routing {
            self.sent(state, ask.as_ref(), data, routing);
        } else if data.request_id.is_some() {
            self.requested(state, agent, ask.as_ref(), data);
        } else {
            self.task_result(state, agent, ask, data);
        }
    }

    /// Folds a call that was refused into the state.
    pub(super) fn call_failed(
        &mut self,
        state: &mut TeamState,
        ask: Option<&Ask>,
        reason: impl FnOnce() -> String,
    ) {
        if matches!(ask, Some(Ask::Cleanup)) {
            self.cleaned_up(state, true, reason());
        }
    }

    fn team_created(&mut self, state: &mut TeamState, data: &ResultData<'_>) {
        let lead = data.lead_agent_id.text().map(|id| AgentId::foreign(&id).name());
        if state.lead.is_none() {
            let lead = lead.and_then(|name| AgentName::new(name.as_str()).ok());
            tell(state, StreamFact::Lead(lead.unwrap_or_else(AgentName::lead)));
        }
        self.in_team(state, &text(data.team_name));
    }

    /// Records the name of the team, if it is new.
    pub(super) fn in_team(&mut self, state: &mut TeamState, team: &str) {
        let is_over = state.cleanup == Some(Cleanup::CleanedUp);
        if team.is_empty() || (state.team == team && !is_over) {
            return;
        }
        tell(state, StreamFact::Team(team));
        self.note(state, Happened::TeamCreated { team: team.to_owned() });
    }

    fn spawned(&mut self, state: &mut TeamState, ask: Option<&Ask>, data: &ResultData<'_>) {
        let Some(id) = identity(data) else { return };
        let (name, team) = AgentId::split(&id).unwrap_or((&id, ""));
        let Ok(agent) = AgentName::new(name) else { return };
        lead(state);
        let team = data.team_name.text().unwrap_or(Cow::Borrowed(team));
        self.in_team(state, &team);
        let (asked, prompt) = match ask {
            Some(Ask::Spawn { mode, prompt, .. }) => (*mode, prompt.as_deref()),
            Some(_) | None => (None, None),
        };
        let plans = data.plan_mode_required.flag() == Some(true);
        let mode = if plans { Some(PermissionMode::Plan) } else { asked };
        let color = data.color.text().and_then(|color| color_of(&color));
        let agent_type = data.agent_type.id().map(Cow::into_owned);
        let model = data.model.id().map(Cow::into_owned);
        let has_room = state.agents.len() < AGENTS_MOST || state.agent(&agent).is_some();
        if has_room && !self.has_team_events {
            let started = AgentStarted {
                agent: agent.clone(),
                parent_call: None,
                agent_type: agent_type.clone(),
                model: model.clone().unwrap_or_default(),
                color: color.map(|color| color.as_str().to_owned()),
                cwd: self.cwd.clone(),
                mode: mode.unwrap_or(self.mode.handed_down()),
            };
            fold_run(state, &RunEvent::AgentStarted(started));
            set_status(state, &agent, Status::Active);
        }
        if let (Some(prompt), Some(lead)) = (prompt, &state.lead) {
            self.converse(|conversations| conversations.started(&agent, lead, prompt));
        }
        self.note(state, Happened::Spawned { agent, color, agent_type, model });
    }

    fn cleaned_up(&mut self, state: &mut TeamState, is_failure: bool, reason: String) {
        if is_failure {
            tell(state, StreamFact::Cleanup(Cleanup::Failed(reason.clone())));
            return self.note(state, Happened::CleanupFailed { reason });
        }
        tell(state, StreamFact::Cleanup(Cleanup::CleanedUp));
        let lead = state.lead.clone();
        let others = state.agents.iter().filter(|agent| Some(&agent.name) != lead.as_ref());
        let left = others.filter(|agent| !agent.status.is_over());
        // A client cleans up only after its teammates have ended.
        for name in left.map(|agent| agent.name.clone()).collect::<Vec<_>>() {
            set_status(state, &name, Status::Completed);
        }
        self.note(state, Happened::CleanedUp);
    }

    fn sent(
        &mut self,
        state: &mut TeamState,
        ask: Option<&Ask>,
        data: &ResultData<'_>,
        routing: &Routing<'_>,
    ) {
        let target = routing.target.text().unwrap_or_default();
        let to = if target == "@team" {
            let recipients = data.recipients.ids(RECIPIENTS_MOST);
            Route::Team(recipients.iter().filter_map(|name| AgentName::new(name).ok()).collect())
        } else {
            let Some(name) = name_of(&target) else { return };
            Route::Agent(name)
        };
        let kind = match (ask, &to) {
            (Some(Ask::Send { kind, .. }), _) => *kind,
            (_, Route::Team(_)) => "broadcast",
            (_, Route::Agent(_)) => "message",
        };
        let mail = Mail {
            from: text(routing.sender),
            to,
            kind: kind.to_owned(),
            summary: routing.summary.text().map(bounded),
            text: text(routing.content),
        };
        self.note(state, Happened::Mail(mail));
    }

    /// Reads the acknowledgement of a request or of an answer to one.
    fn requested(
        &mut self,
        state: &mut TeamState,
        agent: &AgentName,
        ask: Option<&Ask>,
        data: &ResultData<'_>,
    ) {
        let is_shutdown = data.request_id.text().is_some_and(|id| id.starts_with("shutdown-"));
        let (kind, to, said) = match ask {
            Some(Ask::Send { kind, to, text }) => (*kind, to.as_deref(), text.as_str()),
            Some(_) | None if is_shutdown && data.target.is_some() => {
                ("shutdown_request", None, "")
            }
            Some(_) | None => return,
        };
        let target = data.target.text();
        let Some(to) = target.as_deref().or(to).and_then(name_of).or_else(|| state.lead.clone())
        else {
            return;
        };
        let is_over = state.agent(&to).is_none_or(|known| known.status.is_over());
        match kind {
            "shutdown_request" if !is_over => set_status(state, &to, Status::ShutdownRequested),
            "plan_approval_response" if !is_over => set_status(state, &to, Status::Active),
            _ => {}
        }
        let mail = Mail {
            from: agent.to_string(),
            to: Route::Agent(to),
            kind: kind.to_owned(),
            summary: None,
            text: said.to_owned(),
        };
        self.note(state, Happened::Mail(mail));
    }

    /// Folds mail of a teammate to the lead into the state.
    pub(super) fn received(&mut self, state: &mut TeamState, mail: Injected) {
        let frame = Frame::detect(&mail.text);
        let from = name_of(&mail.from);
        let status = frame.as_ref().and_then(status_after);
        let is_open = |name: &AgentName| state.agent(name).is_some_and(|it| !it.status.is_over());
        if let (Some(status), Some(name)) = (status, from.filter(is_open)) {
            set_status(state, &name, status);
        }
        let mail = Mail {
            from: bounded(mail.from.into()),
            to: Route::Agent(lead(state)),
            kind: frame.as_ref().map_or("message", Frame::kind).to_owned(),
            summary: mail.summary.map(|text| bounded(text.into())),
            text: bounded(frame.and_then(words_of).unwrap_or(mail.text).into()),
        };
        self.note(state, Happened::Mail(mail));
    }
}

/// Returns a field as text. A field that is absent is the empty text.
fn text(raw: Raw<'_>) -> String {
    bounded(raw.text().unwrap_or_default())
}

/// Returns the name of an agent in `@name`, `name` or `name@team`.
pub(super) fn name_of(text: &str) -> Option<AgentName> {
    let text = text.strip_prefix('@').unwrap_or(text);
    AgentName::new(AgentId::split(text).map_or(text, |(name, _)| name)).ok()
}

/// Returns the identity of a new teammate, by the normalisation rules of the stream document.
fn identity<'a>(data: &ResultData<'a>) -> Option<Cow<'a, str>> {
    id_by_rank(|field| match field {
        "teammate_id" => data.teammate_id.text(),
        "agent_id" => data.agent_id.text(),
        "agentId" => data.agent_id_camel.text(),
        "name" => data.name.text(),
        _ => None,
    })
}

/// Whether a result is the answer to a request to clean up the team.
fn is_cleanup(ask: Option<&Ask>, data: &ResultData<'_>) -> bool {
    match ask {
        Some(ask) => matches!(ask, Ask::Cleanup) && data.success.flag().is_some(),
        None => data.success.flag().is_some() && data.team_name.is_some() && data.message.is_some(),
    }
}

/// Returns the state of a teammate after it sent a frame to its lead.
fn status_after(frame: &Frame) -> Option<Status> {
    match frame {
        Frame::IdleNotification(_) => Some(Status::Idle),
        Frame::ShutdownApproved(_) => Some(Status::Completed),
        Frame::ShutdownRejected(_) => Some(Status::Active),
        Frame::ShutdownResponse(it) => {
            Some(if it.approved { Status::Completed } else { Status::Active })
        }
        Frame::PlanApprovalRequest(_) => Some(Status::AwaitingPlanApproval),
        Frame::TaskAssignment(_)
        | Frame::TaskCompleted(_)
        | Frame::ShutdownRequest(_)
        | Frame::PlanApprovalResponse(_)
        | Frame::PermissionRequest(_)
        | Frame::PermissionResponse(_)
        | Frame::TeammateTerminated(_) => None,
    }
}

/// Returns the part of a frame that a person reads.
fn words_of(frame: Frame) -> Option<String> {
    match frame {
        Frame::IdleNotification(it) => it.summary.or(it.failure_reason).or(it.idle_reason),
        Frame::TaskAssignment(it) => it.subject,
        Frame::TaskCompleted(it) => it.task_subject,
        Frame::ShutdownRequest(it) => it.reason,
        Frame::ShutdownApproved(_) => Some(String::new()),
        Frame::ShutdownRejected(it) => it.reason,
        Frame::ShutdownResponse(it) => it.content,
        Frame::PlanApprovalRequest(it) => it.plan_content.or(it.plan),
        Frame::PlanApprovalResponse(it) => it.feedback,
        Frame::PermissionRequest(it) => it.description.or(Some(it.tool_name)),
        Frame::PermissionResponse(it) => it.error.or(Some(it.subtype)),
        Frame::TeammateTerminated(it) => Some(it.message),
    }
}
