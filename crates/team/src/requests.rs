//! The record of all requests and their answers. A request gets only one answer, and only from the
//! agent that was asked. Each request and each answer is sent as a frame. The frame is recorded
//! before it is sent, so that a crash before the sending loses no frame.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError, MessageId};
use pitcrew_store::{Event, StoredMessage, UnreadLimit};
use serde::{Deserialize, Serialize};

use crate::delivery::{DeliveryState, OutgoingMessage, Receipt, is_undeliverable};
use crate::mail::{Mail, answered};
use crate::{Team, refusal};

mod log;

use log::unknown;
pub(crate) use log::{Reply, RequestLog};

/// The reason that is recorded when a request's message is withdrawn because the run that sent the
/// request has ended.
const RUN_IS_OVER: &str = "the run that asked is over";

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// A request to shut down.
    Shutdown,
    /// A request to approve a plan.
    Plan,
    /// A request to allow a tool call.
    Permission,
}

impl RequestKind {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown request",
            Self::Plan => "plan approval request",
            Self::Permission => "permission request",
        }
    }
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The kind of the request.
    pub kind: RequestKind,
    /// The agent that asks.
    pub from: AgentName,
    /// The agent that is asked.
    pub to: AgentName,
    /// The time of the request, in milliseconds since 1970.
    pub at_ms: i64,
    /// The tool that needs permission, in a permission request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The digest of the tool and of the input that need permission. A request of another client
    /// has no digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The id of the tool call that sent the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The frame that carries the request. It is `None` for a request of another client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ask: Option<Outgoing>,
    /// The answer to the request. It is `None` while the request is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Whether a run sent the request because the run was ending. When the run is over, the request
    /// becomes void.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_parting: bool,
    /// Whether the request is void. A void request cannot be answered any more, and an answer to it
    /// has no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_void: bool,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the answer approves the request.
    pub approved: bool,
    /// The time of the answer, in milliseconds since 1970.
    pub at_ms: i64,
    /// The id of the tool call that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    pub(crate) frame: Outgoing,
}

impl Answer {
    /// Whether `again` is this answer once more. The agent then gets the recorded answer, and its
    /// frame is sent if it is not sent yet.
    fn is_repeated_by(&self, again: &Self, kind: RequestKind) -> bool {
        let is_same_call = self.call.is_some() && self.call == again.call;
        // If a full disk refused the frame, the call of the agent failed, and its next attempt is
        // another call. The frame of an approved shutdown may have been sent since, by a later start
        // of the team. But an agent whose approval succeeded has ended, so this agent only knows that
        // its call failed.
        let may_have_failed =
            self.frame.unsent.is_some() || (kind == RequestKind::Shutdown && self.approved);
        is_same_call || (may_have_failed && self.approved == again.approved)
    }
}

/// A recorded frame, whether it is already sent or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    /// The id of the message that carries the frame.
    pub(crate) message: MessageId,
    /// The text of the frame. It is removed when the frame is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsent: Option<String>,
}

/// Selects one of the two frames of a request: the question or the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Ask,
    Answer,
}

impl Request {
    /// Whether the request still waits for an answer.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.is_void
    }

    fn outgoing(&mut self, half: Half) -> Option<&mut Outgoing> {
        match half {
            Half::Ask => self.ask.as_mut(),
            Half::Answer => self.answer.as_mut().map(|answer| &mut answer.frame),
        }
    }

    fn make_void(&mut self) {
        self.is_void = true;
        let frames =
            self.ask.iter_mut().chain(self.answer.iter_mut().map(|answer| &mut answer.frame));
        // Crash recovery sends every unsent frame. A void request must therefore have no unsent
        // frame.
        frames.for_each(|frame| frame.unsent = None);
    }

    fn way(&self, half: Half) -> (&AgentName, &AgentName) {
        match half {
            Half::Ask => (&self.from, &self.to),
            Half::Answer => (&self.to, &self.from),
        }
    }
}

impl Team {
    /// Returns every recorded request, by id.
    ///
    /// # Errors
    /// `internal_error` when the record cannot be read.
    pub async fn requests(&self) -> Result<BTreeMap<String, Request>, ApiError> {
        Ok(self.read_document::<RequestLog>().await?.requests)
    }

