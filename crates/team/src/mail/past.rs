//! Mail that is no longer in the inbox, and mail that will never be delivered.

use std::collections::{BTreeMap, HashSet};

use pitcrew_protocol::{AgentName, ApiError, MessageId};
use pitcrew_store::{Event, JournalEntry, Past, StoredMessage};

use super::Mail;
use super::valid_frames::Senders;
use crate::Team;

impl Team {
    /// Returns the known messages that have left the inbox of `name`. A message is known if pitcrew
    /// moved it out of the inbox, or if a pitcrew process recently sent it. A message from another
    /// client that another client removed is known only if this process saw it before, as
    /// [`Team::remember`] says.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn past_mail(&self, name: &AgentName) -> Result<Vec<Mail>, ApiError> {
        let past = self.stored_past(name, Past::Lately).await?;
        self.verified(name, past, Senders::Members).await
    }

    /// Returns the mail of `name` for display to people. First come the messages that have left the
    /// inbox. `past` decides whether these are all messages, only the recent messages, or (if it is
    /// `None`) no messages. Then come the messages in the inbox.
    ///
    /// A frame stays a frame here even if its sender has left the team since. The caller must only
    /// display this result, and must not act on it.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn shown_mail(
        &self,
        name: &AgentName,
        past: Option<Past>,
    ) -> Result<Vec<Mail>, ApiError> {
        let there = self.inbox_of(name).await?.0;
        let mut stored = match past {
            Some(past) => self.stored_past(name, past).await?,
            None => self.seen_before(&name.inbox_file(), &there),
        };
        stored.extend(there);
        self.verified(name, stored, Senders::Former).await
    }

    /// Returns the messages to `name` that will never be delivered, each with the reason. They come
    /// from the journal entries after `position`. Also returns the position for the next call.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn undelivered_since(
        &self,
        name: &AgentName,
        position: u64,
    ) -> Result<(BTreeMap<MessageId, String>, u64), ApiError> {
        let journal = self.ask(self.backend().journal_since(self.dir(), position)).await?;
        let reason = |entry: JournalEntry| {
            if let Event::MessageDead { id, to, reason } = entry.event {
                (to == *name).then_some((id, reason))
            } else if let Event::FrameRefused { id, to, reason, .. } = entry.event {
                (to == *name).then_some((id, format!("refused: {reason}")))
            } else {
                None
            }
        };
        let (entries, position) = journal;
        Ok((entries.into_iter().filter_map(reason).collect(), position))
    }

    async fn stored_past(
        &self,
        name: &AgentName,
        past: Past,
    ) -> Result<Vec<StoredMessage>, ApiError> {
        let inbox = name.inbox_file();
        let mut past = self.ask(self.backend().past_mail(self.dir(), &inbox, past)).await?;
        let there = self.ask(self.backend().inbox(self.dir(), &inbox)).await?;
        // If a process was killed while it moved messages to the archive, a message can be in the
        // inbox and in the archive. In that case the message counts as in the inbox, and the copy
        // in the archive is skipped.
        let is_there: HashSet<&MessageId> = there.iter().map(|there| &there.id).collect();
        past.retain(|past| !is_there.contains(&past.id));
        for stored in &mut past {
            stored.message.read = Some(true);
        }
        let seen = self.seen_before(&name.inbox_file(), &there);
        let known: HashSet<MessageId> = past.iter().map(|past| past.id.clone()).collect();
        past.extend(seen.into_iter().filter(|seen| !known.contains(&seen.id)));
        Ok(past)
    }
}
