//! Decides which frames a sender is allowed to send to a receiver. Other frames are text.

use pitcrew_protocol::{AgentName, Frame, LEAD_NAME, TeamConfig, same_name};
use pitcrew_store::StoredMessage;

use super::Mail;
use crate::ended::Ended;
use crate::ours::SpawnRecord;

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
pub(super) fn detected(stored: Vec<StoredMessage>) -> Vec<Mail> {
    let mail =
        |StoredMessage { id, message }| Mail { id, frame: Frame::detect(&message.text), message };
    stored.into_iter().map(mail).collect()
}

/// Removes the frames whose senders are not allowed to send them to `name`. Such messages are text.
pub(super) fn keep_valid_frames(
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
pub(super) enum Senders {
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
