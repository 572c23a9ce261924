//! Marks mail as read while the agent continues.
//!
//! The mail is already in the transcript at that time. Only one marking runs at a time. Mail that
//! is delivered while a marking runs is marked by the next one.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use pitcrew_protocol::{ApiError, ErrorCode, MessageId};

use super::agent_context::AgentContext;

/// The delivered mail of one agent that is to be marked as read.
#[derive(Default)]
pub(super) struct Marks {
    waiting: Vec<Delivered>,
    marking: Option<Marking>,
    /// Frames that were marked as read. If one of them is unread again, somebody put it into the
    /// inbox by hand.
    obeyed: HashSet<MessageId>,
}

/// A message that is in the transcript.
pub(super) struct Delivered {
    pub(super) id: MessageId,
    pub(super) is_frame: bool,
}

struct Marking {
    mail: Vec<Delivered>,
    done: BoxFuture<'static, Result<(), ApiError>>,
}

impl Marks {
    /// Adds mail to mark as read.
    pub(super) fn add(&mut self, mail: impl IntoIterator<Item = Delivered>) {
        self.waiting.extend(mail);
    }

    /// Whether delivered mail may still be unread.
    pub(super) fn is_behind(&self) -> bool {
        self.marking.is_some() || !self.waiting.is_empty()
    }

    /// Returns the delivered mail that may still be unread.
    pub(super) fn pending(&self) -> HashSet<MessageId> {
        let marking = self.marking.iter().flat_map(|marking| &marking.mail);
        marking.chain(&self.waiting).map(|delivered| delivered.id.clone()).collect()
    }

    /// Returns the frames that were marked as read.
    pub(super) fn obeyed(&self) -> &HashSet<MessageId> {
        &self.obeyed
    }

    /// Marks all delivered mail as read before it returns. The caller may drop this future and call
    /// again later without losing marks.
    pub(super) async fn catch_up(
        &mut self,
        agent_context: &Arc<AgentContext>,
    ) -> Result<(), ApiError> {
        while self.is_behind() {
            // The marking is stored in `self`. So a dropped caller neither cancels nor repeats the
            // marking.
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

/// Notes in the journal that mail was delivered, then marks it as read. If the team is gone, there
/// is nothing to mark.
async fn mark(agent_context: Arc<AgentContext>, ids: Vec<MessageId>) -> Result<(), ApiError> {
    agent_context.team.injected(&agent_context.name, &ids).await;
    match agent_context.team.acknowledge(&agent_context.name, &ids).await {
        Err(ApiError { code: ErrorCode::TeamNotFound, .. }) => Ok(()),
        done => done,
    }
}
