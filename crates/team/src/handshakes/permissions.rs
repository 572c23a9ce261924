//! Permission requests of teammates and their answers.

use pitcrew_protocol::{
    AgentName, ApiError, Foreign, Frame, PermissionRequest, PermissionResponse, telling,
};
use pitcrew_store::{Event, PermissionOutcome, StoredMessage};
use serde_json::{Value, json};

use super::Asked;
use crate::Team;
use crate::actor::{Actor, Speaker};
use crate::delivery::Receipt;
use crate::mail::Mail;
use crate::requests::{Answer, Outgoing, Request, RequestKind};

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

impl Team {
    /// Asks the lead for permission to call a tool. A second request for the same call creates no
    /// new request.
    ///
    /// # Errors
    /// `agent_not_found`, `internal_error`.
    pub async fn request_permission(
        &self,
        member: &AgentName,
        ask: PermissionAsk,
    ) -> Result<Asked, ApiError> {
        let config = self.config().await?;
        let (team, from) = (self.clone(), Speaker::of(&Actor::Member(member.clone()), &config)?);
        let (tool_name, telling) = (ask.tool_name.clone(), telling(&ask.input));
        let draft = move |at_ms: i64| {
            let id = format!("perm-{}", team.teams().entropy().request_stem(at_ms)?);
            let request = team.permission_request(&from, &id, &ask)?;
            Ok((id, request))
        };
        let (request_id, receipt, is_answered) = self.ask_for(draft).await?;
        self.note([asked(&request_id, member, &tool_name, telling)]).await;
        Ok(Asked { request_id, receipt, is_answered })
    }

    /// Sends a permission request again under the same id. This is for a teammate whose answer was
    /// lost.
    ///
    /// # Errors
    /// `agent_not_found`, `internal_error`.
    pub async fn request_permission_again(
        &self,
        member: &AgentName,
        request_id: &str,
        ask: PermissionAsk,
    ) -> Result<Receipt, ApiError> {
        let config = self.config().await?;
        let from = Speaker::of(&Actor::Member(member.clone()), &config)?;
        let request = self.permission_request(&from, request_id, &ask)?;
        let receipt = self.ask_again(request_id, request).await?;
        self.note([asked(request_id, member, &ask.tool_name, telling(&ask.input))]).await;
        Ok(receipt)
    }

