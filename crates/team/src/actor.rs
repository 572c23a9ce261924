//! The caller of an operation, and the operations that the caller is allowed to use.

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, TeamConfig};

use crate::new_name::is_confusable;
use crate::refusal;

/// Reserved names: the lead, the user and the system. No agent and no outside writer is allowed to
/// have one of these names.
const RESERVED: [&str; 3] = [LEAD_NAME, USER, SYSTEM];

/// The sender name of messages that the team itself writes.
pub(crate) const SYSTEM: &str = "system";

/// The sender name of the person at the terminal.
pub const USER: &str = "user";

/// The sender name of a person who runs `pitcrew send` in a shell. This sender counts as an outside
/// writer, because any program can run that command.
pub const OPERATOR: &str = "operator";

/// The caller of an operation. The process that calls the operation states the caller. The content
/// of a message never decides who the caller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The lead agent of the team.
    Lead,
    /// The member with this name. The lead is also a member, so its name is accepted here too.
    Member(AgentName),
    /// The person at the terminal. This person is allowed to do everything that the lead is allowed
    /// to do, except to answer requests in the lead's name.
    User,
    /// A writer that is not a member, with the writer's name. Such a writer is only allowed to send
    /// text messages.
    Outside(String),
}

/// The caller of an operation, looked up in the team's config.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    /// The name in the `from` field of the caller's messages.
    pub(crate) name: String,
    /// The color of the caller, if the caller is a teammate.
    pub(crate) color: Option<String>,
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
    /// Looks up `actor` in the config of the team.
    pub(crate) fn of(actor: &Actor, config: &TeamConfig) -> Result<Self, ApiError> {
        let known = |name: &str, rank| Self { name: name.to_owned(), color: None, rank };
        match actor {
            Actor::Lead => Ok(known(LEAD_NAME, Rank::Lead)),
            Actor::User => Ok(known(USER, Rank::User)),
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
                // A model reads the sender's name as text. A name that only looks like a member's
                // name could deceive the model, so this check refuses such a name too.
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

    /// Refuses every caller except the lead and the user.
    pub(crate) fn must_lead(&self, what: &str) -> Result<(), ApiError> {
        match self.rank {
            Rank::Lead | Rank::User => Ok(()),
            Rank::Teammate | Rank::Outside => {
                Err(refusal::denied(format!("only the lead may {what}")))
            }
        }
    }

    /// Refuses callers that are outside writers.
    pub(crate) fn must_belong(&self, what: &str) -> Result<(), ApiError> {
        match self.rank {
            Rank::Lead | Rank::User | Rank::Teammate => Ok(()),
            Rank::Outside => Err(refusal::denied(format!("only members may {what}"))),
        }
    }

    /// Returns the name for the `from` field of frames. For the user, this is the lead's name,
    /// because readers obey commands from the lead only.
    pub(crate) fn frame_name(&self) -> &str {
        match self.rank {
            Rank::User => LEAD_NAME,
            Rank::Lead | Rank::Teammate | Rank::Outside => &self.name,
        }
    }
}

/// Whether `name` is equal to a reserved name or looks like one. No agent is allowed to have such a
/// name.
pub(crate) fn is_reserved(name: &AgentName) -> bool {
    RESERVED.map(AgentName::foreign).iter().any(|reserved| passes_for(name, reserved))
}

/// Whether a program or a person could confuse `name` with `other`.
pub(crate) fn passes_for(name: &AgentName, other: &AgentName) -> bool {
    one_form(name, other) || looks_like(name, other) || is_confusable(name.as_str(), other.as_str())
}

/// Whether a reader could confuse `name` with `other`. Only letters and digits are compared,
/// because other characters are easy to overlook. A letter of `name` that is not ASCII counts as
/// equal to every letter, because it can look like any of them.
fn looks_like(name: &AgentName, other: &AgentName) -> bool {
    let seen = |name: &AgentName| -> Vec<char> {
        name.as_str().chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let (name, other) = (seen(name), seen(other));
    name.len() == other.len() && name.iter().zip(&other).all(|(a, b)| a == b || !a.is_ascii())
}

/// Whether two names have the same inbox file. The comparison ignores letter case, because many
/// file systems ignore it too.
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
