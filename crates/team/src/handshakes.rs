//! The three handshakes between lead and teammate: shutdown, plan approval and tool permission.
//! This module decides who is allowed to ask and who is allowed to answer. The module `requests`
//! makes sure that each request gets only one answer.

use pitcrew_protocol::{
    AgentName, ApiError, Foreign, Frame, LEAD_NAME, Member, PlanApprovalRequest,
    PlanApprovalResponse, RequestSent, Responded, ShutdownApproved, ShutdownRejected,
    ShutdownRequest, TeamConfig,
};
use serde_json::Value;

use crate::actor::{Actor, Rank, Speaker};
use crate::clock::wire_time;
use crate::delivery::{Receipt, frame_text};
use crate::mail::Mail;
use crate::requests::{Answer, Outgoing, Reply, Request, RequestKind};
use crate::send::{Recipient, Sent};
use crate::{Team, refusal};

mod permissions;

/// A request that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The id of the request.
    pub request_id: String,
    /// The receipt of the message that carries the request.
    pub receipt: Receipt,
    /// Whether the request already has an answer, from an earlier attempt of the same call. If so,
    /// the answer is or was in the inbox of the member that asked.
    pub is_answered: bool,
}

/// The result of a search for the recorded answer to a permission request.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerFound {
    /// The answer is in the inbox of the member that asked.
    There(Box<Mail>),
    /// The answer is in the inbox of the member that asked, but the key of the lead that signed the
    /// answer is not known yet.
    Waits,
    /// The answer is not in the inbox, or the signature of the answer is not valid.
    Lost,
}

/// The tool call for which a teammate asks permission.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionAsk {
    /// The name of the tool.
    pub tool_name: String,
    /// The id of the tool call. A second request for the same call creates no new request.
    pub tool_use_id: String,
    /// The purpose of the call, as a text for the person or agent who decides about the request.
    pub description: String,
    /// The input of the tool call.
    pub input: Value,
    /// Permission updates that would allow such calls in the future.
    pub suggestions: Vec<Value>,
    /// The digest of the tool and the input. An answer with another digest is refused.
    pub digest: Option<String>,
}

/// The lead's answer to a permission request.
#[derive(Clone, Debug, PartialEq)]
pub enum PermissionAnswer {
    /// The tool call is allowed.
    Allow {
        /// The input that the tool must run with.
        updated_input: Value,
        /// Permission updates that allow such calls in the future.
        updates: Vec<Value>,
        /// The digest of the tool and the input that were shown to the person or agent that allowed
        /// the call.
        digest: Option<String>,
    },
    /// The tool call is denied.
    Deny {
        /// The reason for the denial.
        reason: String,
    },
}

/// A shutdown request that is not sent yet.
pub(crate) struct ShutdownAsk<'a> {
    pub(crate) recipient: &'a str,
    pub(crate) reason: Option<String>,
    /// Whether the lead's run sends the request because the run is ending.
    pub(crate) is_parting: bool,
}

