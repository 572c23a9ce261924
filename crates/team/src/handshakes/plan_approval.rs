//! Plan approval: a teammate asks for the approval of its plan, and the lead decides.

use pitcrew_protocol::{
    AgentName, ApiError, Foreign, PlanApprovalRequest, PlanApprovalResponse, Responded, TeamConfig,
};

use super::{Asked, not_signed};
use crate::actor::{Actor, Speaker};
use crate::clock::wire_time;
use crate::requests::RequestKind;
use crate::send::{Recipient, Sent};
use crate::{Team, refusal};

/// An answer to a plan that is not sent yet.
pub(crate) struct PlanAnswer<'a> {
    pub(crate) request_id: &'a str,
    /// The teammate that sent the plan.
    pub(crate) recipient: &'a str,
    pub(crate) approve: bool,
    pub(crate) content: Option<String>,
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

    /// Sends the user's answer to a plan. Teammates obey only the lead, so the lead is the sender of
    /// the answer. The journal records the user as its author.
    ///
    /// # Errors
    /// `permission_denied` for every handle except the lead's own, `agent_not_found`,
    /// `invalid_request`, `rate_limit`. `invalid_status` for an unknown or already answered plan.
    pub async fn answer_plan_for_user(
        &self,
        request_id: &str,
        recipient: &str,
        approve: bool,
        content: Option<String>,
    ) -> Result<Sent, ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(&Actor::User, &config)?;
        not_signed(&config)?;
        self.may_command().await?;
        self.count_call().await?;
        let answer = PlanAnswer { request_id, recipient, approve, content };
        self.send_plan_answer(&config, &speaker, answer, None).await
    }

    pub(crate) async fn answer_plan(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        answer: PlanAnswer<'_>,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
        self.lead_only(config, speaker, "answer plans").await?;
        self.send_plan_answer(config, speaker, answer, call).await
    }

    async fn send_plan_answer(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        PlanAnswer { request_id, recipient, approve, content }: PlanAnswer<'_>,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
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
}
