//! The end of a client's session, and of its team.

use std::fmt;

use pitcrew_model::Usage;
use serde::{Deserialize, Serialize};

/// The end of a team, as the answer to the lead's request to clean it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// The team's folders are removed.
    CleanedUp,
    /// The team still exists, for this reason.
    Failed(String),
}

impl fmt::Display for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CleanedUp => f.write_str("cleaned_up"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// The summary at the end of a client's session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSummary {
    /// The outcome: `success`, or the kind of failure, such as `error_max_turns`.
    pub outcome: String,
    /// Whether the session failed.
    pub is_error: bool,
    /// The last text of the lead.
    pub result: String,
    /// The duration of the session, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The time that model calls took, in milliseconds. Calls at the same time are added up.
    pub duration_api_ms: Option<u64>,
    /// The number of the lead's turns.
    pub turns: Option<u64>,
    /// The cost of the session in US dollars.
    pub cost_usd: Option<f64>,
    /// The tokens of the lead.
    pub usage: Usage,
    /// The tokens and the cost of each model, of all agents together.
    pub models: Vec<ModelUse>,
}

/// The tokens and the cost of one model in a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelUse {
    /// The name of the model.
    pub model: String,
    /// The tokens that the model used.
    pub usage: Usage,
    /// The cost in US dollars.
    pub cost_usd: Option<f64>,
    /// The number of web searches.
    pub web_searches: u64,
}
