//! Reads the inbox of one member.

use pitcrew_protocol::{AgentName, ApiError};
use pitcrew_store::StoredMessage;

use super::Mail;
use super::valid_frames::{Senders, detected, keep_valid_frames};
use crate::Team;
use crate::ended::Ended;
use crate::lead::RefusedFrame;

/// The unread messages of an inbox, and the messages that were refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// The unread messages, in the order of the inbox.
    pub mail: Vec<Mail>,
    /// Messages that falsely claimed to be commands of the lead. These messages are already marked
    /// as read and recorded. The caller must show them as a warning.
    pub refused: Vec<RefusedFrame>,
}

/// The owner of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxOwner {
    /// A current member owns the inbox.
    Member(AgentName),
    /// A former member owns the inbox.
    Departed(AgentName),
}

impl Team {
    /// Returns all mail of `name`, read and unread, in the order of the inbox. Messages that
    /// falsely claim to be commands of the lead are left out.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn mail(&self, name: &AgentName) -> Result<Vec<Mail>, ApiError> {
        let (stored, _) = self.inbox_of(name).await?;
        self.verified(name, stored, Senders::Members).await
    }

    /// Returns the unread mail of `name` in the order of the inbox. Messages that falsely claim to
    /// be commands of the lead are left out.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn unread(&self, name: &AgentName) -> Result<Vec<Mail>, ApiError> {
        let (mut stored, _) = self.inbox_of(name).await?;
        stored.retain(|stored| !stored.message.is_read());
        self.verified(name, stored, Senders::Members).await
    }

    /// Finds the owner of the inbox that `given` names. The owner is a member, a former member, or
    /// a name whose inbox holds or held messages.
    ///
    /// # Errors
    /// `agent_not_found` with the names of the members.
    pub async fn inbox_owner(&self, given: &str) -> Result<InboxOwner, ApiError> {
        let unknown = match self.member(given).await {
            Ok(member) => return Ok(InboxOwner::Member(member.name)),
            Err(error) => error,
        };
        let given = &self.bare_name(given).await;
        if let Some(ended) = self.ended().await?.member(given) {
            return Ok(InboxOwner::Departed(ended.name.clone()));
        }
        let name = AgentName::foreign(given);
        let is_known =
            !self.mail(&name).await?.is_empty() || !self.past_mail(&name).await?.is_empty();
        if is_known { Ok(InboxOwner::Departed(name)) } else { Err(unknown) }
    }

    /// Returns the unread mail of `name` for the agent `name`. Messages that falsely claim to be
    /// commands of the lead are refused permanently.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn collect(&self, name: &AgentName) -> Result<Collected, ApiError> {
        let (mut stored, refused) = self.inbox_of(name).await?;
        self.refuse(name, &refused).await?;
        let all = stored.len();
        stored.retain(|stored| !stored.message.is_read());
        // Another client may have marked messages as read. A run may also have ended before it
        // moved the read messages out of the inbox. Move these messages now.
        self.trim(name, all - stored.len()).await?;
        Ok(Collected { mail: self.verified(name, stored, Senders::Members).await?, refused })
    }

    pub(super) async fn inbox_of(
        &self,
        name: &AgentName,
    ) -> Result<(Vec<StoredMessage>, Vec<RefusedFrame>), ApiError> {
        let stored = self.ask(self.backend().inbox(self.dir(), &name.inbox_file())).await?;
        let to_come = self.keys_to_come(name, &stored).await?;
        Ok(self.examine(name, stored, &to_come))
    }

    pub(super) async fn verified(
        &self,
        name: &AgentName,
        stored: Vec<StoredMessage>,
        senders: Senders,
    ) -> Result<Vec<Mail>, ApiError> {
        let mut mail = detected(stored);
        if mail.iter().all(|m| m.frame.is_none()) {
            return Ok(mail);
        }
        let config = self.config().await?;
        // Read the list of former members only if a sender is missing. Most calls need only the
        // config.
        let gone =
            mail.iter().any(|m| m.frame.is_some() && config.member(&m.message.from).is_none());
        let ended = if gone { self.ended().await? } else { Ended::default() };
        keep_valid_frames(&mut mail, name, &config, &ended, senders);
        Ok(mail)
    }
}
