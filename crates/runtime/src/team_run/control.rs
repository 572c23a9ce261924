//! Handles requests that the user's other processes send to the lead through the control socket.

use std::time::Duration;

use pitcrew_agent::Event;
use pitcrew_agent::transcript::Grant;
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, SendMessageInput, SpawnInput, chain};
use pitcrew_team::{Actor, SentView, SpawnView, Team, USER};
use pitcrew_tools::ToolOutcome;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::answers::Decided;
use super::run_machine::{EndReason, RunInput};
use super::team_loop::TeamLoop;
use super::user_requests::PaneSight;
use super::wake::Decision;
use crate::control_socket::{Call, ControlRequest, ControlServer, ENDED_BY, ENDING};
use crate::question::Digest;
use crate::run::AnswerReceipt;

/// If a caller waits for the end of a team, this part of its waiting time is reserved for the steps
/// after the teammates have left.
const END_TAKES: Duration = Duration::from_secs(5);

impl TeamLoop {
    /// Opens the control socket if the team has a folder for the socket. If opening fails, the run
    /// continues without a control socket.
    pub(super) async fn open_control(&mut self) {
        let team = &self.run_context.team;
        let Some(folder) = team.own_folder() else { return };
        match ControlServer::open(&folder, self.sources.visitors.clone()) {
            Ok(control) => self.sources.control = Some(control),
            Err(error) => {
                self.warn(format!(
                    "other processes cannot send requests to the lead: {}",
                    chain(&error)
                ))
                .await;
            }
        }
    }

    /// Opens the control socket again if its file was removed, for example together with its
    /// folder.
    pub(super) async fn keep_control_open(&mut self) {
        if self.sources.control.as_ref().is_some_and(|control| !control.is_in_place()) {
            // The old control server removes its socket file when it is dropped. Drop it before the
            // new server opens, because otherwise it would remove the new server's socket file.
            self.sources.control = None;
            self.open_control().await;
        }
    }

    pub(super) async fn visited(&mut self, call: Call) -> Vec<RunInput> {
        let mut inputs = Vec::new();
        if call.caller.is_gone() {
            tracing::info!("a request is not carried out: its caller did not wait for the answer");
            return inputs;
        }
        let answer = match call.control_request.clone() {
            ControlRequest::EndTeam { wait_seconds } => {
                let wait = wait_seconds
                    .map(|wait| Duration::from_secs(wait.into()).saturating_sub(END_TAKES));
                // If the caller waits longer than the usual grace period, the teammates get that
                // longer time to shut down.
                self.asking_grace = wait.map_or(self.grace, |wait| wait.max(self.grace));
                inputs.push(RunInput::EndAsked(EndReason::ShutDown));
                Ok(self.ending_answer())
            }
            ControlRequest::Shutdown { member, reason } => {
                self.shut_down_for_user(member, reason).await
            }
            ControlRequest::StopRun => {
                inputs.push(RunInput::EndAsked(EndReason::Interrupted));
                Ok(json!({"success": true, (ENDING): self.ending_already()}))
            }
            ControlRequest::StopMember { member } => self.stop_for_user(&member).await,
            ControlRequest::Mode { member, mode } => self.set_mode_for_user(&member, &mode).await,
            ControlRequest::Model { member, model } => {
                self.set_model_for_user(&member, &model).await
            }
            ControlRequest::Compact { member } => self.compact_for_user(member.as_deref()),
            ControlRequest::HidePane { member } => {
                self.place_pane_for_user(&member, PaneSight::Hidden, call).await;
                return inputs;
            }
            ControlRequest::ShowPane { member } => {
                self.place_pane_for_user(&member, PaneSight::Shown, call).await;
                return inputs;
            }
            ControlRequest::Permissions => self.permissions_for_user(),
            ControlRequest::Permission { request, allow, reason, digest } => {
                self.permit_for_user(request, allow, reason, digest).await
            }
            ControlRequest::Plan { request, member, approve, feedback } => {
                self.answer_plan_for_user(request, member, approve, feedback).await
            }
            ControlRequest::Spawn { input } => return self.spawn_for_user(input, call).await,
            ControlRequest::Interrupt { member } => {
                let interrupted = self.interrupt_for_user(member.as_deref());
                interrupted.map(|(answer, more)| {
                    inputs.extend(more);
                    answer
                })
            }
            // The control socket passes these requests to the host.
            ControlRequest::Follow { .. } | ControlRequest::Answer { .. } => {
                let says = "only the host of a run carries out this request";
                Err(ApiError::new(ErrorCode::InternalError, says))
            }
        };
        call.caller.answer(answer).await;
        inputs
    }

