//! The mail of one member: its unread messages, the valid frames among them, and the delivery state
//! of each message.

use std::collections::BTreeMap;

use pitcrew_protocol::{
    AgentName, ApiError, Foreign, Frame, IdleNotification, LEAD_NAME, Message, MessageId,
    TeamConfig, same_name,
};
use pitcrew_store::{Event, JournalEntry, Past, StoredMessage};

use crate::Team;
use crate::actor::{Actor, Speaker};
use crate::clock::wire_time;
use crate::delivery::{OutgoingMessage, Receipt};
use crate::ended::Ended;
use crate::lead::RefusedFrame;
use crate::ours::SpawnRecord;
use crate::requests::RequestKind;

/// The number of read messages that stay in the inbox of a member that pitcrew runs. Every
/// operation on a message reads or writes the whole inbox, so a longer inbox makes a busy team
/// slower.
const READ_KEPT: usize = 50;

/// The number of read messages that an inbox may have in addition to [`READ_KEPT`]. If the inbox
/// has more, its oldest read messages are moved to the archive. Without this margin, each message
/// would need a write to the archive.
const READ_SLACK: usize = 50;

/// A message as the receiver of the message sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// The id of the message.
    pub id: MessageId,
    /// The message as it is stored in the inbox.
    pub message: Message,
    /// The frame that the message carries, if its sender is allowed to send such a frame to this
    /// receiver. Otherwise the message is text.
    pub frame: Option<Frame>,
}

impl Mail {
    /// Returns the id of the request, if the message carries one.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request().map(|(_, id, _)| id)
    }

    /// If the message carries a request, returns its kind, its id, and the tool that needs
    /// permission.
    pub(crate) fn request(&self) -> Option<(RequestKind, &str, Option<&str>)> {
        match self.frame.as_ref()? {
            Frame::ShutdownRequest(frame) => Some((RequestKind::Shutdown, &frame.request_id, None)),
            Frame::PlanApprovalRequest(frame) => Some((RequestKind::Plan, &frame.request_id, None)),
            Frame::PermissionRequest(frame) => {
                Some((RequestKind::Permission, &frame.request_id, Some(&frame.tool_name)))
            }
            Frame::IdleNotification(_)
            | Frame::TaskAssignment(_)
            | Frame::TaskCompleted(_)
            | Frame::ShutdownApproved(_)
            | Frame::ShutdownRejected(_)
            | Frame::ShutdownResponse(_)
            | Frame::PlanApprovalResponse(_)
            | Frame::PermissionResponse(_)
            | Frame::TeammateTerminated(_) => None,
        }
    }
}

/// If the frame answers a request, returns the id of that request.
pub(crate) fn answered(frame: &Frame) -> Option<&str> {
    match frame {
        Frame::ShutdownApproved(frame) => Some(&frame.request_id),
        Frame::ShutdownRejected(frame) => Some(&frame.request_id),
        Frame::ShutdownResponse(frame) => Some(&frame.request_id),
        Frame::PlanApprovalResponse(frame) => Some(&frame.request_id),
        Frame::PermissionResponse(frame) => Some(&frame.request_id),
        Frame::IdleNotification(_)
        | Frame::TaskAssignment(_)
        | Frame::TaskCompleted(_)
        | Frame::ShutdownRequest(_)
        | Frame::PlanApprovalRequest(_)
        | Frame::PermissionRequest(_)
        | Frame::TeammateTerminated(_) => None,
    }
}

/// The unread messages of an inbox, and the messages that were refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// The unread messages, in the order of the inbox.
    pub mail: Vec<Mail>,
    /// Messages that falsely claimed to be commands of the lead. These messages are already marked
    /// as read and recorded. The caller must show them as a warning.
    pub refused: Vec<RefusedFrame>,
}

/// The reason why a teammate is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleReason {
    /// The teammate's turn ended normally.
    Available,
    /// The teammate's turn was interrupted.
    Interrupted,
    /// The teammate's turn failed.
    Failed,
}

