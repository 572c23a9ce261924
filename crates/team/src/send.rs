//! SendMessage: sends texts to one member or to all members. The module `handshakes` handles the
//! requests and answers of SendMessage.

use pitcrew_protocol::{
    AgentName, ApiError, BroadcastSent, Color, Frame, LEAD_NAME, Member, MessageSent, Routing,
    SendMessageInput, TeamConfig, ToolAnswer, attribute, neutralised,
};
use pitcrew_store::{RateScope, UnreadLimit};

use crate::actor::{Actor, OPERATOR, Rank, Speaker, passes_for};
use crate::delivery::{OutgoingMessage, Receipt, as_text};
use crate::handshakes::{PlanAnswer, ShutdownAsk};
use crate::ours::SpawnRecord;
use crate::{Team, named, refusal};

/// The lead's color, as the answer to SendMessage gives it when a member writes to the lead. The
/// lead has no color in the config and in messages.
///
/// Source: `fixtures/claude-2.1.39/hooks.ndjson`, the answer of a teammate's SendMessage to
/// `team-lead`.
const LEAD_COLOR: Color = Color::Red;

/// The result of a SendMessage call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// One receipt for each receiver.
    pub receipts: Vec<Receipt>,
    /// The answer to the tool call, in the form that the reference client's recordings have.
    pub answer: ToolAnswer,
}

impl Sent {
    pub(crate) fn one(receipt: Receipt, answer: impl Into<ToolAnswer>) -> Self {
        Self { receipts: vec![receipt], answer: answer.into() }
    }
}

/// The member or former member that a name means.
pub(crate) enum Recipient {
    Member(Box<Member>),
    /// The name of a former member.
    Ended(AgentName),
}

impl Team {
    /// Sends a text, a broadcast, a request, or the answer to a request. `call` is the id of the
    /// tool call. A second attempt with the same `call` sends nothing twice.
    ///
    /// # Errors
    /// - `agent_not_found` with the valid names. If the receiver is an ended member, the error also
    ///   has the id of the dead message.
    /// - `invalid_request` and `rate_limit` with the limit.
    /// - `permission_denied` for a caller that is not allowed to send this.
    /// - `invalid_status` for an answer to an unknown or already answered request.
    pub async fn send(
        &self,
        actor: &Actor,
        input: SendMessageInput,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(actor, &config)?;
        if speaker.rank == Rank::Outside {
            let name = AgentName::foreign(&speaker.name);
            // Reports of a former member are still accepted as frames. An outside writer must
            // therefore not use the name of a former member.
            if let Some(ended) =
                self.ended().await?.members.iter().find(|ended| passes_for(&name, &ended.name))
            {
                return Err(refusal::denied(format!("'{}' was a member of this team", ended.name)));
            }
        }
        self.count_call().await?;
        match input {
            SendMessageInput::Message { recipient, content, summary } => {
                self.send_text(&config, &speaker, &recipient, content, summary, call).await
            }
            SendMessageInput::Broadcast { content, summary } => {
                self.broadcast(&config, &speaker, content, summary, call).await
            }
            SendMessageInput::ShutdownRequest { recipient, content } => {
                let ask = ShutdownAsk { recipient: &recipient, reason: content, is_parting: false };
                self.request_shutdown(&config, &speaker, ask, call).await
            }
            SendMessageInput::ShutdownResponse { request_id, approve, content } => {
                self.answer_shutdown(&config, &speaker, &request_id, approve, content, call).await
            }
            SendMessageInput::PlanApprovalResponse { request_id, recipient, approve, content } => {
                let (request_id, recipient) = (request_id.as_str(), recipient.as_str());
                let answer = PlanAnswer { request_id, recipient, approve, content };
                self.answer_plan(&config, &speaker, answer, call).await
            }
        }
    }

    pub(crate) async fn send_text(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        recipient: &str,
        content: String,
        summary: Option<String>,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
        self.check_text(speaker, &content, summary.as_deref())?;
        let (to, color) = match self.recipient(config, recipient).await? {
            Recipient::Member(member) => {
                let of_lead = member.is_called(LEAD_NAME).then(|| LEAD_COLOR.as_str().to_owned());
                (member.name, member.color.or(of_lead))
            }
            Recipient::Ended(name) => {
                let id = self.letter_id(config, call, ["message", &speaker.name, name.as_str()])?;
                return Err(self.dead_letter(&name, &id).await);
            }
        };
        let letter = self.letter(config, speaker, &to, (&content, summary.clone()), call)?;
        let receipt = self.deliver(letter).await?;
        let routing = routing(speaker, color, summary, content);
        Ok(Sent::one(receipt, MessageSent::to(to.as_str(), routing)))
    }

