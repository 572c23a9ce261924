//! A tag that names the owner of a terminal pane in one word, `root/team/agent`. Every supported
//! terminal can store the tag with the pane.
//!
//! All characters except ASCII letters, digits, `-`, `_` and the two slashes are written as `%XX`.
//! The tag therefore needs no escaping in formats, patterns, shells and JSON.

use std::fmt;
use std::str::FromStr;

use pitcrew_protocol::{AgentName, TeamDir};

/// The owner of a pane.
///
/// The text form (`Display`, `FromStr`) is `root/team/agent`. Without an agent, the text ends with
/// a slash and means all agents of the team.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaneTag {
    /// A short text that identifies the configuration root of the team.
    pub root: String,
    /// The name of the team's folder.
    pub team: TeamDir,
    /// The agent that owns the pane. `None` means all agents of the team.
    pub agent: Option<AgentName>,
}

/// The error for a text that is not the tag of a pane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the tag of a pane (root/team/agent)")]
pub struct TagError(pub String);

impl PaneTag {
    /// Returns true if this tag is equal to the tag `other`, or names the whole team that `other`
    /// belongs to.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.root == other.root
            && self.team == other.team
            && (self.agent.is_none() || self.agent == other.agent)
    }
}

impl fmt::Display for PaneTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = self.agent.as_ref().map_or("", AgentName::as_str);
        write!(f, "{}/{}/{}", Encoded(&self.root), Encoded(self.team.as_str()), Encoded(agent))
    }
}

impl FromStr for PaneTag {
    type Err = TagError;

    fn from_str(text: &str) -> Result<Self, TagError> {
        let refused = || TagError(text.to_owned());
        let mut words = text.split('/');
        // A tag has exactly three parts.
        let (Some(root), Some(team), Some(agent), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(refused());
        };
        let word = |encoded: &str| decoded(encoded).ok_or_else(refused);
        let (root, team, agent) = (word(root)?, word(team)?, word(agent)?);
        let tag = Self {
            root,
            team: TeamDir::of(&team),
            agent: (!agent.is_empty()).then(|| AgentName::foreign(&agent)),
        };
        // Each tag has exactly one text form. Refuse every other form, because pitcrew never writes
        // it.
        if tag.to_string() == text { Ok(tag) } else { Err(refused()) }
    }
}

struct Encoded<'a>(&'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {
                write!(f, "{}", char::from(byte))
            }
            byte => write!(f, "%{byte:02X}"),
        })
    }
}

fn decoded(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tag(root: &str, team: &str, agent: &str) -> PaneTag {
        let agent = (!agent.is_empty()).then(|| AgentName::foreign(agent));
        PaneTag { root: root.to_owned(), team: TeamDir::of(team), agent }
    }

    #[test]
    fn a_tag_is_one_plain_word() {
        assert_eq!(
            tag("0af3", "My Team", "bo b;#{pid}/").to_string(),
            "0af3/my-team/bo%20b%3B%23%7Bpid%7D%2F"
        );
        assert_eq!(tag("0af3", "crew", "").to_string(), "0af3/crew/");
    }

    #[test]
    fn what_is_not_a_tag_of_ours_is_refused() {
        for text in [
            "", "a", "a/b", "a/b/c/d", "a/B/c", "a/b/%", "a/b/%zz", "a/b/%41", "a/b/%2f",
            "a/b/%FF", "a/b/c d",
        ] {
            assert_eq!(text.parse::<PaneTag>(), Err(TagError(text.to_owned())));
        }
    }

    #[test]
    fn a_team_covers_its_agents_and_nobody_else() {
        let team = tag("r", "crew", "");
        assert!(team.covers(&tag("r", "crew", "bob")));
        assert!(!team.covers(&tag("q", "crew", "bob")));
        assert!(!team.covers(&tag("r", "crew2", "bob")));
        assert!(!tag("r", "crew", "bob").covers(&tag("r", "crew", "bob2")));
        assert!(!tag("r", "crew", "bob").covers(&team));
    }

    proptest! {
        #[test]
        fn any_name_comes_back_from_its_tag(root in "[0-9a-f]{1,16}", team in ".{1,30}", agent in ".{0,30}") {
            let tag = tag(&root, &team, &agent);
            prop_assert_eq!(tag.to_string().parse::<PaneTag>(), Ok(tag));
        }
    }
}
