//! Mail that this process saw in the inboxes of teams that another client leads. Today's client takes
//! what it has read out of its inboxes within a second, and no file keeps it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use pitcrew_protocol::{InboxFile, MessageId, TeamDir};
use pitcrew_store::StoredMessage;

/// The maximum number of teams whose mail is remembered. The team that was asked for longest ago is
/// forgotten first.
const TEAMS_MOST: usize = 16;

/// The maximum size of the texts that are remembered of one inbox. Older messages are forgotten
/// first.
const BYTES_MOST: usize = 4 * 1024 * 1024;

/// Names one team. Another team can have the same folder later.
pub(super) type TeamId = (TeamDir, Option<i64>);

/// The remembered mail of some teams.
#[derive(Debug, Default)]
pub(crate) struct SeenMail {
    teams: Mutex<VecDeque<(TeamId, BTreeMap<InboxFile, SeenInbox>)>>,
}

/// The messages that were seen in one inbox, the earliest first.
#[derive(Debug, Default)]
struct SeenInbox {
    messages: VecDeque<StoredMessage>,
    ids: HashSet<MessageId>,
    bytes: usize,
}

impl SeenMail {
    /// Remembers the mail of a team from now on.
    pub(super) fn begin(&self, team: TeamId) {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        let at = teams.iter().position(|(there, _)| *there == team);
        let known = at.and_then(|at| teams.remove(at)).map(|(_, seen)| seen).unwrap_or_default();
        teams.push_back((team, known));
        while teams.len() > TEAMS_MOST {
            teams.pop_front();
        }
    }

    /// Remembers what is in an inbox now. Returns the messages that were there earlier, the earliest
    /// first. Of a team whose mail is not remembered, this is nothing.
    pub(super) fn look(
        &self,
        team: &TeamId,
        inbox: &InboxFile,
        there: &[StoredMessage],
    ) -> Vec<StoredMessage> {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, seen)) = teams.iter_mut().find(|(known, _)| known == team) else {
            return Vec::new();
        };
        let seen = seen.entry(inbox.clone()).or_default();
        seen.add(there);
        let ids: HashSet<&MessageId> = there.iter().map(|there| &there.id).collect();
        seen.messages.iter().filter(|seen| !ids.contains(&seen.id)).cloned().collect()
    }
}

impl SeenInbox {
    fn add(&mut self, there: &[StoredMessage]) {
        for stored in there {
            if self.ids.insert(stored.id.clone()) {
                self.bytes += stored.message.text.len();
                self.messages.push_back(stored.clone());
            }
        }
        while self.bytes > BYTES_MOST
            && let Some(first) = self.messages.pop_front()
        {
            self.bytes -= first.message.text.len();
            self.ids.remove(&first.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::{AgentName, Message};

    use super::*;

    fn team(name: &str) -> TeamId {
        (TeamDir::of(name), Some(1))
    }

    fn message(id: &str, text: &str) -> StoredMessage {
        let message = Message::new("bob", text.to_owned(), String::new());
        StoredMessage { id: MessageId(id.to_owned()), message }
    }

    fn ids(messages: &[StoredMessage]) -> Vec<&str> {
        messages.iter().map(|message| message.id.0.as_str()).collect()
    }

    #[test]
    fn what_has_left_an_inbox_is_remembered_for_the_team_that_was_asked_for() {
        let (seen, inbox) = (SeenMail::default(), AgentName::lead().inbox_file());
        let (one, two) = (message("1", "one"), message("2", "two"));
        assert!(seen.look(&team("a"), &inbox, std::slice::from_ref(&one)).is_empty());
        assert!(seen.look(&team("a"), &inbox, &[]).is_empty(), "nobody has asked for it");
        seen.begin(team("a"));
        assert!(seen.look(&team("a"), &inbox, &[one.clone(), two.clone()]).is_empty());
        assert_eq!(ids(&seen.look(&team("a"), &inbox, std::slice::from_ref(&two))), ["1"]);
        seen.begin(team("a"));
        assert_eq!(ids(&seen.look(&team("a"), &inbox, &[])), ["1", "2"]);
        let later = (TeamDir::of("a"), Some(2));
        seen.begin(later.clone());
        assert!(seen.look(&later, &inbox, &[]).is_empty(), "it is another team");
    }

    #[test]
    fn teams_and_long_inboxes_are_forgotten_from_the_earliest() {
        let (seen, inbox) = (SeenMail::default(), AgentName::lead().inbox_file());
        let long = "x".repeat(BYTES_MOST / 2);
        seen.begin(team("a"));
        for id in ["1", "2", "3"] {
            seen.look(&team("a"), &inbox, &[message(id, &long)]);
        }
        assert_eq!(ids(&seen.look(&team("a"), &inbox, &[])), ["2", "3"]);
        (0..TEAMS_MOST).for_each(|number| seen.begin(team(&number.to_string())));
        assert!(seen.look(&team("a"), &inbox, &[]).is_empty());
    }
}