    /// Interrupts the lead's turn. Its subagents in the foreground are part of the turn.
    pub(super) fn interrupt_lead(&self) -> Vec<RunInput> {
        self.interrupt(&AgentName::lead());
        vec![RunInput::Interrupted(AgentName::lead())]
    }

    fn interrupt(&self, name: &AgentName) {
        self.agents.tell(name, Event::Interrupted);
        self.agents.drop_subagents(name, |it| !it.is_in_background());
    }

    fn interrupt_for_user(&self, member: Option<&str>) -> Result<(Value, Vec<RunInput>), ApiError> {
        let name = member.map_or_else(AgentName::lead, AgentName::foreign);
        let answer = json!({"success": true, "name": name});
        if name == AgentName::lead() {
            return Ok((answer, self.interrupt_lead()));
        }
        self.member_here(&name, "which only the keys of its pane can interrupt")?;
        self.interrupt(&name);
        Ok((answer, vec![RunInput::Interrupted(name)]))
    }

    /// Returns the answer to a request to end the team.
    fn ending_answer(&self) -> Value {
        let mut answer = json!({"success": true, (ENDING): self.ending_otherwise()});
        if let (None, Some(answer)) = (self.machine.end_reason(), answer.as_object_mut()) {
            let grace_ms = i64::try_from(self.asking_grace.as_millis()).unwrap_or(i64::MAX);
            let now_ms = self.run_context.team.teams().now_ms();
            answer.insert(ENDED_BY.to_owned(), json!(now_ms.saturating_add(grace_ms)));
        }
        answer
    }

    /// Returns the reason why the run was already ending before the request to end the team.
    /// Returns `None` if the run was not ending. The earlier reason stays, and it decides whether
    /// the teammates can be resumed.
    fn ending_otherwise(&self) -> Option<String> {
        self.machine
            .end_reason()
            .filter(|end_reason| !matches!(end_reason, EndReason::ShutDown))
            .map(EndReason::in_words)
    }

    /// Returns the reason why the run was already ending. Returns `None` if it was not ending.
    fn ending_already(&self) -> Option<String> {
        self.machine.end_reason().map(EndReason::in_words)
    }

    async fn shut_down_for_user(
        &mut self,
        member: String,
        reason: Option<String>,
    ) -> Result<Value, ApiError> {
        let input = SendMessageInput::ShutdownRequest { recipient: member, content: reason };
        let sent = self.run_context.team.send(&Actor::User, input, None).await?;
        Ok(json!(SentView(&sent)))
    }

    async fn set_mode_for_user(&mut self, member: &str, mode: &str) -> Result<Value, ApiError> {
        // The request may write the name in another way than the config.
        let name = self.run_context.team.member(member).await?.name;
        self.run_context.team.set_mode(&Actor::User, &name, mode).await?;
        Ok(json!({"success": true, "name": name, "mode": mode}))
    }

    /// Sends the user's decision about a teammate's plan to the teammate, in the lead's name. Also
    /// informs the lead.
    pub(super) async fn answer_plan_for_user(
        &mut self,
        request: String,
        member: String,
        approve: bool,
        feedback: Option<String>,
    ) -> Result<Value, ApiError> {
        let team = &self.run_context.team;
        let member = team.member(&member).await?.name;
        let remark = feedback.as_deref().filter(|remark| !remark.trim().is_empty());
        let remark = remark.map(|remark| format!(" The user told {member}: {remark}"));
        let answered = if approve { "approved" } else { "rejected" };
        let notice = format!(
            "The user has {answered} the plan of {member} (request {}); do not answer it.{}",
            request.escape_debug(),
            remark.unwrap_or_default()
        );
        let sent = team.answer_plan_for_user(&request, member.as_str(), approve, feedback).await?;
        tell_lead(team, &notice, "the user answered a plan").await;
        Ok(json!(SentView(&sent)))
    }