impl Team {
    /// Asks the lead to approve the plan of `member`. A second request with the same `call` creates
    /// no new request.
    ///
    /// # Errors
    /// `agent_not_found`, `internal_error`.
    pub async fn request_plan_approval(
        &self,
        member: &AgentName,
        path: &str,
        content: &str,
        call: Option<&str>,
    ) -> Result<Asked, ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(&Actor::Member(member.clone()), &config)?;
        let (team, call) = (self.clone(), call.map(str::to_owned));
        let (path, content) = (path.to_owned(), content.to_owned());
        let draft = move |at_ms: i64| {
            // Other clients show a request id to their model only if the id has this form.
            let id = format!("plan_approval-{at_ms}@{}@{}", speaker.name, config.name);
            let frame = PlanApprovalRequest {
                kind: PlanApprovalRequest::TYPE.into(),
                from: speaker.name.clone(),
                timestamp: Some(wire_time(at_ms)),
                plan_file_path: Some(path.clone()),
                plan_content: Some(content.clone()),
                plan: None,
                request_id: id.clone(),
                foreign: Foreign::default(),
            };
            let request = team.new_request(
                RequestKind::Plan,
                &speaker,
                AgentName::lead(),
                call.as_deref(),
                frame,
            )?;
            Ok((id, request))
        };
        let (request_id, receipt, is_answered) = self.ask_for(draft).await?;
        Ok(Asked { request_id, receipt, is_answered })
    }

    /// Asks a member to shut down because the run is ending. After the run,
    /// [`Team::void_parting_requests`] makes the request void, so that an answer no longer counts.
    ///
    /// # Errors
    /// `agent_not_found`, `permission_denied` for every handle except the lead's own,
    /// `internal_error`.
    pub async fn ask_to_part(&self, member: &AgentName, reason: &str) -> Result<(), ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(&Actor::Lead, &config)?;
        let request = ShutdownAsk {
            recipient: member.as_str(),
            reason: Some(reason.to_owned()),
            is_parting: true,
        };
        self.request_shutdown(&config, &speaker, request, None).await?;
        Ok(())
    }

    pub(crate) async fn request_shutdown(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        ShutdownAsk { recipient, reason, is_parting }: ShutdownAsk<'_>,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
        speaker.must_lead("ask a teammate to shut down")?;
        not_signed(config)?;
        self.may_command().await?;
        refusal::check_length(
            "content",
            reason.as_deref().unwrap_or_default(),
            self.limits().content_chars,
        )?;
        let to = match self.recipient(config, recipient).await? {
            Recipient::Member(member) => member.name,
            Recipient::Ended(name) => {
                let id = self.letter_id(
                    config,
                    call,
                    ["shutdown", speaker.frame_name(), name.as_str()],
                )?;
                return Err(self.dead_letter(&name, &id).await);
            }
        };
        if to.as_str() == LEAD_NAME {
            return Err(refusal::invalid(
                "the lead cannot be asked to shut down; it ends with its team",
            ));
        }
        let (team, from, asked) = (self.clone(), speaker.clone(), to.clone());
        let call = call.map(str::to_owned);
        let draft = move |at_ms: i64| {
            // Other clients show a request id to their model only if the id has this form.
            let id = format!("shutdown-{at_ms}@{asked}");
            let frame = ShutdownRequest {
                kind: ShutdownRequest::TYPE.into(),
                request_id: id.clone(),
                from: Some(from.frame_name().to_owned()),
                reason: reason.clone(),
                timestamp: Some(wire_time(at_ms)),
                foreign: Foreign::default(),
            };
            let mut request = team.new_request(
                RequestKind::Shutdown,
                &from,
                asked.clone(),
                call.as_deref(),
                frame,
            )?;
            request.is_parting = is_parting;
            Ok((id, request))
        };
        let (request_id, receipt, _) = self.ask_for(draft).await?;
        Ok(Sent::one(receipt, RequestSent::shutdown(to.as_str(), &request_id)))
    }

    pub(crate) async fn answer_shutdown(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        request_id: &str,
        approve: bool,
        content: Option<String>,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
        let Some(member) = config.member(&speaker.name).filter(|_| speaker.rank == Rank::Teammate)
        else {
            return Err(refusal::denied(
                "only the teammate that was asked may answer a shutdown request",
            ));
        };
        let reason = content.unwrap_or_default();
        refusal::check_length("content", &reason, self.limits().content_chars)?;
        if !approve {
            refusal::check_filled("content", &reason)?;
        }
        if approve
            && !reason.trim().is_empty()
            && self.is_asked_to_shut_down(&speaker.name, request_id).await?
        {
            // In the recordings of the reference client, the frame that approves a shutdown has no
            // field for a text. A separate message therefore carries the text, and is sent first.
            self.send_text(config, speaker, LEAD_NAME, reason.clone(), None, call).await?;
        }
        let frame = shutdown_frame(request_id, member, approve, &reason, wire_time(self.now_ms()));
        let reply =
            self.new_reply(RequestKind::Shutdown, request_id, speaker, approve, call, frame)?;
        let (_, receipt) = self.reply(reply).await?;
        let answer = if approve {
            Responded::shutdown_approved(&speaker.name, request_id)
        } else {
            Responded::shutdown_rejected(&speaker.name, &reason, request_id)
        };
        Ok(Sent::one(receipt, answer))
    }

    async fn is_asked_to_shut_down(&self, name: &str, request_id: &str) -> Result<bool, ApiError> {
        let requests = self.requests().await?;
        let request = requests
            .get(request_id)
            .filter(|it| it.kind == RequestKind::Shutdown && it.to.as_str() == name);
        Ok(request.is_some_and(|it| it.answer.is_none() && !it.is_void))
    }

    pub(crate) async fn answer_plan(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        (request_id, recipient): (&str, &str),
        approve: bool,
        content: Option<String>,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
        self.lead_only(config, speaker, "answer plans").await?;
        refusal::check_length(
            "content",
            content.as_deref().unwrap_or_default(),
            self.limits().content_chars,
        )?;
        let (asker, mode) = match self.recipient(config, recipient).await? {
            Recipient::Member(member) => (member.name.clone(), self.mode_after_plan(&member)),
            Recipient::Ended(name) => {
                let id =
                    self.letter_id(config, call, ["plan", speaker.frame_name(), name.as_str()])?;
                return Err(self.dead_letter(&name, &id).await);
            }
        };
        let frame = PlanApprovalResponse {
            kind: PlanApprovalResponse::TYPE.into(),
            request_id: request_id.to_owned(),
            approved: approve,
            feedback: content.clone().filter(|_| !approve),
            timestamp: Some(wire_time(self.now_ms())),
            permission_mode: approve.then(|| mode.clone()),
            foreign: Foreign::default(),
        };
        let mut reply =
            self.new_reply(RequestKind::Plan, request_id, speaker, approve, call, frame)?;
        // The lead names a recipient and a request id. If another member sent the request with this
        // id, the answer must not approve that member's plan.
        reply.asker = Some(asker.clone());
        let (_, receipt) = self.reply(reply).await?;
        if approve && self.signer.is_some() {
            // A teammate in another process is not able to sign its own mode. Without the lead's
            // signature, a resumed teammate would be in plan mode again.
            self.record_mode(&asker, &mode).await?;
        }
        if approve && let Some(words) = content.clone().filter(|words| !words.trim().is_empty()) {
            // Only a rejection frame has a text field. The text of an approval therefore follows in
            // its own message. If that message fails, the approval is still valid.
            let summary = Some("With the approval of your plan".to_owned());
            let told =
                Box::pin(self.send_text(config, speaker, asker.as_str(), words, summary, call))
                    .await;
            if let Err(error) = told {
                tracing::warn!(agent = %asker, %error, "the words with the approval of a plan were not delivered");
            }
        }
        let answer = if approve {
            Responded::plan_approved(asker.as_str(), request_id)
        } else {
            Responded::plan_rejected(asker.as_str(), content.as_deref(), request_id)
        };
        Ok(Sent::one(receipt, answer))
    }

    /// Refuses every caller except the lead. The user is refused too, because readers treat the
    /// answer as the lead's command.
    async fn lead_only(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        what: &str,
    ) -> Result<(), ApiError> {
        if speaker.rank != Rank::Lead {
            return Err(refusal::denied(format!("only the lead may {what}")));
        }
        not_signed(config)?;
        self.may_command().await
    }

    fn new_request(
        &self,
        kind: RequestKind,
        from: &Speaker,
        to: AgentName,
        call: Option<&str>,
        frame: impl Into<Frame>,
    ) -> Result<Request, ApiError> {
        Ok(Request {
            kind,
            from: AgentName::foreign(from.frame_name()),
            to,
            at_ms: self.now_ms(),
            tool: None,
            digest: None,
            call: call.map(str::to_owned),
            ask: Some(self.outgoing(frame)?),
            answer: None,
            is_parting: false,
            is_void: false,
        })
    }

    fn new_reply(
        &self,
        kind: RequestKind,
        request_id: &str,
        by: &Speaker,
        approved: bool,
        call: Option<&str>,
        frame: impl Into<Frame>,
    ) -> Result<Reply, ApiError> {
        let (at_ms, call, frame) = (self.now_ms(), call.map(str::to_owned), self.outgoing(frame)?);
        Ok(Reply {
            kind,
            request_id: request_id.to_owned(),
            by: AgentName::foreign(&by.name),
            asker: None,
            digest: None,
            answer: Answer { approved, at_ms, call, frame },
        })
    }

    fn outgoing(&self, frame: impl Into<Frame>) -> Result<Outgoing, ApiError> {
        let message = self.teams().entropy().message_id(self.now_ms())?;
        Ok(Outgoing { message, unsent: Some(frame_text(frame)?) })
    }
}

fn shutdown_frame(
    request_id: &str,
    member: &Member,
    approve: bool,
    reason: &str,
    at: String,
) -> Frame {
    if approve {
        return Frame::from(ShutdownApproved {
            kind: ShutdownApproved::TYPE.into(),
            request_id: request_id.to_owned(),
            from: Some(member.name.to_string()),
            timestamp: Some(at),
            pane_id: member.tmux_pane_id.clone(),
            backend_type: member.backend_type.clone(),
            foreign: Foreign::default(),
        });
    }
    Frame::from(ShutdownRejected {
        kind: ShutdownRejected::TYPE.into(),
        request_id: request_id.to_owned(),
        from: Some(member.name.to_string()),
        reason: Some(reason.to_owned()),
        timestamp: Some(at),
        foreign: Foreign::default(),
    })
}

/// Refuses to send frames in the name of the lead if a session of another client leads the team.
/// That client signs the lead's frames itself.
fn not_signed(config: &TeamConfig) -> Result<(), ApiError> {
    if config.is_session_dialect() {
        let message =
            format!("team '{}' is led by a session whose lead signs its own frames", config.name);
        return Err(refusal::denied(message));
    }
    Ok(())
}