    async fn broadcast(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        content: String,
        summary: Option<String>,
        call: Option<&str>,
    ) -> Result<Sent, ApiError> {
        self.check_text(speaker, &content, summary.as_deref())?;
        let to: Vec<&AgentName> = config
            .members
            .iter()
            .filter(|m| !m.is_called(&speaker.name))
            .map(|m| &m.name)
            .collect();
        if !to.is_empty() && !self.was_begun(config, speaker, &to, call).await? {
            self.take_slot(RateScope::Broadcasts(self.dir().clone())).await?;
        }
        // A full inbox or an ended member must not keep the text from the other members. Report the
        // failures afterwards.
        let (mut receipts, mut failed) = (Vec::new(), Vec::new());
        for name in to {
            let letter = self.letter(config, speaker, name, (&content, summary.clone()), call)?;
            match self.deliver(letter).await {
                Ok(receipt) => receipts.push(receipt),
                Err(error) => failed.push((name, error)),
            }
        }
        if let Some((name, error)) = failed.first() {
            let message = format!("the broadcast did not reach {name}: {}", error.message);
            let delivered: Vec<&str> = receipts.iter().map(|r| r.to.as_str()).collect();
            let failed: Vec<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
            return Err(ApiError::new(error.code, message)
                .with("delivered", delivered)
                .with("failed", failed));
        }
        let recipients = receipts.iter().map(|r| r.to.to_string()).collect();
        let answer = BroadcastSent::to(recipients, routing(speaker, None, summary, content));
        Ok(Sent { receipts, answer: answer.into() })
    }

    /// Whether an earlier attempt of the same call already sent a message to one of the receivers.
    /// If so, that attempt already counted for the rate limit.
    async fn was_begun(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        to: &[&AgentName],
        call: Option<&str>,
    ) -> Result<bool, ApiError> {
        if call.is_none() {
            return Ok(false);
        }
        for name in to {
            let id = self.letter_id(config, call, ["message", &speaker.name, name.as_str()])?;
            let there = self.ask(self.backend().inbox(self.dir(), &name.inbox_file())).await?;
            if there.iter().any(|stored| stored.id == id) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn letter(
        &self,
        config: &TeamConfig,
        speaker: &Speaker,
        to: &AgentName,
        (content, summary): (&str, Option<String>),
        call: Option<&str>,
    ) -> Result<OutgoingMessage, ApiError> {
        // When pitcrew adds a text to a conversation, it escapes the text. Other clients add the
        // text of the inbox unchanged, so the text for another client is escaped here.
        let is_foreign =
            config.member(to.as_str()).is_some_and(|member| !SpawnRecord::is_run_by_us(member));
        let (text, summary) = match is_foreign {
            true => (neutralised(content), summary.as_deref().map(attribute)),
            false => (content.into(), summary),
        };
        Ok(OutgoingMessage {
            id: self.letter_id(config, call, ["message", &speaker.name, to.as_str()])?,
            from: speaker.name.clone(),
            author: None,
            color: speaker.color.clone(),
            to: to.clone(),
            text: as_text(&text),
            summary,
            limit: self.unread_limit(speaker),
        })
    }

    /// Returns the limit of unread mail for a text. If the sender is the user or a person who runs
    /// `pitcrew send`, only the unread messages of this sender count. The person's message then
    /// reaches a receiver even if the receiver has too much mail from others.
    fn unread_limit(&self, speaker: &Speaker) -> UnreadLimit {
        let most = usize::try_from(self.limits().unread_messages).unwrap_or(usize::MAX);
        match speaker.rank {
            Rank::User => UnreadLimit::OfSender(most),
            Rank::Outside if speaker.name == OPERATOR => UnreadLimit::OfSender(most),
            Rank::Lead | Rank::Teammate | Rank::Outside => UnreadLimit::OfAll(most),
        }
    }

    fn check_text(
        &self,
        speaker: &Speaker,
        content: &str,
        summary: Option<&str>,
    ) -> Result<(), ApiError> {
        refusal::check_filled("content", content)?;
        refusal::check_filled("summary", summary.unwrap_or("none is needed"))?;
        refusal::check_length("content", content, self.limits().content_chars)?;
        refusal::check_length("summary", summary.unwrap_or_default(), self.limits().summary_chars)?;
        if speaker.rank == Rank::Outside && Frame::detect(content.trim()).is_some() {
            return Err(refusal::denied(
                "an outside writer may send texts only, not protocol frames",
            ));
        }
        Ok(())
    }

    /// Finds the member or former member that `given` means, in every form that [`named`] accepts.
    pub(crate) async fn recipient(
        &self,
        config: &TeamConfig,
        given: &str,
    ) -> Result<Recipient, ApiError> {
        let name = named::bare_name(given, config);
        if name.is_empty() {
            return Err(refusal::invalid("recipient is empty").with("field", "recipient"));
        }
        if let Some(member) = config.member(name) {
            return Ok(Recipient::Member(Box::new(member.clone())));
        }
        match self.ended().await?.member(name) {
            Some(ended) => Ok(Recipient::Ended(ended.name.clone())),
            None => Err(refusal::unknown_agent(config, name)),
        }
    }
}

fn routing(
    speaker: &Speaker,
    target_color: Option<String>,
    summary: Option<String>,
    content: String,
) -> Routing {
    Routing {
        sender: speaker.name.clone(),
        sender_color: speaker.color.clone(),
        target: String::new(),
        target_color,
        summary,
        content,
    }
}
