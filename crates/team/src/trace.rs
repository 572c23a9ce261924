//! The history of a message. The times come from the journal, and the current state comes from the
//! inbox.

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, MessageId, TeamConfig, TeamDir};
use pitcrew_store::{Event, JournalEntry, JournalOf, StoredMessage};
use serde::Serialize;

use crate::clock::wire_time;
use crate::delivery::DeliveryState;
use crate::{SpawnRecord, Teams, refusal};

/// The history of one message. Times have the format that messages use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageTrace {
    /// The id of the message.
    pub id: MessageId,
    /// The team in which the message was sent.
    pub team: String,
    /// The sender. `None` for a message to a member that had already ended, because the journal
    /// does not record that sender.
    pub from: Option<String>,
    /// The author, if the sender is not the author: the user, who decided something in the lead's
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The member that the message is for.
    pub to: AgentName,
    /// The delivery state of the message.
    pub state: DeliveryState,
    /// The time when the message was put into the inbox.
    pub persisted_at: Option<String>,
    /// The time when the message was put into the receiver's conversation. `None` if another client
    /// runs the receiver.
    pub injected_at: Option<String>,
    /// The time when the message was marked as read. If another client ran the receiver, this is
    /// the time when the receiver ended, because pitcrew learns only then that the client has taken
    /// the message.
    pub acknowledged_at: Option<String>,
    /// The reason why the message will not be delivered, and the time when this was recorded.
    /// `None` if the message was not recorded as dead.
    pub dead: Option<DeadLetter>,
    /// The time when the team was deleted. `None` while the team exists. Later actions of other
    /// clients on the message are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_deleted_at: Option<String>,
    /// The time when the finished team was moved into the archive. `None` while the team exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_archived_at: Option<String>,
}

/// The reason and time of a failed delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// The reason why the message was not delivered.
    pub reason: String,
    /// The time when it was recorded that the message will not be delivered.
    pub at: String,
}

impl Teams {
    /// Returns the history of a message from any team, including deleted teams. A team that cannot
    /// be read is skipped.
    ///
    /// # Errors
    /// `message_not_found` when no team knows the message, `internal_error` when the store cannot
    /// be read.
    pub async fn message(&self, id: &MessageId) -> Result<MessageTrace, ApiError> {
        for dir in self.backend().teams().await.map_err(refusal::of_store)? {
            let (Ok(config), Ok(journal)) = (
                self.backend().team(&dir).await,
                self.backend().message_journal(JournalOf::Team(&dir), id).await,
            ) else {
                continue;
            };
            if let Some(trace) = self.trace(&dir, &config, &journal, id).await {
                return Ok(trace);
            }
        }
        for archive in self.backend().archives().await.map_err(refusal::of_store)? {
            let Ok(journal) =
                self.backend().message_journal(JournalOf::Archive(&archive), id).await
            else {
                continue;
            };
            let end = end(&journal);
            let team = end.as_ref().map_or_else(|| archive.to_string(), |end| end.team.clone());
            if let Some(trace) = told(&team, &journal, id) {
                let at = |is_deletion| {
                    end.as_ref()
                        .filter(|end| end.is_deletion == is_deletion)
                        .map(|end| end.at.clone())
                };
                return Ok(MessageTrace {
                    team_deleted_at: at(true),
                    team_archived_at: at(false),
                    ..trace
                });
            }
        }
        let said = format!("there is no message '{id}'");
        Err(ApiError::new(ErrorCode::MessageNotFound, said).with("message_id", id.0.as_str()))
    }

    async fn trace(
        &self,
        dir: &TeamDir,
        config: &TeamConfig,
        journal: &[JournalEntry],
        id: &MessageId,
    ) -> Option<MessageTrace> {
        let told = told(config.name.as_str(), journal, id);
        let members = config.members.iter().map(|m| &m.name);
        // The journal does not contain messages that another client wrote. To find such a message,
        // search the inboxes of all members.
        let boxes: Vec<&AgentName> =
            told.as_ref().map_or_else(|| members.collect(), |told| vec![&told.to]);
        for name in boxes {
            let inbox = self.backend().inbox(dir, &name.inbox_file()).await.unwrap_or_default();
            if let Some(stored) = inbox.into_iter().find(|stored| stored.id == *id) {
                let trace = told.clone().unwrap_or_else(|| blank(config.name.as_str(), id, name));
                return Some(with_inbox(trace, stored));
            }
        }
        // When a newer version of the reference client takes a message, it removes the message from
        // the inbox. It does so in teams that it leads and in teams that pitcrew leads. A missing
        // message therefore counts as read.
        let is_clients = |name: &AgentName| {
            config.is_session_dialect()
                || config
                    .member(name.as_str())
                    .is_some_and(|member| !SpawnRecord::is_run_by_us(member))
        };
        let is_taken = |trace: &MessageTrace| trace.dead.is_none() && is_clients(&trace.to);
        told.map(|trace| {
            if is_taken(&trace) {
                MessageTrace { state: DeliveryState::Acknowledged, ..trace }
            } else {
                trace
            }
        })
    }
}

