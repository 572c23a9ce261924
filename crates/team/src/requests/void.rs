//! Makes requests void whose asker or run has ended, and withdraws their unread messages.

use pitcrew_protocol::{AgentName, ApiError, MessageId};
use pitcrew_store::{Event, StoredMessage};

use super::log::RequestLog;
use super::request::Request;
use crate::Team;
use crate::mail::answered;

/// The reason that is recorded when a request's message is withdrawn because the run that sent the
/// request has ended.
const RUN_IS_OVER: &str = "the run that asked is over";

impl Team {
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
}
