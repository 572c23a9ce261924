//! Records the requests that another client sent. They are known only from the mail.

use pitcrew_protocol::{AgentName, ApiError};

use super::log::{Reply, RequestLog};
use super::request::Request;
use crate::mail::{Mail, answered};
use crate::{Team, refusal};

impl Team {
    /// Finds another client's request in the inbox of the agent that answers. If the asker's inbox
    /// already has an answer, the result is an error.
    pub(super) async fn foreign_request(&self, reply: &Reply) -> Result<Option<Request>, ApiError> {
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