/// The end of an archived team.
struct End {
    team: String,
    at: String,
    /// True if the team was deleted. False if the team was archived because its work was done.
    is_deletion: bool,
}

/// Reads how and when the team ended from its journal. If the lead of a run deleted the team, the
/// rest of this run follows that line.
fn end(journal: &[JournalEntry]) -> Option<End> {
    journal.iter().rev().find_map(|JournalEntry { at_ms, event }| {
        let (team, is_deletion) = if let Event::TeamDeleted { team } = event {
            (team, true)
        } else if let Event::TeamArchived { team } = event {
            (team, false)
        } else {
            return None;
        };
        Some(End { team: team.clone(), at: wire_time(*at_ms), is_deletion })
    })
}

fn blank(team: &str, id: &MessageId, to: &AgentName) -> MessageTrace {
    MessageTrace {
        id: id.clone(),
        team: team.to_owned(),
        from: None,
        author: None,
        to: to.clone(),
        state: DeliveryState::Persisted,
        persisted_at: None,
        injected_at: None,
        acknowledged_at: None,
        dead: None,
        team_deleted_at: None,
        team_archived_at: None,
    }
}

/// Builds the history of a message from the journal.
fn told(team: &str, journal: &[JournalEntry], id: &MessageId) -> Option<MessageTrace> {
    let mut about =
        journal.iter().filter_map(|entry| Some((entry, receiver(&entry.event, id)?))).peekable();
    let mut trace = blank(team, id, about.peek()?.1);
    for (JournalEntry { at_ms, event }, _) in about {
        let at = wire_time(*at_ms);
        match event {
            Event::MessagePersisted { from, author, .. } => {
                trace.from.get_or_insert_with(|| from.clone());
                trace.author = trace.author.or_else(|| author.clone());
                trace.persisted_at.get_or_insert(at);
            }
            Event::MessageInjected { .. } => {
                trace.injected_at.get_or_insert(at);
            }
            Event::MessageAcknowledged { .. } => {
                trace.acknowledged_at.get_or_insert(at);
            }
            Event::MessageDead { reason, .. } => {
                trace.dead.get_or_insert_with(|| DeadLetter { reason: reason.clone(), at });
            }
            Event::FrameRefused { from, reason, .. } => {
                trace.from.get_or_insert_with(|| from.clone());
                // A message that was delivered stays delivered, even if a later message with the
                // same id is refused.
                if trace.injected_at.is_none() {
                    trace.dead.get_or_insert_with(|| DeadLetter {
                        reason: format!("refused: {reason}"),
                        at,
                    });
                }
            }
            Event::TeamCreated { .. }
            | Event::TeamDeleted { .. }
            | Event::TeamArchived { .. }
            | Event::TaskChanged { .. }
            | Event::Overwritten(_)
            | Event::MemberChanged { .. }
            | Event::Started { .. }
            | Event::Stopped { .. }
            | Event::Permission { .. }
            | Event::AllowedAlways { .. }
            | Event::ConversationCompacted { .. }
            | Event::TurnEnded(_)
            | Event::RunStarted { .. }
            | Event::RunEnded { .. }
            | Event::EarlierTeams { .. } => {}
        }
    }
    trace.state = state_of(&trace, false);
    Some(trace)
}

/// If the event is about message `id`, returns the receiver of the message.
fn receiver<'a>(event: &'a Event, id: &MessageId) -> Option<&'a AgentName> {
    match event {
        Event::MessagePersisted { id: told, to, .. }
        | Event::MessageInjected { id: told, to }
        | Event::MessageAcknowledged { id: told, to }
        | Event::MessageDead { id: told, to, .. }
        | Event::FrameRefused { id: told, to, .. } => (told == id).then_some(to),
        Event::TeamCreated { .. }
        | Event::TeamDeleted { .. }
        | Event::TeamArchived { .. }
        | Event::TaskChanged { .. }
        | Event::Overwritten(_)
        | Event::MemberChanged { .. }
        | Event::Started { .. }
        | Event::Stopped { .. }
        | Event::Permission { .. }
        | Event::AllowedAlways { .. }
        | Event::ConversationCompacted { .. }
        | Event::TurnEnded(_)
        | Event::RunStarted { .. }
        | Event::RunEnded { .. }
        | Event::EarlierTeams { .. } => None,
    }
}

/// Adds information from the inbox to the history. The journal lacks this information if another
/// client read or wrote the message.
fn with_inbox(mut trace: MessageTrace, stored: StoredMessage) -> MessageTrace {
    trace.state = state_of(&trace, stored.message.is_read());
    trace.from.get_or_insert(stored.message.from);
    trace.persisted_at = trace.persisted_at.or(stored.message.timestamp);
    trace
}

fn state_of(trace: &MessageTrace, is_read: bool) -> DeliveryState {
    if trace.dead.is_some() {
        DeliveryState::Dead
    } else if trace.acknowledged_at.is_some() || is_read {
        DeliveryState::Acknowledged
    } else if trace.injected_at.is_some() {
        DeliveryState::Injected
    } else {
        DeliveryState::Persisted
    }
}
