//! The permissions of a run as its host reports them: the rules in force, and what a person has
//! allowed in the run.

use pitcrew_permission::gate::RuleInForce;
use pitcrew_protocol::AgentName;
use serde::{Deserialize, Serialize};

/// The permissions of a run: the answer to the request `permissions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunPermissions {
    /// Who answers permission requests.
    pub answers: Answers,
    /// The rules that the settings contain, in the order in which they are checked.
    pub rules: Vec<RuleInForce>,
    /// The permissions that a person has granted in this run, the oldest first.
    pub granted: Vec<Granted>,
    /// How many rules and granted permissions are left out, because the answer would be too long.
    pub left_out: usize,
}

/// Who answers the permission requests of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// A person.
    #[default]
    Person,
    /// Nobody. Each call that no rule allows is refused.
    Nobody,
    /// Nobody. Each call that no rule denies is allowed.
    Yes,
}

/// A permission that a person has granted in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The agent that has the permission. `None` if it is valid for every agent of the run.
    pub agent: Option<AgentName>,
    /// The rule of the permission. If it has no rule, this text describes it.
    pub what: String,
    /// Whether the rule was also written into the user's settings.
    pub is_saved: bool,
}
