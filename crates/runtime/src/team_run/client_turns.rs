//! Finds out from a client's mail whether the client is in a turn or about to begin one. A client
//! marks mail as read when it takes the mail, and sends an idle notice at the end of each turn. The
//! client's config entry shows the same, but later.
//!
//! A new message may arrive a moment before the client sends the idle notice of its current turn.
//! In the recording `fixtures/claude-2.1.39/refusals`, the answer to a plan was sent 58 ms before
//! the idle notice of the turn that made the plan. The client took the answer after that notice,
//! and so the notice did not end the turn that the answer began. For that reason, a notice ends a
//! turn only if an earlier check has already seen that the client took the mail for this turn.

use std::collections::HashSet;
use std::time::Duration;

use pitcrew_protocol::{AgentName, Frame, MessageId};
use pitcrew_team::{Mail, RequestKind, Team};

use super::run_machine::ClientSeen;

/// What the loop has seen of one client's mail.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientTurns {
    taken: HashSet<MessageId>,
    notices: HashSet<MessageId>,
    at: TurnState,
    /// Whether mail was taken during a turn. The client may show such mail to its model in that
    /// turn or in the next turn.
    may_begin_another: bool,
}

/// Whether a client is in a turn, as its mail shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::team_run) enum TurnState {
    /// The client is in a turn, or about to begin one. An idle notice will follow.
    Turn,
    /// The client is either between two turns or at the beginning of a turn. The mail does not show
    /// which of the two is the case.
    Unclear,
    /// The client is idle. It has sent an idle notice for all the mail that it took.
    #[default]
    Idle,
}

impl ClientTurns {
    /// Updates the state from the client's inbox and the lead's inbox. The caller must read the
    /// lead's inbox before the client's inbox. The client's inbox then shows all mail that the
    /// client took before it sent the notices in the lead's inbox.
    pub(super) fn look(&mut self, name: &AgentName, of_lead: &[Mail], inbox: &[Mail]) -> TurnState {
        let is_notice = |mail: &&Mail| {
            AgentName::foreign(&mail.message.from) == *name
                && matches!(mail.frame, Some(Frame::IdleNotification(_)))
        };
        let given = new_to(&mut self.notices, of_lead.iter().filter(is_notice));
        let taken = new_to(&mut self.taken, inbox.iter().filter(|mail| begins_turn(mail)));
        self.at = match (self.at, given, taken) {
            (at, 0, 0) => at,
            (TurnState::Turn, 0, 1..) => {
                self.may_begin_another = true;
                TurnState::Turn
            }
            (TurnState::Turn, 1, 0) if self.may_begin_another => TurnState::Unclear,
            (TurnState::Turn | TurnState::Unclear, 1.., 0) => TurnState::Idle,
            // The client has taken mail and has sent an idle notice since the last check. It is
            // unknown which of the two happened first.
            (TurnState::Turn | TurnState::Unclear, 1.., 1..) => TurnState::Unclear,
            (TurnState::Idle | TurnState::Unclear, 0, 1..) => TurnState::Turn,
            // The client has taken several messages and sent fewer notices. One notice may cover
            // all these messages, or more notices may follow.
            (TurnState::Idle, _, _) if given < taken => TurnState::Unclear,
            (TurnState::Idle, _, _) => TurnState::Idle,
        };
        if given > 0 {
            self.may_begin_another = false;
        }
        self.at
    }

    /// Returns the state that the latest call of `look` found.
    pub(super) fn at(&self) -> TurnState {
        self.at
    }

    /// Changes an unclear state to idle. If the client were in a turn, the config would show the
    /// turn by now.
    pub(super) fn showed_no_turn(&mut self) {
        if self.at == TurnState::Unclear {
            self.at = TurnState::Idle;
        }
    }
}

/// Adds messages to the known messages, and returns how many of them were new.
fn new_to<'a>(known: &mut HashSet<MessageId>, mail: impl Iterator<Item = &'a Mail>) -> usize {
    mail.filter(|mail| known.insert(mail.id.clone())).count()
}

/// Returns true if the client has taken this message and the message begins a turn. A permission
/// answer begins no turn, because it belongs to the turn that sent the permission request.
fn begins_turn(mail: &Mail) -> bool {
    mail.message.is_read() && !matches!(mail.frame, Some(Frame::PermissionResponse(_)))
}