    /// Looks in the inbox of `member` for the answer to its permission request. Read and unread
    /// messages are searched.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn permission_answer(
        &self,
        member: &AgentName,
        request_id: &str,
    ) -> Result<AnswerFound, ApiError> {
        let answers = |frame: &Frame| matches!(frame, Frame::PermissionResponse(it) if it.request_id == request_id);
        let found = self
            .mail(member)
            .await?
            .into_iter()
            .find(|mail| mail.frame.as_ref().is_some_and(answers));
        if let Some(mail) = found {
            return Ok(AnswerFound::There(Box::new(mail)));
        }
        let stored = self.ask(self.backend().inbox(self.dir(), &member.inbox_file())).await?;
        let is_unread = |stored: &StoredMessage| {
            !stored.message.is_read()
                && Frame::detect(&stored.message.text).as_ref().is_some_and(answers)
        };
        // An unread answer may have failed the signature check only because the key of a new lead
        // is not known yet. The caller must then wait.
        Ok(if stored.iter().any(is_unread) { AnswerFound::Waits } else { AnswerFound::Lost })
    }

    fn permission_request(
        &self,
        from: &Speaker,
        id: &str,
        ask: &PermissionAsk,
    ) -> Result<Request, ApiError> {
        let frame = PermissionRequest {
            kind: PermissionRequest::TYPE.into(),
            request_id: id.to_owned(),
            agent_id: from.name.clone(),
            tool_name: ask.tool_name.clone(),
            tool_use_id: Some(ask.tool_use_id.clone()),
            description: Some(ask.description.clone()),
            input: Some(ask.input.clone()),
            permission_suggestions: Some(ask.suggestions.clone()),
            foreign: Foreign::default(),
        };
        let call = Some(ask.tool_use_id.as_str());
        let mut request =
            self.new_request(RequestKind::Permission, from, AgentName::lead(), call, frame)?;
        request.tool = Some(ask.tool_name.clone());
        request.digest.clone_from(&ask.digest);
        Ok(request)
    }

    /// Answers a teammate's permission request in the name of the lead.
    ///
    /// # Errors
    /// `permission_denied` for every caller except the lead. `invalid_status` for an unknown or
    /// already answered request. Also `invalid_status` if the tool call in the request differs from
    /// the tool call that was shown to the person or agent who decided.
    pub async fn answer_permission(
        &self,
        actor: &Actor,
        request_id: &str,
        answer: PermissionAnswer,
        call: Option<&str>,
    ) -> Result<Receipt, ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(actor, &config)?;
        self.lead_only(&config, &speaker, "answer permission requests").await?;
        let approved = matches!(answer, PermissionAnswer::Allow { .. });
        let (subtype, response, error, digest) = match answer {
            PermissionAnswer::Allow { updated_input, updates, digest } => {
                let mut response =
                    json!({ "updated_input": updated_input, "permission_updates": updates });
                // Requests of other clients have no digest. The answer to such a request has no
                // digest either, as in the recordings of the reference client.
                if let (Some(shown), Some(fields)) = (&digest, response.as_object_mut())
                    && self
                        .requests()
                        .await?
                        .get(request_id)
                        .is_some_and(|request| request.digest.is_some())
                {
                    fields.insert("digest".to_owned(), shown.as_str().into());
                }
                ("success", Some(response), None, digest)
            }
            PermissionAnswer::Deny { reason } => ("error", None, Some(reason), None),
        };
        let frame = PermissionResponse {
            kind: PermissionResponse::TYPE.into(),
            request_id: request_id.to_owned(),
            subtype: subtype.to_owned(),
            tool_use_id: None,
            approved_request: None,
            response,
            error,
            foreign: Foreign::default(),
        };
        // The digest belongs to the tool call that was shown to the person or agent who decided. If
        // the request has the digest of another call, the answer is refused.
        let mut reply =
            self.new_reply(RequestKind::Permission, request_id, &speaker, approved, call, frame)?;
        reply.digest = digest;
        let (request, receipt) = self.reply(reply).await?;
        let outcome = PermissionOutcome::of_answer(approved);
        self.note([permission(
            request_id,
            &request.from,
            request.tool.as_deref().unwrap_or_default(),
            outcome,
        )])
        .await;
        Ok(receipt)
    }

    /// Records that the permission request of `member` was answered by someone other than the lead,
    /// for example by the person at the member's terminal. This closes the request, and its message
    /// leaves the lead's unread mail. If the request was already answered, it stays unchanged.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn settle_permission(
        &self,
        member: &AgentName,
        request_id: &str,
        approved: bool,
    ) -> Result<(), ApiError> {
        let message = self.teams().entropy().message_id(self.now_ms())?;
        // This answer sends no frame, so `unsent` stays empty.
        let answer = Answer {
            approved,
            at_ms: self.now_ms(),
            call: None,
            frame: Outgoing { message, author: None, unsent: None },
        };
        if let Some(request) = self.spend(member, request_id, answer).await? {
            let outcome = PermissionOutcome::of_answer(approved);
            self.note([permission(
                request_id,
                member,
                request.tool.as_deref().unwrap_or_default(),
                outcome,
            )])
            .await;
        }
        Ok(())
    }
}

fn permission(request: &str, member: &AgentName, tool: &str, outcome: PermissionOutcome) -> Event {
    Event::Permission {
        request: request.to_owned(),
        member: member.clone(),
        tool: tool.to_owned(),
        telling: None,
        outcome,
    }
}

fn asked(request: &str, member: &AgentName, tool: &str, telling: Option<String>) -> Event {
    Event::Permission {
        request: request.to_owned(),
        member: member.clone(),
        tool: tool.to_owned(),
        telling,
        outcome: PermissionOutcome::Asked,
    }
}
