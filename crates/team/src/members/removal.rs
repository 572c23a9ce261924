//! Removing a member. Its tasks lose their owner, its requests become void, and the senders of its
//! unread mail are informed.

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, MessageId, TaskId};
use pitcrew_store::{MemberChange, UnreadLimit};
use serde::Serialize;

use super::changed;
use crate::actor::{Actor, SYSTEM, Speaker};
use crate::delivery::{OutgoingMessage, is_no_member, is_undeliverable};
use crate::ended::MemberEnd;
use crate::entropy::made_id;
use crate::ours::SpawnRecord;
use crate::{Team, named, refusal};

/// The tasks and messages that a removed member left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberRemoved {
    /// The member's tasks that were not completed. These tasks are pending again and have no owner.
    pub released: Vec<TaskId>,
    /// The member's unread messages. These messages will not be delivered, and the members who sent
    /// them are informed.
    pub dead: Vec<MessageId>,
}

impl Team {
    /// Removes a teammate from the team. The teammate's tasks lose their owner. The teammate's
    /// unread mail will not be delivered, and the senders of this mail are informed.
    ///
    /// # Errors
    /// `permission_denied` for every caller except the lead and the user, and for removing the
    /// lead; `agent_not_found`.
    pub async fn remove_member(
        &self,
        actor: &Actor,
        name: &AgentName,
    ) -> Result<MemberRemoved, ApiError> {
        self.remove_ended(actor, name, MemberEnd::Left).await
    }

    /// Removes a member like [`Team::remove_member`], and records how the member ended. An agent
    /// that later sends a message to this member learns from the error how the member ended.
    ///
    /// # Errors
    /// The errors of [`Team::remove_member`].
    pub async fn remove_ended(
        &self,
        actor: &Actor,
        name: &AgentName,
        end: MemberEnd,
    ) -> Result<MemberRemoved, ApiError> {
        let config = self.config().await?;
        Speaker::of(actor, &config)?.must_lead("remove a member")?;
        let name = named::bare_name(name.as_str(), &config);
        let name = match config.member(name) {
            Some(member) => member.name.clone(),
            None => match self.ended().await?.member(name) {
                Some(ended) if !ended.settled => ended.name.clone(),
                Some(_) | None => return Err(refusal::unknown_agent(&config, name)),
            },
        };
        if name.as_str() == LEAD_NAME {
            return Err(refusal::denied("the lead cannot be removed; delete the team instead"));
        }
        self.count_call().await?;
        // Record the end before any other change. After a crash, `finish_removals` repeats the
        // remaining steps.
        self.note_ended(&name, end).await?;
        self.settle_end(&name).await
    }

    /// Finishes every removal that a crash interrupted.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn finish_removals(&self) -> Result<Vec<(AgentName, MemberRemoved)>, ApiError> {
        let mut finished = Vec::new();
        for ended in self.ended().await?.members {
            if !ended.settled {
                let removed = self.settle_end(&ended.name).await?;
                finished.push((ended.name, removed));
            }
        }
        Ok(finished)
    }

    /// Removes an ended member from the config, releases its tasks and withdraws its unread mail.
    /// After a crash, the caller can repeat this function. The member leaves the config first.
    /// Otherwise the member could get a new task or message after its tasks and mail were already
    /// handled.
    pub(crate) async fn settle_end(&self, name: &AgentName) -> Result<MemberRemoved, ApiError> {
        let config = self.config().await?;
        // The prompt must be read now, because the next edit removes the member from the config.
        let prompt = config.member(name.as_str()).and_then(|member| member.prompt.clone());
        if config.member(name.as_str()).is_none_or(|member| !SpawnRecord::is_run_by_us(member)) {
            self.note_taken(name).await?;
        }
        let gone = name.clone();
        self.edit_config(move |config| {
            config.members.retain(|m| m.name != gone);
            Ok(())
        })
        .await?;
        let released = self.release_tasks(name).await?;
        self.void_requests(name).await?;
        let unread = self.ask(self.backend().inbox(self.dir(), &name.inbox_file())).await?;
        let unread: Vec<_> =
            unread.into_iter().filter(|stored| !stored.message.is_read()).collect();
        let end = self.end_of(name).await;
        for stored in &unread {
            // If the unread message is the spawn prompt, the lead is not told that this message is
            // dead. The lead learns the result of the launch directly.
            let is_prompt =
                stored.message.from == LEAD_NAME && Some(&stored.message.text) == prompt.as_ref();
            if !is_prompt && pitcrew_protocol::Frame::detect(&stored.message.text).is_none() {
                self.tell_sender(name, &stored.id, &stored.message.from, &is_no_member(name, end))
                    .await?;
            }
        }
        let dead: Vec<MessageId> = unread.into_iter().map(|stored| stored.id).collect();
        if !dead.is_empty() {
            self.bury(name, &dead, name).await?;
        }
        self.note_settled(name).await?;
        self.note([changed(name, MemberChange::Removed, None)]).await;
        Ok(MemberRemoved { released, dead })
    }

    /// If the sender of a dead message is a member, tells the sender that the message is dead.
    pub(crate) async fn tell_sender(
        &self,
        gone: &AgentName,
        id: &MessageId,
        sender: &str,
        why: &str,
    ) -> Result<(), ApiError> {
        let config = self.config().await?;
        let Some(sender) = config.member(sender) else { return Ok(()) };
        let letter = OutgoingMessage {
            // The id of this notice is computed only from the dead message. If the removal is
            // repeated, the notice has the same id, so the sender is informed only once.
            id: made_id(&[self.dir().as_str(), "dead", &id.0]),
            from: SYSTEM.to_owned(),
            author: None,
            color: None,
            to: sender.name.clone(),
            text: format!("Your message {id} to {gone} was not delivered: {why}."),
            summary: Some(format!("Not delivered: {why}")),
            limit: UnreadLimit::None,
        };
        match self.deliver(letter).await {
            Err(error) if !is_undeliverable(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
