//! The end of a client's session, and of its team.

use std::fmt;

use pitcrew_model::{Usage, in_dollars};
use pitcrew_protocol::counted;
use serde::{Deserialize, Serialize};

use crate::text::in_one_line;
use crate::wording::short;

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

impl SessionSummary {
    /// Returns the outcome as one line of text: how the session ended, its duration, turns and cost.
    #[must_use]
    pub fn line(&self) -> String {
        let outcome = in_one_line(&self.outcome.replace('_', " "));
        let failed = if self.is_error { "failed: " } else { "" };
        let of_models = self.duration_api_ms.map(|ms| format!("model calls {}", in_time(ms)));
        let turns = self.turns.map(|turns| counted(turns, "turn"));
        let lasted = self.duration_ms.map(|ms| format!("lasted {}", in_time(ms)));
        let parts = [lasted, of_models, turns, self.cost_usd.map(in_dollars)];
        let parts: Vec<String> =
            [format!("{failed}{outcome}")].into_iter().chain(parts.into_iter().flatten()).collect();
        parts.join(", ")
    }
}

impl ModelUse {
    /// Returns the tokens in words.
    #[must_use]
    pub fn tokens(&self) -> String {
        tokens_in_words(&self.usage)
    }

    /// Returns the cost in dollars. It is `-` if no price is known.
    #[must_use]
    pub fn cost(&self) -> String {
        self.cost_usd.map_or_else(|| "-".to_owned(), in_dollars)
    }
}

/// Returns tokens in words, by the way in which they were used.
#[must_use]
pub fn tokens_in_words(usage: &Usage) -> String {
    let Usage { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } =
        usage;
    format!(
        "{} in, {} out, {} from the cache, {} into it",
        short(*input_tokens),
        short(*output_tokens),
        short(*cache_read_input_tokens),
        short(*cache_creation_input_tokens)
    )
}

/// Returns a duration in words.
fn in_time(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds}.{} s", ms % 1_000 / 100),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_line_that_cannot_control_a_terminal() {
        let summary = SessionSummary {
            outcome: "error_max_turns\u{1b}[2J\nx".to_owned(),
            is_error: true,
            duration_ms: Some(10_786),
            duration_api_ms: Some(1_204_342),
            turns: Some(1),
            cost_usd: Some(8.56),
            ..SessionSummary::default()
        };
        assert_eq!(
            summary.line(),
            "failed: error max turns\u{fffd}[2J | x, lasted 10.7 s, model calls 20 min 4 s, 1 turn, $8.56"
        );
        assert_eq!(SessionSummary::default().line(), "");
    }

    #[test]
    fn durations_have_the_units_that_a_person_would_use() {
        let shown = [999, 59_999, 60_000, 3_599_999, 7_500_000].map(in_time);
        assert_eq!(shown, ["999 ms", "59.9 s", "1 min 0 s", "59 min 59 s", "2 h 5 min"]);
    }
}