impl IdleReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// The report of a teammate to its lead at the end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleNotice {
    /// The reason why the teammate is idle.
    pub reason: IdleReason,
    /// A short summary of the teammate's work.
    pub summary: Option<String>,
    /// The task that the teammate completed: its id, and the status in which it ended.
    pub completed: Option<(String, String)>,
    /// The error text of a failed turn.
    pub failure: Option<String>,
    /// The last text of the turn.
    pub result: Option<String>,
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

    /// Returns the known messages that have left the inbox of `name`. A message is known if pitcrew
    /// moved it out of the inbox, or if a pitcrew process recently sent it. A message from another
    /// client that another client removed is not known.
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
        let mut stored = match past {
            Some(past) => self.stored_past(name, past).await?,
            None => Vec::new(),
        };
        stored.extend(self.inbox_of(name).await?.0);
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
        past.retain(|past| there.iter().all(|there| there.id != past.id));
        for stored in &mut past {
            stored.message.read = Some(true);
        }
        Ok(past)
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

    async fn inbox_of(
        &self,
        name: &AgentName,
    ) -> Result<(Vec<StoredMessage>, Vec<RefusedFrame>), ApiError> {
        let stored = self.ask(self.backend().inbox(self.dir(), &name.inbox_file())).await?;
        let to_come = self.keys_to_come(name, &stored).await?;
        Ok(self.examine(name, stored, &to_come))
    }

    /// Records that messages are in the conversation of `name`. From now on these messages count as
    /// delivered.
    pub async fn injected(&self, name: &AgentName, ids: &[MessageId]) {
        self.note(ids.iter().map(|id| Event::MessageInjected { id: id.clone(), to: name.clone() }))
            .await;
    }

    /// Marks messages of `name` as read.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn acknowledge(&self, name: &AgentName, ids: &[MessageId]) -> Result<(), ApiError> {
        if ids.is_empty() {
            return Ok(());
        }
        let inbox = name.inbox_file();
        let there = self.ask(self.backend().inbox(self.dir(), &inbox)).await?;
        let read = there
            .iter()
            .filter(|stored| stored.message.is_read() || ids.contains(&stored.id))
            .count();
        // In a team of the session dialect (the format of newer reference clients), a message
        // leaves the inbox when it is marked as read. If the message carries a request, the request
        // must be recorded before the message leaves.
        let leaves =
            |stored: &StoredMessage| stored.message.msg_v.is_some() && ids.contains(&stored.id);
        let leaving: Vec<StoredMessage> = there.into_iter().filter(leaves).collect();
        if !leaving.is_empty() {
            self.keep_requests(name, &self.verified(name, leaving, Senders::Members).await?)
                .await?;
        }
        self.ask(self.backend().acknowledge(self.dir(), &inbox, ids)).await?;
        self.note(
            ids.iter().map(|id| Event::MessageAcknowledged { id: id.clone(), to: name.clone() }),
        )
        .await;
        self.trim(name, read).await
    }

    /// Moves the oldest read messages of `name` out of its inbox if there are too many. `read` is
    /// the number of read messages. Each new message rewrites the whole inbox, so a long inbox is
    /// slow.
    async fn trim(&self, name: &AgentName, read: usize) -> Result<(), ApiError> {
        // Messages are moved only out of the inbox of a member that pitcrew runs. Another client
        // may mark the messages of its inbox by their position, and would mark the wrong messages
        // after a move.
        if read > READ_KEPT + READ_SLACK
            && self.config().await?.member(name.as_str()).is_some_and(SpawnRecord::is_run_by_us)
        {
            self.ask(self.backend().trim_inbox(self.dir(), &name.inbox_file(), READ_KEPT)).await?;
        }
        Ok(())
    }

    /// Informs the lead that the turn of `member` has ended.
    ///
    /// # Errors
    /// `agent_not_found`, `internal_error`.
    pub async fn notify_idle(
        &self,
        member: &AgentName,
        notice: IdleNotice,
    ) -> Result<Receipt, ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(&Actor::Member(member.clone()), &config)?;
        let (completed_task_id, completed_status) = notice.completed.unzip();
        let frame = IdleNotification {
            kind: IdleNotification::TYPE.into(),
            from: speaker.name.clone(),
            timestamp: Some(wire_time(self.now_ms())),
            idle_reason: Some(notice.reason.as_str().to_owned()),
            summary: notice.summary,
            completed_task_id,
            completed_status,
            failure_reason: notice.failure,
            result: notice.result,
            foreign: Foreign::default(),
        };
        let id = self.teams().entropy().message_id(self.now_ms())?;
        let letter = OutgoingMessage::of_frame(id, &speaker.name, &AgentName::lead(), frame)?;
        self.deliver(OutgoingMessage { color: speaker.color, ..letter }).await
    }

    async fn verified(
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

/// Returns the mail of `name` in an archived team, for display to people. A frame of a former member
/// stays a frame.
pub(crate) fn archived_mail(
    name: &AgentName,
    stored: Vec<StoredMessage>,
    config: &TeamConfig,
    ended: &Ended,
) -> Vec<Mail> {
    let mut mail = detected(stored);
    keep_valid_frames(&mut mail, name, config, ended, Senders::Former);
    mail
}

/// Detects the frames in the texts of messages, whoever sent them.
fn detected(stored: Vec<StoredMessage>) -> Vec<Mail> {
    let mail =
        |StoredMessage { id, message }| Mail { id, frame: Frame::detect(&message.text), message };
    stored.into_iter().map(mail).collect()
}

/// Removes the frames whose senders are not allowed to send them to `name`. Such messages are text.
fn keep_valid_frames(
    mail: &mut [Mail],
    name: &AgentName,
    config: &TeamConfig,
    ended: &Ended,
    senders: Senders,
) {
    for mail in mail {
        let (from, to) = (mail.message.from.as_str(), name.as_str());
        let post = FrameRoute { config, ended, senders, from, to };
        mail.frame = mail.frame.take().filter(|frame| post.admits(frame));
    }
}

/// The senders whose frames are accepted as frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Senders {
    /// Frames of current members, for a reader that acts on the frames. Reports of a former member
    /// are accepted too.
    Members,
    /// Frames of current and former members, for display. If another client leads the team, former
    /// members are not recorded, so frames of every sender are accepted.
    Former,
}

