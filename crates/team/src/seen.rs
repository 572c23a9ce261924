//! Mail and members that this process saw in teams that another client leads. Today's client takes
//! what it has read out of its inboxes within a second, and members that leave out of its config. No
//! file keeps them.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pitcrew_protocol::{AgentName, ApiError, InboxFile, Member, MessageId, TeamConfig, TeamDir};
use pitcrew_store::StoredMessage;

use crate::Team;

/// The maximum number of teams of which something is remembered. The team that was asked for longest
/// ago is forgotten first.
const TEAMS_MOST: usize = 16;

/// The maximum size of the texts that are remembered of one inbox: of those that are gone, and of those
/// that are there. Older messages are forgotten first.
const BYTES_MOST: usize = 512 * 1024;

/// The maximum number of members that are remembered of one team.
const MEMBERS_MOST: usize = 500;

/// Names one team. Another team can have the same folder later.
type TeamId = (TeamDir, Option<i64>);

/// What is remembered of some teams.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    teams: Mutex<VecDeque<(TeamId, SeenTeam)>>,
}

#[derive(Debug, Default)]
struct SeenTeam {
    inboxes: BTreeMap<InboxFile, SeenInbox>,
    members: BTreeMap<AgentName, Member>,
}

/// The messages that were seen in one inbox.
#[derive(Debug, Default)]
struct SeenInbox {
    /// Those that were there at the last look.
    there: Vec<StoredMessage>,
    /// Those that are gone, in the order in which they went.
    gone: VecDeque<StoredMessage>,
}

impl Team {
    /// Remembers from now on the mail and the members that this process sees in the team, also after
    /// they are gone. This is for a team that another client leads. Without
    /// [`Teams::remembering`](crate::Teams::remembering), nothing is remembered.
    pub fn remember(&self) {
        if let Some(seen) = self.teams().seen() {
            seen.begin((self.dir().clone(), self.born_ms()));
        }
    }

    /// Returns what this process saw in an inbox and is not `there` any more, as read.
    pub(crate) fn seen_before(
        &self,
        inbox: &InboxFile,
        there: &[StoredMessage],
    ) -> Vec<StoredMessage> {
        let Some(seen) = self.teams().seen() else { return Vec::new() };
        let team = (self.dir().clone(), self.born_ms());
        let mut before = seen.look(&team, inbox, there);
        for stored in &mut before {
            stored.message.read = Some(true);
        }
        before
    }

    /// Reads an inbox, so that its mail is remembered.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn see_inbox(&self, inbox: &InboxFile) -> Result<(), ApiError> {
        let there = self.ask(self.backend().inbox(self.dir(), inbox)).await?;
        self.seen_before(inbox, &there);
        Ok(())
    }

    /// Returns the members that this process saw and that are not in the config any more.
    pub(crate) fn seen_members(&self, config: &TeamConfig) -> Vec<Member> {
        let Some(seen) = self.teams().seen() else { return Vec::new() };
        seen.former(&(self.dir().clone(), self.born_ms()), config)
    }
}

impl Seen {
    fn teams(&self) -> MutexGuard<'_, VecDeque<(TeamId, SeenTeam)>> {
        self.teams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what is seen of a team from now on.
    fn begin(&self, team: TeamId) {
        let mut teams = self.teams();
        let at = teams.iter().position(|(there, _)| *there == team);
        let known = at.and_then(|at| teams.remove(at)).map(|(_, seen)| seen).unwrap_or_default();
        teams.push_back((team, known));
        while teams.len() > TEAMS_MOST {
            teams.pop_front();
        }
    }

    /// Remembers what is in an inbox now. Returns the messages that were there earlier, in the order in
    /// which they went. Of a team whose mail is not remembered, this is nothing.
    fn look(
        &self,
        team: &TeamId,
        inbox: &InboxFile,
        there: &[StoredMessage],
    ) -> Vec<StoredMessage> {
        let mut teams = self.teams();
        let Some((_, seen)) = teams.iter_mut().find(|(known, _)| known == team) else {
            return Vec::new();
        };
        seen.inboxes.entry(inbox.clone()).or_default().look(there)
    }

    /// Remembers the members that are in a config now. Returns those that were in it earlier.
    fn former(&self, team: &TeamId, config: &TeamConfig) -> Vec<Member> {
        let mut teams = self.teams();
        let Some((_, seen)) = teams.iter_mut().find(|(known, _)| known == team) else {
            return Vec::new();
        };
        for member in &config.members {
            if seen.members.len() < MEMBERS_MOST || seen.members.contains_key(&member.name) {
                seen.members.insert(member.name.clone(), member.clone());
            }
        }
        let is_former = |member: &&Member| config.member(member.name.as_str()).is_none();
        seen.members.values().filter(is_former).cloned().collect()
    }
}

impl SeenInbox {
    /// Remembers what is there now, the latest messages if these are too many. Returns what is gone.
    fn look(&mut self, there: &[StoredMessage]) -> Vec<StoredMessage> {
        let ids: HashSet<&MessageId> = there.iter().map(|it| &it.id).collect();
        self.gone.retain(|it| !ids.contains(&it.id));
        self.gone.extend(self.there.drain(..).filter(|it| !ids.contains(&it.id)));
        let mut gone_bytes: usize = self.gone.iter().map(length_of).sum();
        while gone_bytes > BYTES_MOST
            && let Some(first) = self.gone.pop_front()
        {
            gone_bytes -= length_of(&first);
        }
        let mut bytes = 0;
        let has_room = |it: &&StoredMessage| {
            bytes += length_of(it);
            bytes <= BYTES_MOST
        };
        let latest = there.iter().rev().take_while(has_room).count();
        self.there.extend_from_slice(there.get(there.len() - latest..).unwrap_or_default());
        self.gone.iter().cloned().collect()
    }
}

fn length_of(stored: &StoredMessage) -> usize {
    stored.message.text.len()
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
        let (seen, inbox) = (Seen::default(), AgentName::lead().inbox_file());
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
        let (seen, inbox) = (Seen::default(), AgentName::lead().inbox_file());
        let long = "x".repeat(BYTES_MOST / 2);
        seen.begin(team("a"));
        for id in ["1", "2", "3"] {
            seen.look(&team("a"), &inbox, &[message(id, &long)]);
        }
        assert_eq!(ids(&seen.look(&team("a"), &inbox, &[])), ["2", "3"]);
        // A long inbox leaves what is gone alone, however often it is read.
        let full: Vec<StoredMessage> = ["4", "5", "6", "7"].map(|id| message(id, &long)).to_vec();
        for _ in 0..3 {
            assert_eq!(ids(&seen.look(&team("a"), &inbox, &full)), ["2", "3"]);
        }
        assert_eq!(ids(&seen.look(&team("a"), &inbox, &[])), ["6", "7"]);
        (0..TEAMS_MOST).for_each(|number| seen.begin(team(&number.to_string())));
        assert!(seen.look(&team("a"), &inbox, &[]).is_empty());
    }
}