    /// Sends every request and answer that was recorded before a crash but not sent. Returns the
    /// ids of the messages.
    ///
    /// # Errors
    /// `internal_error` when the store fails. Messages that were sent before the failure are
    /// recorded as sent.
    pub async fn finish_answers(&self) -> Result<Vec<MessageId>, ApiError> {
        let mut finished = Vec::new();
        for (id, mut request) in self.requests().await? {
            for half in [Half::Ask, Half::Answer] {
                let unsent = request.outgoing(half).filter(|frame| frame.unsent.is_some());
                let Some(message) = unsent.map(|frame| frame.message.clone()) else { continue };
                match self.post(&id, request.clone(), half).await {
                    Ok(receipt) => finished.push(receipt.id),
                    Err(error) if is_undeliverable(&error) => finished.push(message),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(finished)
    }

    /// Makes the shutdown requests of ended runs void: nobody needs to answer them, and answers
    /// have no effect. The caller must hold the lease of the run. The caller's own run must be
    /// over, or must not have sent a shutdown request yet.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn void_parting_requests(&self) -> Result<(), ApiError> {
        let mut parting = self.requests().await?;
        parting.retain(|_, request| request.is_parting && !request.is_void);
        if parting.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = parting.keys().cloned().collect();
        self.edit_document(move |ledger: &mut RequestLog| {
            for id in &ids {
                if let Some(request) = ledger.requests.get_mut(id) {
                    request.make_void();
                }
            }
            Ok(())
        })
        .await?;
        for request in parting.values() {
            if let Some(ask) = &request.ask {
                self.withdraw(&request.to, std::slice::from_ref(&ask.message), RUN_IS_OVER).await?;
            }
        }
        // A member may have answered a shutdown request before the run ended. The next run must not
        // act on this answer.
        let answers = self.mail(&AgentName::lead()).await?.into_iter().filter(|mail| {
            !mail.message.is_read()
                && mail.frame.as_ref().and_then(answered).is_some_and(|id| parting.contains_key(id))
        });
        let answers: Vec<MessageId> = answers.map(|mail| mail.id).collect();
        self.withdraw(&AgentName::lead(), &answers, RUN_IS_OVER).await
    }

    /// Makes all open requests from `asker` to the lead void. This is for a member whose client
    /// stores no conversation. When the process of such a client ends or is restarted, the next
    /// process does not know the open request, and sends a new request with another id.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn void_questions_of(&self, asker: &AgentName) -> Result<(), ApiError> {
        let lead = AgentName::lead();
        let mut asked = self.mail(&lead).await?;
        asked.retain(|mail| {
            AgentName::foreign(&mail.message.from) == *asker && mail.request().is_some()
        });
        // Another client's request is normally recorded when it is answered. Record it now as void,
        // so that a late answer to it has no effect.
        self.keep_requests(&lead, &asked).await?;
        let asker = asker.clone();
        let made_void: Vec<String> = self
            .edit_document(move |ledger: &mut RequestLog| {
                let mut made_void = Vec::new();
                for (id, request) in &mut ledger.requests {
                    if request.from == asker && request.is_open() {
                        request.make_void();
                        made_void.push(id.clone());
                    }
                }
                Ok(made_void)
            })
            .await?;
        asked.retain(|mail| {
            mail.request().is_some_and(|(_, id, _)| made_void.iter().any(|void| void == id))
        });
        let ids: Vec<MessageId> = asked.into_iter().map(|mail| mail.id).collect();
        self.withdraw(&lead, &ids, "the process that asked is gone").await
    }

    /// Withdraws the messages `ids` that are still unread in the inbox of `to`: marks them as read,
    /// and records that they will not be delivered.
    async fn withdraw(
        &self,
        to: &AgentName,
        ids: &[MessageId],
        reason: &str,
    ) -> Result<(), ApiError> {
        let there = self.ask(self.backend().inbox(self.dir(), &to.inbox_file())).await?;
        let is_void =
            |stored: &StoredMessage| !stored.message.is_read() && ids.contains(&stored.id);
        let void: Vec<MessageId> =
            there.into_iter().filter(is_void).map(|stored| stored.id).collect();
        if void.is_empty() {
            return Ok(());
        }
        self.ask(self.backend().acknowledge(self.dir(), &to.inbox_file(), &void)).await?;
        let dead = |id| Event::MessageDead { id, to: to.clone(), reason: reason.to_owned() };
        self.note(void.into_iter().map(dead)).await;
        Ok(())
    }

    /// Removes the open requests from and to an ended member from the record. A request that the
    /// member sent needs no decision any more, so its message is also removed from the unread mail
    /// of the agent that was asked.
    pub(crate) async fn void_requests(&self, gone: &AgentName) -> Result<(), ApiError> {
        let is_void = |request: &Request, gone: &AgentName| {
            request.answer.is_none() && (request.from == *gone || request.to == *gone)
        };
        // Remove the messages from the unread mail before the requests are removed from the record.
        // After a crash between the two steps, the requests are still recorded, so both steps are
        // repeated.
        for request in self.requests().await?.values().filter(|request| is_void(request, gone)) {
            if let Some(ask) = request.ask.as_ref().filter(|_| request.from == *gone) {
                self.bury(&request.to, std::slice::from_ref(&ask.message), gone).await?;
            }
        }
        let gone = gone.clone();
        self.edit_document(move |ledger: &mut RequestLog| {
            ledger.requests.retain(|_, request| !is_void(request, &gone));
            Ok(())
        })
        .await
    }

    /// Records a request and sends it. If an earlier attempt of the same call recorded the request,
    /// the recorded request is used. The boolean says whether the request was answered and the
    /// answer was sent. `draft` gets a time in milliseconds, and builds the request and its id.
    pub(crate) async fn ask_for(
        &self,
        draft: impl Fn(i64) -> Result<(String, Request), ApiError> + Send + 'static,
    ) -> Result<(String, Receipt, bool), ApiError> {
        let now_ms = self.now_ms();
        let (id, request) = self
            .edit_document(move |ledger: &mut RequestLog| {
                let (_, request) = draft(now_ms)?;
                ledger.again(&request).map_or_else(|| ledger.make(now_ms, &draft), Ok)
            })
            .await?;
        let is_answered =
            request.answer.as_ref().is_some_and(|answer| answer.frame.unsent.is_none());
        let receipt = self.post(&id, request, Half::Ask).await?;
        Ok((id, receipt, is_answered))
    }

    /// Opens a recorded request again and sends it with the frame of `request`. This is for an
    /// asker that lost the answer.
    pub(crate) async fn ask_again(&self, id: &str, request: Request) -> Result<Receipt, ApiError> {
        let (key, again) = (id.to_owned(), request.clone());
        self.edit_document(move |ledger: &mut RequestLog| {
            ledger.requests.insert(key.clone(), again.clone());
            Ok(())
        })
        .await?;
        self.post(id, request, Half::Ask).await
    }

    /// Records an answer and sends it. If another client sent the request, this function first
    /// reads the request from the inbox of the agent that answers.
    pub(crate) async fn reply(&self, reply: Reply) -> Result<(Request, Receipt), ApiError> {
        let first = reply.clone();
        let known = self.edit_document(move |ledger: &mut RequestLog| ledger.reply(&first)).await?;
        let id = reply.request_id.clone();
        let request = match known {
            Some(request) => request,
            None => {
                let foreign = self.foreign_request(&reply).await?;
                self.edit_document(move |ledger: &mut RequestLog| {
                    let Some(foreign) = &foreign else { return Err(unknown(ledger, &reply)) };
                    ledger
                        .requests
                        .entry(reply.request_id.clone())
                        .or_insert_with(|| foreign.clone());
                    ledger.reply(&reply)?.ok_or_else(|| unknown(ledger, &reply))
                })
                .await?
            }
        };
        let receipt = self.post(&id, request.clone(), Half::Answer).await?;
        Ok((request, receipt))
    }

    /// Records that `asker` got its answer in another way than a frame. Marks the request as read
    /// in the inbox of the agent that was asked. Returns the request if it was still open.
    pub(crate) async fn spend(
        &self,
        asker: &AgentName,
        id: &str,
        answer: Answer,
    ) -> Result<Option<Request>, ApiError> {
        let (name, request_id) = (asker.clone(), id.to_owned());
        let spent = self
            .edit_document(move |ledger: &mut RequestLog| {
                Ok(ledger.settle(&name, &request_id, &answer))
            })
            .await?;
        if let Some(Request { to, ask: Some(ask), .. }) = &spent {
            self.ask(self.backend().acknowledge(
                self.dir(),
                &to.inbox_file(),
                std::slice::from_ref(&ask.message),
            ))
            .await?;
        }
        Ok(spent)
    }

    /// Sends one frame of a request, if the frame is not sent yet, and records that the frame is
    /// sent.
    async fn post(&self, id: &str, mut request: Request, half: Half) -> Result<Receipt, ApiError> {
        let Some(frame) = request.outgoing(half).cloned() else {
            return Err(refusal::internal(format!("request '{id}' has no frame to send")));
        };
        let (from, to) = request.way(half);
        let Some(text) = frame.unsent else {
            return Ok(Receipt {
                id: frame.message,
                to: to.clone(),
                state: DeliveryState::Persisted,
            });
        };
        // In the reference client's recordings, a plan request has no color. All other frames in
        // these recordings have a color.
        let color = match (request.kind, half) {
            (RequestKind::Plan, Half::Ask) => None,
            (RequestKind::Shutdown | RequestKind::Permission, _)
            | (RequestKind::Plan, Half::Answer) => {
                self.config().await?.member(from.as_str()).and_then(|m| m.color.clone())
            }
        };
        let letter = OutgoingMessage {
            id: frame.message,
            from: from.to_string(),
            color,
            to: to.clone(),
            text,
            summary: None,
            limit: UnreadLimit::None,
        };
        let delivered = self.deliver(letter).await;
        // A frame to an ended member counts as sent too. Otherwise crash recovery would try to send
        // it forever.
        if delivered.as_ref().err().is_none_or(is_undeliverable) {
            let id = id.to_owned();
            self.edit_document(move |ledger: &mut RequestLog| {
                if let Some(frame) = ledger.requests.get_mut(&id).and_then(|r| r.outgoing(half)) {
                    frame.unsent = None;
                }
                Ok(())
            })
            .await?;
        }
        delivered
    }

    /// Finds another client's request in the inbox of the agent that answers. If the asker's inbox
    /// already has an answer, the result is an error.
    async fn foreign_request(&self, reply: &Reply) -> Result<Option<Request>, ApiError> {
        let mail = self.mail(&reply.by).await?;
        let found = mail.iter().find_map(|mail| {
            let (kind, id, tool) = mail.request()?;
            (kind == reply.kind && id == reply.request_id)
                .then_some((AgentName::foreign(&mail.message.from), tool))
        });
        let Some((asker, tool)) = found else { return Ok(None) };
        let tool = tool.map(str::to_owned);
        let is_answer =
            |mail: &Mail| mail.frame.as_ref().and_then(answered) == Some(reply.request_id.as_str());
        if self
            .mail(&asker)
            .await?
            .iter()
            .any(|mail| mail.message.from == reply.by.as_str() && is_answer(mail))
        {
            let message =
                format!("{} '{}' is answered already", reply.kind.noun(), reply.request_id);
            return Err(refusal::wrong_state(message).with("request_id", reply.request_id.as_str()));
        }
        let (kind, to) = (reply.kind, reply.by.clone());
        Ok(Some(Request {
            kind,
            from: asker,
            to,
            at_ms: self.now_ms(),
            tool,
            digest: None,
            call: None,
            ask: None,
            answer: None,
            is_parting: false,
            is_void: false,
        }))
    }

    /// Records the requests in mail that is about to leave its inbox. In a team of the session
    /// dialect (the format of newer reference clients), mail leaves the inbox as soon as the
    /// receiver takes it, but the requests in the mail are answered later.
    pub(crate) async fn keep_requests(
        &self,
        to: &AgentName,
        mail: &[Mail],
    ) -> Result<(), ApiError> {
        let requests = mail.iter().filter_map(|mail| {
            let (kind, id, tool) = mail.request()?;
            let (from, tool) = (AgentName::foreign(&mail.message.from), tool.map(str::to_owned));
            let (to, at_ms) = (to.clone(), self.now_ms());
            Some((
                id.to_owned(),
                Request {
                    kind,
                    from,
                    to,
                    at_ms,
                    tool,
                    digest: None,
                    call: None,
                    ask: None,
                    answer: None,
                    is_parting: false,
                    is_void: false,
                },
            ))
        });
        let requests: Vec<(String, Request)> = requests.collect();
        if requests.is_empty() {
            return Ok(());
        }
        self.edit_document(move |ledger: &mut RequestLog| {
            for (id, request) in &requests {
                ledger.requests.entry(id.clone()).or_insert_with(|| request.clone());
            }
            Ok(())
        })
        .await
    }
}
