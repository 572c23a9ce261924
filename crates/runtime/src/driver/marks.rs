//! Marks mail as read while the agent continues its work.
//!
//! Mail is marked only after it is in the transcript. Only one marking runs at a time. If mail is
//! delivered while a marking runs, the next marking handles this mail.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use pitcrew_protocol::{ApiError, ErrorCode, MessageId};

use super::agent_context::AgentContext;

/// The delivered mail of one agent that must still be marked as read.
#[derive(Default)]
pub(super) struct Marks {
    waiting: Vec<Delivered>,
    marking: Option<Marking>,
    /// The ids of commands (frames) that were marked as read. If such a command is unread again,
    /// somebody has put it into the inbox by hand.
    obeyed: HashSet<MessageId>,
}

/// A message that is already in the transcript.
pub(super) struct Delivered {
    pub(super) id: MessageId,
    pub(super) is_frame: bool,
}

struct Marking {
    mail: Vec<Delivered>,
    done: BoxFuture<'static, Result<(), ApiError>>,
}

impl Marks {
    /// Adds mail that must be marked as read.
    pub(super) fn add(&mut self, mail: impl IntoIterator<Item = Delivered>) {
        self.waiting.extend(mail);
    }

    /// Returns true if some delivered mail may still be unread.
    pub(super) fn is_behind(&self) -> bool {
        self.marking.is_some() || !self.waiting.is_empty()
    }

    /// Returns the ids of the delivered mail that may still be unread.
    pub(super) fn pending(&self) -> HashSet<MessageId> {
        let marking = self.marking.iter().flat_map(|marking| &marking.mail);
        marking.chain(&self.waiting).map(|delivered| delivered.id.clone()).collect()
    }

    /// Returns the ids of the commands (frames) that were marked as read.
    pub(super) fn obeyed(&self) -> &HashSet<MessageId> {
        &self.obeyed
    }

    /// Marks all delivered mail as read, then returns. The caller is allowed to drop this future
    /// and to call the function again later; no mark is lost.
    pub(super) async fn catch_up(
        &mut self,
        agent_context: &Arc<AgentContext>,
    ) -> Result<(), ApiError> {
        while self.is_behind() {
            // The running marking is stored in `self`. If the caller drops this future, the marking
            // is neither cancelled nor repeated.
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

/// Notes in the journal that mail was delivered, then marks the mail as read. If the team is gone,
/// there is nothing to mark.
async fn mark(agent_context: Arc<AgentContext>, ids: Vec<MessageId>) -> Result<(), ApiError> {
    agent_context.team.injected(&agent_context.name, &ids).await;
    match agent_context.team.acknowledge(&agent_context.name, &ids).await {
        Err(ApiError { code: ErrorCode::TeamNotFound, .. }) => Ok(()),
        done => done,
    }
}