    /// Spawns a teammate in the same way as the lead's tool does. The caller gets its answer when
    /// the teammate has started or its start has failed.
    async fn spawn_for_user(&mut self, input: Value, call: Call) -> Vec<RunInput> {
        let input = match SpawnInput::parse(input) {
            Ok(input) => input,
            Err(error) => {
                call.caller
                    .answer(Err(ApiError::new(ErrorCode::InvalidRequest, error.to_string())))
                    .await;
                return Vec::new();
            }
        };
        let (answer, answered) = oneshot::channel();
        let (mut reply, id) = (Some(answer), format!("user:{}", Uuid::new_v4()));
        let (outcome, inputs) = match self.spawn(&input, USER, id, &mut reply).await {
            Ok((outcome, inputs)) => (outcome, inputs),
            Err(outcome) => (outcome, Vec::new()),
        };
        if let Some(reply) = reply {
            // The receiver is still used below, so sending cannot fail.
            let _heard = reply.send(outcome);
        }
        let team = self.run_context.team.clone();
        // Wait for the start in a separate task: a process in a pane needs time to start, and the
        // loop must not wait for it.
        tokio::spawn(async move {
            let spawned = match answered.await {
                Ok(outcome) => spawn_answer(&team, &outcome).await,
                Err(_gone) => Err(ApiError::new(
                    ErrorCode::InvalidStatus,
                    "the run ended before the teammate had started",
                )),
            };
            if let Ok(member) = &spawned {
                let text = format!(
                    "The user has added the teammate {} to the team: {}",
                    member.name, input.description
                );
                tell_lead(&team, &text, "the user added a teammate").await;
            }
            call.caller.answer(spawned.map(|member| json!(member))).await;
        });
        inputs
    }

    fn no_request(&self, request: &str) -> ApiError {
        let says = format!("there is no permission request '{request}'");
        ApiError::new(ErrorCode::InvalidStatus, says)
            .with("request_id", request)
            .with("open_requests", self.agents.open_questions())
    }

    /// Answers a permission request, even if a person is being asked about it elsewhere at the same
    /// time. The first answer counts.
    async fn permit_for_user(
        &mut self,
        request: String,
        allow: bool,
        reason: Option<String>,
        digest: Option<Digest>,
    ) -> Result<Value, ApiError> {
        let Some(asked) = self.agents.question(&request) else {
            return Err(self.no_request(&request));
        };
        if digest.is_some_and(|digest| digest != asked.digest) {
            let message = format!(
                "the permission request '{request}' is about another call than this answer"
            );
            return Err(ApiError::new(ErrorCode::InvalidStatus, message)
                .with("request_id", request.as_str()));
        }
        let grant = match allow {
            true => Grant::Allowed { input: None, updates: Vec::new() },
            false => {
                Grant::Denied { reason: reason.unwrap_or_else(|| "the user said no".to_owned()) }
            }
        };
        let (receipt, taken) = AnswerReceipt::new();
        let decided = Decided { receipt, ..grant.into() };
        let (id, pause) = (request.clone(), Duration::ZERO);
        self.decided(Decision::ByMail { request: id, decided, pause }).await;
        let taken = taken.await.unwrap_or_else(|_| Err(self.no_request(&request)))?;
        Ok(taken.told(json!({"success": true, "request_id": request, "allowed": allow})))
    }
}

/// Informs the lead of an action that the user took in the lead's place. A failure is only logged,
/// because the lead notices the effects of the action anyway.
pub(super) async fn tell_lead(team: &Team, text: &str, summary: &str) {
    if let Err(error) = team.notify_lead(text, summary).await {
        tracing::warn!(error = chain(&error), "cannot tell the lead what the user did");
    }
}

/// Returns the result of a spawn in the form for programs: the new member, or the error.
async fn spawn_answer(team: &Team, outcome: &ToolOutcome) -> Result<SpawnView, ApiError> {
    if outcome.is_error {
        // If the team refused the spawn, the outcome contains the error as data. If the run refused
        // it, the outcome contains only a text.
        return Err(serde_json::from_value(outcome.data.clone()).unwrap_or_else(|_only_a_text| {
            let text = outcome.data.as_str().unwrap_or(&outcome.text);
            ApiError::new(ErrorCode::InvalidRequest, text.strip_prefix("Error: ").unwrap_or(text))
        }));
    }
    let name = outcome.data.get("name").and_then(Value::as_str).unwrap_or_default();
    let config = team.config().await?;
    let gone =
        || ApiError::new(ErrorCode::AgentNotFound, format!("{name} has left the team already"));
    config.member(name).map(|member| SpawnView::of(member, &config)).ok_or_else(gone)
}