/// Returns what the team's files show about a client, together with the given turn state. A file
/// that cannot be read counts as empty.
pub(super) async fn client_seen(team: &Team, name: &AgentName, turn: TurnState) -> ClientSeen {
    let sent = team.mail(name).await.unwrap_or_default();
    let last_sent = sent.into_iter().filter_map(|mail| mail.message.timestamp).max();
    let of_lead = team.mail(&AgentName::lead()).await.unwrap_or_default();
    let from_client = of_lead.into_iter().filter(|mail| mail.message.from == name.as_str());
    let notices = from_client.filter_map(|mail| match mail.frame {
        Some(Frame::IdleNotification(notice)) => notice.timestamp,
        Some(_) | None => None,
    });
    let requests = team.requests().await.unwrap_or_default().into_values();
    let open =
        requests.filter(|it| it.kind == RequestKind::Shutdown && it.to == *name && it.is_open());
    let since = |at_ms: i64| u64::try_from(team.teams().now_ms() - at_ms).unwrap_or(0);
    let asked_ms = open.map(|request| request.at_ms).max();
    let asked_to_leave = asked_ms.map(|at_ms| Duration::from_millis(since(at_ms)));
    ClientSeen { last_sent, last_notice: notices.max(), turn, asked_to_leave }
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::Message;

    use super::*;

    /// The inboxes of a client and its lead.
    #[derive(Default)]
    struct Inboxes {
        of_lead: Vec<Mail>,
        of_client: Vec<Mail>,
        turns: ClientTurns,
    }

    fn bob() -> AgentName {
        AgentName::foreign("bob")
    }

    impl Inboxes {
        fn gets(&mut self, text: &str) -> &mut Self {
            self.of_client.push(mail(self.of_client.len(), "team-lead", text));
            self
        }

        fn takes_all(&mut self) -> &mut Self {
            for mail in &mut self.of_client {
                mail.message.read = Some(true);
            }
            self
        }

        fn gives_notice(&mut self) -> &mut Self {
            let notice = r#"{"type":"idle_notification","from":"bob","timestamp":"2026-11-20T13:10:16.458Z","idleReason":"available"}"#;
            self.of_lead.push(mail(self.of_lead.len(), "bob", notice));
            self
        }

        fn look(&mut self) -> TurnState {
            self.turns.look(&bob(), &self.of_lead, &self.of_client)
        }
    }

    fn mail(number: usize, from: &str, text: &str) -> Mail {
        let message = Message::new(from, text.to_owned(), "2026-11-20T13:10:16.000Z".to_owned());
        Mail { id: MessageId(format!("{from}-{number}")), message, frame: Frame::detect(text) }
    }

    #[test]
    fn an_answer_that_was_sent_before_the_notice_of_the_plans_turn_begins_a_turn_of_its_own() {
        // The times are as recorded in fixtures/claude-2.1.39/refusals: the answer to the plan was
        // sent at second 16.400, and the client's two idle notices came at seconds 16.458 and
        // 16.709.
        let mut seen = Inboxes::default();
        assert_eq!(seen.gets("make a plan").takes_all().look(), TurnState::Turn);
        assert_eq!(seen.gets("yes").look(), TurnState::Turn);
        assert_eq!(seen.gives_notice().look(), TurnState::Idle);
        assert_eq!(seen.takes_all().look(), TurnState::Turn);
        assert_eq!(seen.look(), TurnState::Turn);
        assert_eq!(seen.gives_notice().look(), TurnState::Idle);
    }

    #[test]
    fn what_is_seen_late_and_at_once_is_unclear_until_there_was_time_for_a_turn_to_show() {
        let mut seen = Inboxes::default();
        seen.gets("make a plan").takes_all().look();
        assert_eq!(seen.gets("yes").gives_notice().takes_all().look(), TurnState::Unclear);
        assert_eq!(seen.gives_notice().look(), TurnState::Idle);
        seen.gets("more").takes_all().look();
        assert_eq!(seen.gets("and more").gives_notice().takes_all().look(), TurnState::Unclear);
        seen.turns.showed_no_turn();
        assert_eq!(seen.look(), TurnState::Idle);
        assert_eq!(seen.gets("again").takes_all().gives_notice().look(), TurnState::Idle);
    }

    #[test]
    fn mail_that_is_taken_in_a_turn_may_begin_another_one() {
        let mut seen = Inboxes::default();
        seen.gets("work").takes_all().look();
        assert_eq!(seen.gets("and this").takes_all().look(), TurnState::Turn);
        assert_eq!(seen.gives_notice().look(), TurnState::Unclear);
        assert_eq!(seen.gives_notice().look(), TurnState::Idle);
        seen.turns.showed_no_turn();
        assert_eq!(seen.gets("and that").takes_all().look(), TurnState::Turn);
        assert_eq!(seen.gives_notice().look(), TurnState::Idle);
    }

    #[test]
    fn an_answer_to_a_permission_request_begins_no_turn() {
        let mut seen = Inboxes::default();
        seen.gets("work").takes_all().look();
        let answer = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success","response":{}}"#;
        assert_eq!(seen.gets(answer).takes_all().gives_notice().look(), TurnState::Idle);
    }
}
