//! Marking mail as read, beside whatever the agent does next.
//!
//! The mail stands in the transcript when it comes here. One marking is on its way at a time; what is delivered meanwhile
//! is marked by the next one.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use pitcrew_protocol::{ApiError, ErrorCode, MessageId};

use super::agent_context::AgentContext;

/// The mail of one agent that was delivered.
#[derive(Default)]
pub(super) struct Marks {
    waiting: Vec<Delivered>,
    marking: Option<Marking>,
    /// The frames that were marked read: one that is unread once more was put there by hand.
    obeyed: HashSet<MessageId>,
}

/// A message that stands in the transcript.
pub(super) struct Delivered {
    pub(super) id: MessageId,
    pub(super) is_frame: bool,
}

struct Marking {
    mail: Vec<Delivered>,
    done: BoxFuture<'static, Result<(), ApiError>>,
}

impl Marks {
    /// Takes mail that is to be marked read.
    pub(super) fn add(&mut self, mail: impl IntoIterator<Item = Delivered>) {
        self.waiting.extend(mail);
    }

    /// Whether mail that was delivered may be unread.
    pub(super) fn is_behind(&self) -> bool {
        self.marking.is_some() || !self.waiting.is_empty()
    }

    /// The mail that was delivered and may be unread.
    pub(super) fn pending(&self) -> HashSet<MessageId> {
        let marking = self.marking.iter().flat_map(|marking| &marking.mail);
        marking.chain(&self.waiting).map(|delivered| delivered.id.clone()).collect()
    }

    /// The frames that were marked read.
    pub(super) fn obeyed(&self) -> &HashSet<MessageId> {
        &self.obeyed
    }

    /// Marks what was delivered; when it returns, all of it is read. Who stops waiting for it may come back.
    pub(super) async fn catch_up(
        &mut self,
        agent_context: &Arc<AgentContext>,
    ) -> Result<(), ApiError> {
        while self.is_behind() {
            let marking = self.marking.get_or_insert_with(|| {
                let mail = std::mem::take(&mut self.waiting);
                let ids = mail.iter().map(|delivered| delivered.id.clone()).collect();
                Marking { mail, done: Box::pin(mark(agent_context.clone(), ids)) }
            });
            let done = marking.done.as_mut().await;
            let marked = self.marking.take().into_iter().flat_map(|marking| marking.mail);
            self.obeyed.extend(
                marked.filter(|delivered| delivered.is_frame).map(|delivered| delivered.id),
            );
            done?;
        }
        Ok(())
    }
}

/// Notes in the journal that mail was delivered, then marks it read. Of a team that is gone, nothing is left to mark.
async fn mark(agent_context: Arc<AgentContext>, ids: Vec<MessageId>) -> Result<(), ApiError> {
    agent_context.team.injected(&agent_context.name, &ids).await;
    match agent_context.team.acknowledge(&agent_context.name, &ids).await {
        Err(ApiError { code: ErrorCode::TeamNotFound, .. }) => Ok(()),
        done => done,
    }
}