/// The sender and the receiver of a frame, with the members of the team.
struct FrameRoute<'a> {
    config: &'a TeamConfig,
    ended: &'a Ended,
    senders: Senders,
    from: &'a str,
    to: &'a str,
}

impl FrameRoute<'_> {
    /// Whether this sender is allowed to send this frame to this receiver.
    fn admits(&self, frame: &Frame) -> bool {
        match frame {
            Frame::IdleNotification(f) => self.reports(Some(&f.from)),
            Frame::TaskCompleted(f) => self.reports(Some(&f.from)),
            Frame::ShutdownApproved(f) => self.reports(f.from.as_deref()),
            Frame::ShutdownRejected(f) => self.reports(f.from.as_deref()),
            Frame::ShutdownResponse(_) => self.reports(None),
            Frame::PlanApprovalRequest(f) => self.asks(&f.from),
            Frame::PermissionRequest(f) => self.asks(&f.agent_id),
            Frame::TaskAssignment(f) => {
                let by = f.assigned_by.as_deref();
                self.is_lead(self.from)
                    || (self.is_member() && by.is_none_or(|by| same(by, self.from)))
            }
            Frame::ShutdownRequest(f) => {
                self.commands() && f.from.as_deref().is_none_or(|from| self.is_lead(from))
            }
            Frame::PlanApprovalResponse(_) | Frame::PermissionResponse(_) => self.commands(),
            Frame::TeammateTerminated(_) => false,
        }
    }

    /// Whether the frame is a report to the lead, and its sender is the teammate or former teammate
    /// that the report is about.
    fn reports(&self, speaks_for: Option<&str>) -> bool {
        let known = self.is_member() || self.ended.member(self.from).is_some();
        known
            && self.is_lead(self.to)
            && !self.is_lead(self.from)
            && speaks_for.is_none_or(|name| same(name, self.from))
    }

    /// Whether the frame is a request to the lead, and its sender is the teammate that the request
    /// is for.
    fn asks(&self, asker: &str) -> bool {
        self.is_member()
            && self.is_lead(self.to)
            && !self.is_lead(self.from)
            && same(asker, self.from)
    }

    /// Whether the lead sends the frame to a teammate.
    fn commands(&self) -> bool {
        self.is_lead(self.from) && !self.is_lead(self.to)
    }

    fn is_member(&self) -> bool {
        self.config.member(self.from).is_some()
            || (self.senders == Senders::Former && self.was_member())
    }

    fn was_member(&self) -> bool {
        let is_led_by_us =
            self.config.member(LEAD_NAME).is_some_and(|lead| SpawnRecord::of(lead).is_some());
        self.ended.member(self.from).is_some() || !is_led_by_us
    }

    fn is_lead(&self, name: &str) -> bool {
        same(name, LEAD_NAME)
    }
}

fn same(a: &str, b: &str) -> bool {
    same_name(a, b)
}
