//! Who calls, and what that allows.

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, TeamConfig};

use crate::refusal;

/// Names that mean somebody else than an agent, or the lead; nobody else may have them.
const RESERVED: [&str; 3] = [LEAD_NAME, "user", "system"];

/// The name under which the team itself writes.
pub(crate) const SYSTEM: &str = "system";

/// What the person at a shell is called who writes with `pitcrew send`: an outside writer, since any program can do that.
pub const OPERATOR: &str = "operator";

/// Who calls an operation. The caller's process vouches for it; a message never does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The team's lead.
    Lead,
    /// A member; the lead too may come this way.
    Member(AgentName),
    /// The person at the terminal, who may do what the lead may, except answer for it.
    User,
    /// A writer that is no member, by the name it goes by. It may send texts and nothing else.
    Outside(String),
}

/// An actor as the team knows it now.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    /// The name that stands in `from`.
    pub(crate) name: String,
    /// The color of a teammate.
    pub(crate) color: Option<String>,
    /// What it is to the team.
    pub(crate) rank: Rank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    Lead,
    Teammate,
    User,
    Outside,
}

impl Speaker {
    /// Finds `actor` in the team.
    pub(crate) fn of(actor: &Actor, config: &TeamConfig) -> Result<Self, ApiError> {
        let known = |name: &str, rank| Self { name: name.to_owned(), color: None, rank };
        match actor {
            Actor::Lead => Ok(known(LEAD_NAME, Rank::Lead)),
            Actor::User => Ok(known("user", Rank::User)),
            Actor::Member(name) => {
                let member = config
                    .member(name.as_str())
                    .ok_or_else(|| refusal::unknown_agent(config, name.as_str()))?;
                if member.is_called(LEAD_NAME) {
                    return Ok(known(LEAD_NAME, Rank::Lead));
                }
                Ok(Self {
                    name: member.name.to_string(),
                    color: member.color.clone(),
                    rank: Rank::Teammate,
                })
            }
            Actor::Outside(name) => {
                let checked = AgentName::new(name).map_err(|e| refusal::bad_name(name, &e))?;
                let held = config.members.iter().any(|m| passes_for(&checked, &m.name));
                if held || is_reserved(&checked) {
                    let message = format!(
                        "'{name}' is taken: an outside writer cannot speak as a member, the user or the system"
                    );
                    return Err(refusal::denied(message).with("from", name.as_str()));
                }
                Ok(known(checked.as_str(), Rank::Outside))
            }
        }
    }

    /// Refuses everybody but the lead and the user.
    pub(crate) fn must_lead(&self, what: &str) -> Result<(), ApiError> {
        match self.rank {
            Rank::Lead | Rank::User => Ok(()),
            Rank::Teammate | Rank::Outside => {
                Err(refusal::denied(format!("only the lead may {what}")))
            }
        }
    }

    /// Refuses outside writers.
    pub(crate) fn must_belong(&self, what: &str) -> Result<(), ApiError> {
        match self.rank {
            Rank::Lead | Rank::User | Rank::Teammate => Ok(()),
            Rank::Outside => Err(refusal::denied(format!("only members may {what}"))),
        }
    }

    /// The name frames carry: the user speaks through its lead, for readers obey frames of the lead only.
    pub(crate) fn frame_name(&self) -> &str {
        match self.rank {
            Rank::User => LEAD_NAME,
            Rank::Lead | Rank::Teammate | Rank::Outside => &self.name,
        }
    }
}

/// Whether no agent may be called that.
pub(crate) fn is_reserved(name: &AgentName) -> bool {
    RESERVED.map(AgentName::foreign).iter().any(|reserved| passes_for(name, reserved))
}

/// Whether `name` could be taken for `other`, by a program or by whoever reads it.
pub(crate) fn passes_for(name: &AgentName, other: &AgentName) -> bool {
    one_form(name, other) || looks_like(name, other)
}

/// Whether `name` could be read as `other`: only letters and digits are told apart by eye, and what is not ASCII may look
/// like any of them.
fn looks_like(name: &AgentName, other: &AgentName) -> bool {
    let seen = |name: &AgentName| -> Vec<char> {
        name.as_str().chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let (name, other) = (seen(name), seen(other));
    name.len() == other.len() && name.iter().zip(&other).all(|(a, b)| a == b || !a.is_ascii())
}

/// Whether two names fall on one inbox, upper and lower case being one as on many file systems.
pub(crate) fn one_form(a: &AgentName, b: &AgentName) -> bool {
    a.inbox_file().as_str().eq_ignore_ascii_case(b.inbox_file().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_read_as_a_reserved_one_is_reserved() {
        let alike = [
            "team-lead",
            "Team Lead",
            "teamlead",
            "team-lead\u{200B}",
            "t\u{435}am-lead",
            "us\u{301}er",
            "\u{FF53}ystem.",
        ];
        for name in alike {
            assert!(is_reserved(&AgentName::foreign(name)), "{name:?}");
        }
        for name in ["team-lead-2", "users", "worker", "Zo\u{EB}", "sys"] {
            assert!(!is_reserved(&AgentName::foreign(name)), "{name:?}");
        }
    }
}
