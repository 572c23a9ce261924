//! Shutdown: the lead asks a teammate to end, and the teammate approves or rejects.

use pitcrew_protocol::{
    AgentName, ApiError, Foreign, Frame, LEAD_NAME, Member, RequestSent, Responded,
    ShutdownApproved, ShutdownRejected, ShutdownRequest, TeamConfig,
};

use super::not_signed;
use crate::actor::{Actor, Rank, Speaker};
use crate::clock::wire_time;
use crate::requests::RequestKind;
use crate::send::{Recipient, Sent};
use crate::{Team, refusal};

/// A shutdown request that is not sent yet.
pub(crate) struct ShutdownAsk<'a> {
    pub(crate) recipient: &'a str,
    pub(crate) reason: Option<String>,
    /// Whether the lead's run sends the request because the run is ending.
    pub(crate) is_parting: bool,
}

impl Team {
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
